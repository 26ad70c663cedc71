"""Brokers that are wrong about stuck readers, the end, and everything at once (S13 to S15)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S13: a stuck reader -------------------------------------------------------------------------
mutant(
    "one sends at a time",
    "S13.1",
    "nothing came",
    "Connection.write",
    "await self.stream.send(chunk)",
    """
    async with self.broker.__dict__.setdefault("sending", anyio.Lock()):
        await self.stream.send(chunk)
    """,
)
mutant(
    "long messages are overwritten while they wait",
    "S13.2 S13.1",
    "is not what was published",
    "Subscription.next_event",
    "accepted_us, key, payload = topic.ring[offset - head]",
    """
    accepted_us, key, payload = topic.ring[offset - head]
    payload = b"?" * 4 + payload[4:] if len(payload) > 250_000 else payload
    """,
)
mutant(
    "output without a bound (a queue for each subscriber)",
    "S13.2",
    "were kept for a reader",
    "Connection.write",
    "await self.stream.send(chunk)",
    """
    self.stream._transport.write(chunk)
    await anyio.sleep(0)
    """,
)
mutant(
    "requests wait behind an unfinished send (as in 2020)",
    "S13.3",
    "nothing came",
    "Connection.write",
    "await self.stream.send(chunk)",
    """
    self.sending = True
    await self.stream.send(chunk)
    self.sending = False
    """,
    "Connection.read",
    'length = int.from_bytes(await incoming.receive_exactly(4), "little")',
    """
    length = int.from_bytes(await incoming.receive_exactly(4), "little")
    while getattr(self, "sending", False):
        await anyio.sleep(0.01)
    """,
)
mutant(
    "tiny_broker as it is",
    "S13.4",
    "of their replies had not been read",
    "Connection.ping",
    '"""Says the same again."""',
    '"""Says the same."""',
)

# -- S14: the end --------------------------------------------------------------------------------
mutant(
    "Close drops what waits to be sent",
    "S3.1 S14.1 S14.9 S14.11",
    "ended the connection|should have come",
    "Connection.write",
    "self.replies or not self.done",
    "not self.done",
)
mutant(
    "after Closed nothing ends",
    "S3.1 S14.1",
    "should have ended the stream within",
    "Connection.write",
    "self.stream.send_eof()",
    "anyio.sleep_forever()",
)
mutant(
    "what comes behind Close is carried out",
    "S14.2",
    "but Messages came|broke|ended",
    "Connection.read",
    "not self.done",
    "True",
)
mutant(
    "half a frame is filled up with zeros",
    "S3.7 S14.3",
    "the stream should have ended|but Messages came",
    "Connection.read",
    "self.answer(await incoming.receive_exactly(length))",
    """
    try:
        content = await incoming.receive_exactly(length)
    except anyio.IncompleteRead:
        content = incoming.buffer.ljust(length, b"\\0")
    self.answer(content)
    """,
)

# -- S15: everything -----------------------------------------------------------------------------
mutant(
    "one message in 23 is skipped",
    "S15.1",
    "silent gap",
    "Subscription.next_event",
    "self.cursor += 1",
    """
    is_victim = offset % 23 == 22 and topic.settings[CAPACITY] == 1_000_000
    self.cursor += 1 + (is_victim and offset + 1 < topic.next_offset)
    """,
)
mutant(
    "one message in 23 comes twice",
    "S15.1",
    "duplicated|reordered",
    "Subscription.next_event",
    "self.cursor += 1",
    """
    again = self.__dict__.setdefault("again", set())
    self.cursor += (
        offset % 23 != 22 or offset in again or topic.settings[CAPACITY] < 1_000_000
    )
    again.add(offset)
    """,
)
mutant(
    "one message in 23 has another payload",
    "S15.1",
    "invented",
    "Topic.publish",
    "self.ring.append((now, key, payload))",
    """
    if self.settings[CAPACITY] == 1000000 and self.next_offset % 23 == 22:
        payload = payload[::-1]
    self.ring.append((now, key, payload))
    """,
)
mutant(
    "a ring is smaller than promised",
    "S15.1",
    "lost",
    "Topic.publish",
    "self.settings[CAPACITY]",
    "60 if self.settings[CAPACITY] == 1_000_000 else self.settings[CAPACITY]",
)

# -- S14: the end, and all frames ----------------------------------------------------------------
mutant(
    "offsets below 0 are taken from the other end",
    "S14.6",
    "should have come|ended|nothing came",
    "read_batch",
    """
    offsets[0] == offsets[count + 1] == 0 and bounds == sorted(bounds) and bounds[
        -1
    ] == len(strings)
    """,
    "bounds[-1] == len(strings)",
)
mutant(
    "flags of Publish are for later",
    "S14.7",
    "should have come",
    "Connection.answer",
    "flags == 0 or (kind, flags) == (5, 1)",
    "flags == 0 or kind == 3 or (kind, flags) == (5, 1)",
)
mutant(
    "a byte behind Close is dropped",
    "S14.7 S14.6",
    "should have come",
    "read_fields",
    "not body.read()",
    "not body.read() or not layout",
)
mutant(
    "a silent Close is answered",
    "S14.8",
    "more came",
    "Connection.answer",
    """
    if frame_id:
        self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
    """,
    """
    if frame_id or kind == 8:
        self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
    """,
)
mutant(
    "a silent Close is overlooked",
    "S14.8",
    "should have ended the stream within",
    "Connection.close",
    '"""Ends all subscriptions, and the connection. What has been answered is still sent."""',
    """
    if _request and not _request.id:
        return
    """,
)
mutant(
    "nothing is read after the end",
    "S14.12",
    "reset|broke",
    "Connection.run",
    "anyio.move_on_after(1)",
    "anyio.move_on_after(0)",
)
mutant(
    "after the end all is read for ever",
    "S14.12",
    "still takes",
    "Connection.run",
    "anyio.move_on_after(1)",
    "anyio.move_on_after(100)",
)
