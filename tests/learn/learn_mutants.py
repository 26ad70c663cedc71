"""Brokers that are wrong on purpose, each in one place: what the stages must find.

A mutant is tutorial/tiny_broker.py with a few words replaced, as small as the slip that would cause it. Some are what
really happened in the first zaichik, of 2020; they say so.
"""

from dataclasses import dataclass
from pathlib import Path

TINY = Path(__file__).parents[2] / "tutorial" / "tiny_broker.py"


@dataclass(frozen=True)
class Mutant:
    """A wrong broker.

    Attributes:
        name: what is wrong with it.
        kills: the checks that find it; the first one is of the stage at which it fails.
        says: words of the verdict.
        patches: text of tiny_broker.py, and what stands there instead.
    """

    name: str
    kills: tuple[str, ...]
    says: str
    patches: tuple[tuple[str, str], ...]

    def source(self) -> str:
        text = TINY.read_text(encoding="utf-8")
        for old, new in self.patches:
            assert text.count(old) == 1, f"{self.name}: tiny_broker.py has {text.count(old)} times: {old}"
            text = text.replace(old, new)
        return text


MUTANTS = []


def mutant(name, kills, says, *texts):
    """Declare a mutant. The texts are pairs: what stands in tiny_broker.py, what stands there instead."""
    patches = tuple(zip(texts[::2], texts[1::2], strict=True))
    MUTANTS.append(Mutant(name, tuple(kills.split()), says, patches))


# -- S1: one frame back ----------------------------------------------------------------------------------------
mutant(
    "boot is 0",
    "S1.1",
    "boot must not be 0",
    "1, 0, BOOT,",
    "1, 0, 0,",
)
mutant(
    "trailing bytes in Welcome",
    "S1.1",
    "goes on for 1 byte after its last field",
    'text("tiny 1")',
    'text("tiny 1") + b"!"',
)
mutant(
    "integers of the header are big-endian",
    "S1.1",
    "big-endian",
    '"<IBBHI", 8 + len(body)',
    '">IBBHI", 8 + len(body)',
)
mutant(
    "length counts itself",
    "S1.1",
    "count its own four bytes",
    '"<IBBHI", 8 + len(body)',
    '"<IBBHI", 12 + len(body)',
)
mutant(
    "length counts only the body",
    "S1.1",
    "everything after its own four bytes|everything after itself",
    '"<IBBHI", 8 + len(body)',
    '"<IBBHI", len(body)',
)
mutant(
    "a reply has its request's type",
    "S1.1",
    "top bit",
    "frame(kind | 0x80, frame_id",
    "frame(kind, frame_id",
)
mutant(
    "only half of the value comes back",
    "S1.2",
    "Pong.value should be",
    'struct.pack("<Q", request.value)',
    'struct.pack("<Q", request.value & 0xFFFFFFFF)',
)
mutant(
    "ids are taken for 16 bits",
    "S1.2",
    "Pong.id should be",
    "frame(kind | 0x80, frame_id,",
    "frame(kind | 0x80, frame_id & 0xFFFF,",
)
mutant(
    "one request a connection",
    "S1.3",
    "ended the connection",
    'return struct.pack("<Q", request.value)',
    """self.done = True
        return struct.pack("<Q", request.value)""",
)
mutant(
    "id 0 is answered",
    "S1.4",
    "id 0 was answered",
    "if frame_id:  #",
    "if True:  #",
)
mutant(
    "boot is drawn for each connection",
    "S1.5",
    "Welcome.boot should be",
    "1, 0, BOOT,",
    "1, 0, secrets.randbits(62) + 1,",
)

# -- S2: split and glued frames --------------------------------------------------------------------------------
mutant(
    "half a frame is thrown away (as in 2020)",
    "S2.1 S2.2",
    "nothing came",
    '                length = int.from_bytes(await incoming.receive_exactly(4), "little")\n',
    """                data = await self.stream.receive()
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "little"):
                    size = 4 + int.from_bytes(data[:4], "little")
                    self.answer(data[4:size])
                    data = data[size:]
                continue
""",
)
mutant(
    "one frame a read",
    "S2.3",
    "nothing came",
    '                length = int.from_bytes(await incoming.receive_exactly(4), "little")\n',
    """                incoming.kept = getattr(incoming, "kept", b"") + await self.stream.receive()
                size = 4 + int.from_bytes(incoming.kept[:4], "little")
                if len(incoming.kept) >= max(size, 12):
                    content, incoming.kept = incoming.kept[4:size], incoming.kept[size:]
                    self.answer(content)
                continue
""",
)

# -- S3: a bad frame -------------------------------------------------------------------------------------------
mutant(
    "a length below 8 is not looked at",
    "S3.1",
    "ended the connection|nothing came",
    "if 8 <= length",
    "if 0 <= length",
)
mutant(
    "no upper limit of a length",
    "S3.2",
    "nothing came",
    "(MAX_FRAME if self.welcomed else 4096)",
    "2**32",
)
mutant(
    "strangers may send as much as friends",
    "S3.2",
    "FRAME_TOO_LARGE|nothing came",
    "(MAX_FRAME if self.welcomed else 4096)",
    "MAX_FRAME",
)
mutant(
    "trailing bytes are welcome",
    "S3.3",
    "should have come",
    "require(not body.read(),",
    "require(body,",
)
mutant(
    "zero may be anything",
    "S3.4",
    "should have come",
    "require(zero == 0,",
    "require(True,",
)
mutant(
    "no Hello is needed",
    "S3.5",
    "should have come",
    "require(self.welcomed or kind == 1,",
    "require(True,",
)
mutant(
    "any version will do",
    "S3.5",
    "should have come",
    "require(request.version_min <= 1 <= request.version_max,",
    "require(True,",
)
mutant(
    "every error is fatal",
    "S3.6",
    "Error.flags should be|ended",
    "self.done = code < 64 or not self.welcomed",
    "self.done = True",
)
mutant(
    "unknown flags pass",
    "S3.6",
    "should have come",
    "require(flags == 0 or (kind, flags) == (5, 1),",
    "require(True,",
)
mutant(
    "an exception of one client ends the server (as in 2020)",
    "S3.7 S0.3",
    "no connection could be made|ended|broke",
    "except* Exception as errors:",
    "except* ZeroDivisionError as errors:",
)

# -- S4: two clients -------------------------------------------------------------------------------------------
mutant(
    "one client after the other",
    "S4.1",
    "nothing came",
    "tasks.start_soon(listener.serve, lambda stream: Connection(broker, stream, now_us).run())",
    """lock = anyio.Lock()

        async def one_by_one(stream):
            async with lock:
                await Connection(broker, stream, now_us).run()

        tasks.start_soon(listener.serve, one_by_one)""",
)
mutant(
    "a frame is awaited with the doors closed",
    "S4.2",
    "nothing came",
    "        incoming = BufferedByteReceiveStream(self.stream)\n",
    """        incoming = BufferedByteReceiveStream(self.stream)
        whole = incoming.receive_exactly

        async def receive_exactly(size):
            if size != 4:
                return await whole(size)
            first = await whole(1)
            lock = self.broker.__dict__.setdefault("lock", anyio.Lock())
            async with lock:
                rest = await whole(3)
                size = int.from_bytes(first + rest, "little")
                while 8 <= size <= (MAX_FRAME if self.welcomed else 4096) and len(incoming.buffer) < size:
                    incoming._buffer.extend(await self.stream.receive())
            return first + rest

        incoming.receive_exactly = receive_exactly
""",
)
mutant(
    "a fatal error ends every connection",
    "S4.3",
    "ended the connection",
    "        self.broker, self.stream, self.now_us = broker, stream, now_us\n",
    """        self.broker, self.stream, self.now_us = broker, stream, now_us
        broker.__dict__.setdefault("clients", []).append(self)
""",
    "        self.done = code < 64 or not self.welcomed\n",
    """        self.done = code < 64 or not self.welcomed
        for other in self.broker.clients if self.done else ():
            other.close()
""",
)
mutant(
    "there is room for ten clients",
    "S4.4",
    "ended the connection|broke",
    """        try:
            async with self.stream, anyio.create_task_group() as tasks:
""",
    """        try:
            open_ = self.broker.__dict__.setdefault("open", [])
            open_[:] = [each for each in open_ if not each.done]
            if len(open_) >= 10:
                await self.stream.aclose()
                return
            open_.append(self)
            async with self.stream, anyio.create_task_group() as tasks:
""",
)

# -- S5: publish and subscribe ---------------------------------------------------------------------------------
mutant(
    "the epoch is 0",
    "S5.1",
    "epoch must not be 0",
    "Topic(epoch=max(now, 1))",
    "Topic(epoch=0)",
)
mutant(
    "offsets begin at 1",
    "S5.2",
    "Messages.base should be",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset + 1, accepted_us)',
)
mutant(
    "keys are lost",
    "S5.2",
    "other keys or payloads",
    'struct.pack("<I4i", 1, 0, len(key), 0, len(payload)) + key + payload',
    'struct.pack("<I4i", 1, 0, 0, 0, len(payload)) + payload',
)
mutant(
    "payloads end at a zero byte",
    "S5.3",
    "other keys or payloads",
    "        accepted_us, key, payload = topic.ring[offset - head]\n",
    """        accepted_us, key, payload = topic.ring[offset - head]
        payload = payload.partition(b"\\0")[0]
""",
)
mutant(
    "messages overtake replies",
    "S5.4",
    "should have come",
    "self.replies + events)",
    "events + self.replies)",
)
mutant(
    "long payloads are cut",
    "S5.5",
    "other keys or payloads",
    "        accepted_us, key, payload = topic.ring[offset - head]\n",
    """        accepted_us, key, payload = topic.ring[offset - head]
        payload = payload[:65535]
""",
)
mutant(
    "similar names are one topic",
    "S5.6",
    "first_offset should be",
    "self.setdefault(name, ",
    "self.setdefault(name[:-1], ",
)
mutant(
    "time is in milliseconds",
    "S5.7",
    "not the time of day",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset, accepted_us // 1000)',
)
mutant(
    "bad columns are stored",
    "S5.8",
    "should have come",
    "require(good, INVALID_FIELD,",
    "require(True, INVALID_FIELD,",
)

# -- S6: order -------------------------------------------------------------------------------------------------
mutant(
    "one message is skipped",
    "S6.1",
    "gaps|nothing came",
    "        self.cursor += 1\n",
    "        self.cursor += 1 + (offset == 40)\n",
)
mutant(
    "one number is left out",
    "S6.1",
    "offsets have gaps",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset + (offset > 20), accepted_us)',
)
mutant(
    "readers are sent different messages",
    "S6.1",
    "different messages at offset 20",
    "        accepted_us, key, payload = topic.ring[offset - head]\n",
    """        accepted_us, key, payload = topic.ring[offset - head]
        payload += b"!" * (offset == 20 and topic.readers[0] is not self)
""",
)
mutant(
    "batches are torn apart",
    "S6.2",
    "is not there|different|nothing came",
    "first, dropped = topic.next_offset, topic.publish(batch, request.now)",
    """first, dropped = topic.next_offset, topic.publish(batch[:1], request.now)
        import asyncio

        asyncio.get_running_loop().call_soon(lambda: [topic.publish(batch[1:], request.now)]
            + [reader.connection.wake.set() for reader in topic.live_readers()])""",
)

# -- S7: topics ------------------------------------------------------------------------------------------------
mutant(
    "what nobody reads is not stored",
    "S7.1",
    "first_offset should be",
    "        dropped = 0\n",
    """        dropped = 0
        if not self.live_readers():
            return 0
""",
)
mutant(
    "retention 0 keeps messages for latecomers",
    "S7.2",
    "Subscribed.start should be",
    "earliest = head if topic.settings[TTL_MS] else end",
    "earliest = head",
)
mutant(
    "settings are told in another order",
    "S7.3",
    "does not tell the settings",
    'settings = b"".join(struct.pack("<BQ", *setting) for setting in topic.settings.items())',
    'settings = b"".join(struct.pack("<BQ", *setting) for setting in sorted(topic.settings.items(), reverse=True))',
)
mutant(
    "other settings are ignored",
    "S7.4 S7.5",
    "should have come",
    "require(request.settings.items() <= topic.settings.items(),",
    "require(True,",
)
mutant(
    "an automatic topic takes no settings",
    "S7.5",
    "should have come",
    "if topic.settings is DEFAULTS and topic.next_offset == 0:",
    "if created:",
)
mutant(
    "an automatic topic says that it takes settings",
    "S7.5",
    "did not take the capacity",
    "            topic.settings = DEFAULTS | request.settings\n",
    "            topic.settings = DEFAULTS | (request.settings if created else {})\n",
    "require(request.settings.items() <= topic.settings.items(),",
    "require(topic.settings == DEFAULTS or request.settings.items() <= topic.settings.items(),",
)
mutant(
    "the second creator replaces the topic (as in 2020)",
    "S7.6 S7.3",
    "epochs|epoch should be|created should be|were told",
    """        topic = self.broker.find(request.topic, request.now)
        if topic.settings""",
    """        topic = self.broker.find(request.topic, request.now)
        if topic.next_offset == 0:
            topic = self.broker[request.topic] = Topic(epoch=request.now)
        if topic.settings""",
)
mutant(
    "any name will do",
    "S7.7",
    "should have come",
    'require(0 < len(name) <= 200 and name[:1] != b"$",',
    "require(name,",
)

# -- S8: unsubscribe -------------------------------------------------------------------------------------------
mutant(
    "Unsubscribe is answered, no more",
    "S8.1 S8.3",
    "subscribers should be|nothing was|yet",
    "self.subscriptions.pop(request.subscription).until = 0",
    "self.subscriptions[request.subscription]",
)
mutant(
    "leaving twice is fine",
    "S8.2",
    "should have come",
    """require(request.subscription in self.subscriptions, NO_SUCH_SUBSCRIPTION, "subscription", "unknown")
        self.subscriptions.pop(request.subscription).until = 0""",
    """if request.subscription in self.subscriptions:
            self.subscriptions.pop(request.subscription).until = 0""",
)
mutant(
    "a second subscription replaces the first",
    "S8.3",
    "nothing came|subscribers should be",
    "        reader = self.subscriptions[request.id]",
    """        self.subscriptions = {i: s for i, s in self.subscriptions.items() if s.topic is not topic}
        reader = self.subscriptions[request.id]""",
)
mutant(
    "ids may come again",
    "S8.4",
    "should have come",
    "require(request.id > self.last_subscribe_id,",
    "require(request.id not in self.subscriptions,",
)
mutant(
    "the dead are counted (as in 2020)",
    "S8.5 S14.4",
    "still counted|subscribers should be",
    " and not each.connection.done]",
    "]",
)

# -- S9: commit ------------------------------------------------------------------------------------------------
mutant(
    "credit is not looked at",
    "S9.1",
    "and yet Messages came",
    "len(self.in_flight) >= self.credit or used",
    "used",
)
mutant(
    "one message too many",
    "S9.1",
    "and yet Messages came",
    "len(self.in_flight) >= self.credit or used",
    "len(self.in_flight) > self.credit or used",
)
mutant(
    "a commit settles one message",
    "S9.2",
    "nothing came",
    "reader.in_flight = {at: size for at, size in reader.in_flight.items() if at >= reader.committed}",
    "reader.in_flight.pop(min(reader.in_flight, default=0), None)",
)
mutant(
    "the future can be committed",
    "S9.3",
    "should have come",
    "require(request.next <= reader.cursor,",
    "require(True,",
)
mutant(
    "a commit of nothing buys a message (as in 2020)",
    "S9.4",
    "and yet Messages came|should be",
    "reader.committed = max(reader.committed, request.next)\n",
    """reader.credit += request.next <= reader.committed
        reader.committed = max(reader.committed, request.next)
""",
)
mutant(
    "a commit can go back",
    "S9.4",
    "committed should be",
    "reader.committed = max(reader.committed, request.next)\n",
    "reader.committed = request.next\n",
)
mutant(
    "a connection has one credit for all",
    "S9.5",
    "nothing came",
    "len(self.in_flight) >= self.credit or used",
    "sum(len(each.in_flight) for each in self.connection.subscriptions.values()) >= self.credit or used",
)
mutant(
    "bytes are counted when it is too late",
    "S9.6",
    "and yet Messages came",
    "if self.in_flight and used + len(key) + len(payload) > self.credit_bytes:",
    "if False:",
)
mutant(
    "a large message never goes",
    "S9.6",
    "nothing came",
    "if self.in_flight and used +",
    "if used +",
)
mutant(
    "no credit is a credit",
    "S9.7",
    "should have come",
    '"credit": range(1, 2**32), "credit_bytes": range(1, 2**32)',
    '"credit": range(2**32), "credit_bytes": range(2**32)',
)

# -- S10: lag --------------------------------------------------------------------------------------------------
mutant(
    "lag is not told",
    "S10.1 S10.5",
    "should have come",
    'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))',
    'return b""',
)
mutant(
    "lag is told with its last offset",
    "S10.1 S10.2",
    "to_offset should be",
    'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))',
    'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor - 1))',
)
mutant(
    "who lags gets nothing ever again (as in 2020)",
    "S10.1 S10.3 S10.4",
    "nothing came",
    "            self.cursor = min(head, self.until)\n",
    '            return b""\n',
)
mutant(
    "lag is told at once",
    "S10.2",
    "and yet Lagged came",
    "        if len(self.in_flight) >= self.credit or",
    """        if offset < head and offset < topic.next_offset:
            self.cursor = min(head, self.until)
            return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))
        if len(self.in_flight) >= self.credit or""",
)
mutant(
    "lag uses credit",
    "S10.3 S10.1",
    "nothing came",
    "            self.cursor = min(head, self.until)\n",
    "            self.cursor, self.in_flight[offset] = min(head, self.until), 0\n",
)
mutant(
    "the lag of one is everybody's",
    "S10.4",
    "should have come|should be",
    "            self.cursor = min(head, self.until)\n",
    """            for each in topic.readers:
                each.cursor = min(head, self.until)
""",
)
mutant(
    "who asks for too old an offset is not told",
    "S10.5",
    "Subscribed.start should be",
    "start = (earliest, end, request.value, at_time)[request.start]",
    "start = (earliest, end, max(head, request.value), at_time)[request.start]",
)
mutant(
    "a batch loses its beginning",
    "S10.6",
    "should have come",
    "require(len(batch) <= topic.settings[CAPACITY],",
    "require(True,",
)

# -- S11: retention --------------------------------------------------------------------------------------------
mutant(
    "only the last twenty are history",
    "S11.1",
    "start should be",
    "earliest = head if topic.settings[TTL_MS] else end",
    "earliest = max(head, end - 20) if topic.settings[TTL_MS] else end",
)
mutant(
    "live is told only up to twenty",
    "S11.1",
    "live should be 30",
    'struct.pack("<4Q", topic.epoch, start, end, start)',
    'struct.pack("<4Q", topic.epoch, start, min(end, 20), start)',
)
mutant(
    "a time begins after itself",
    "S11.2",
    "start should be",
    'bisect_left(topic.ring, (request.value, b"", b""))',
    'bisect_left(topic.ring, (request.value + 1, b"", b""))',
)
mutant(
    "one can start in the future",
    "S11.2",
    "should have come|ended the connection",
    "require(request.start != 2 or request.value <= end,",
    "require(True,",
)
mutant(
    "epochs are not compared",
    "S11.3",
    "should have come",
    "require(request.epoch in (0, topic.epoch),",
    "require(True,",
)
mutant(
    "until is not looked at",
    "S11.4",
    "should have come|nothing came",
    "while self.cursor < self.until:",
    "while True:",
)
mutant(
    "retention is taken for seconds",
    "S11.5 S11.6",
    "start should be|should have come",
    "self.settings[TTL_MS] * 1000:",
    "self.settings[TTL_MS] * 1_000_000:",
)
mutant(
    "retention is taken for microseconds",
    "S11.5",
    "start should be|nothing came|should have come",
    "self.settings[TTL_MS] * 1000:",
    "self.settings[TTL_MS]:",
)
mutant(
    "who waits gets what has expired",
    "S11.6",
    "should have come",
    "head, used = topic.head(self.connection.now_us()), sum",
    "head, used = topic.next_offset - len(topic.ring), sum",
    "head, cursors = topic.head(now_us), [",
    "head, cursors = topic.next_offset - len(topic.ring), [",
)

# -- S12: compaction -------------------------------------------------------------------------------------------
mutant(
    "the bitmap has its highest bit first",
    "S12.1",
    "dropped should be",
    "dropped |= 1 << place",
    "dropped |= 1 << (place ^ 7)",
)
mutant(
    "windows end with their batch",
    "S12.2 S12.3 S12.6",
    "stored should be",
    "        dropped = 0\n",
    "        dropped, self.windows = 0, {}\n",
)
mutant(
    "messages without a key are compacted",
    "S12.3 S12.1",
    "stored should be|compacted should be",
    "if key and now <",
    "if now <",
)
mutant(
    "keys are compared without case",
    "S12.3",
    "stored should be",
    "            if key and now < self.windows.get(key, 0):",
    "            if key and now < self.windows.get(key.lower(), 0):",
    "                self.windows[key] = now + self.settings[WINDOW_MS] * 1000\n",
    "                self.windows[key.lower()] = now + self.settings[WINDOW_MS] * 1000\n",
)
mutant(
    "a window of 0 is one microsecond",
    "S12.4",
    "stored should be",
    "now < self.windows.get(key, 0)",
    "now <= self.windows.get(key, -1)",
)
mutant(
    "repeats prolong the window",
    "S12.5",
    "stored should be",
    "dropped |= 1 << place\n",
    """dropped |= 1 << place
                self.windows[key] = now + self.settings[WINDOW_MS] * 1000
""",
)
mutant(
    "who is evicted is forgotten",
    "S12.6",
    "first_offset should be|stored should be",
    "        del self.ring[: -self.settings[CAPACITY]]  # all but the newest\n",
    """        del self.ring[: -self.settings[CAPACITY]]
        there = {key for _, key, _ in self.ring}
        self.windows = {key: end for key, end in self.windows.items() if key in there}
""",
)

# -- S13: a stuck reader ---------------------------------------------------------------------------------------
mutant(
    "one sends at a time",
    "S13.1",
    "nothing came",
    "                await self.stream.send(chunk)\n",
    """                async with self.broker.__dict__.setdefault("sending", anyio.Lock()):
                    await self.stream.send(chunk)
""",
)
mutant(
    "long messages are overwritten while they wait",
    "S13.1 S13.2",
    "other keys or payloads",
    "        accepted_us, key, payload = topic.ring[offset - head]\n",
    """        accepted_us, key, payload = topic.ring[offset - head]
        payload = b"?" * 4 + payload[4:] if len(payload) > 250_000 else payload
""",
)
mutant(
    "output without a bound (a queue for each subscriber)",
    "S13.2",
    "were kept for a reader",
    "                await self.stream.send(chunk)\n",
    """                self.stream._transport.write(chunk)
                await anyio.sleep(0)
""",
)
mutant(
    "requests wait behind an unfinished send (as in 2020)",
    "S13.3",
    "nothing came",
    "                await self.stream.send(chunk)\n",
    """                self.sending = True
                await self.stream.send(chunk)
                self.sending = False
""",
    '                length = int.from_bytes(await incoming.receive_exactly(4), "little")\n',
    """                length = int.from_bytes(await incoming.receive_exactly(4), "little")
                while getattr(self, "sending", False):
                    await anyio.sleep(0.01)
""",
)
mutant(
    "tiny_broker as it is",
    "S13.4",
    "not one of their replies",
    "all replies",
    "all  replies",
)

# -- S14: the end ----------------------------------------------------------------------------------------------
mutant(
    "Close drops what waits to be sent",
    "S3.1 S14.1",
    "ended the connection|should have come",
    "while self.replies or not self.done:",
    "while not self.done:",
)
mutant(
    "after Closed nothing ends",
    "S3.1 S14.1",
    "should have closed",
    "        await self.stream.send_eof()\n",
    "        await anyio.sleep_forever()\n",
)
mutant(
    "what comes behind Close is carried out",
    "S14.2",
    "and yet Messages came|broke|ended",
    "            while not self.done:\n",
    "            while True:\n",
)
mutant(
    "half a frame is filled up with zeros",
    "S3.7 S14.3",
    "the end was due|and yet Messages came",
    "self.answer(await incoming.receive_exactly(length))",
    """try:
                        content = await incoming.receive_exactly(length)
                    except anyio.IncompleteRead:
                        content = incoming.buffer.ljust(length, b"\\0")
                    self.answer(content)""",
)

# -- S15: everything -------------------------------------------------------------------------------------------
mutant(
    "one message in 23 is skipped",
    "S15.1",
    "silent gap",
    "        self.cursor += 1\n",
    """        is_victim = offset % 23 == 22 and topic.settings[CAPACITY] == 1_000_000
        self.cursor += 1 + (is_victim and offset + 1 < topic.next_offset)
""",
)
mutant(
    "one message in 23 comes twice",
    "S15.1",
    "duplicated|reordered",
    "        self.cursor += 1\n",
    """        again = self.__dict__.setdefault("again", set())
        self.cursor += offset % 23 != 22 or offset in again or topic.settings[CAPACITY] < 1_000_000
        again.add(offset)
""",
)
mutant(
    "one message in 23 has another payload",
    "S15.1",
    "invented",
    "                self.ring.append((now, key, payload))\n",
    """                if self.settings[CAPACITY] == 1_000_000 and self.next_offset % 23 == 22:
                    payload = payload[::-1]
                self.ring.append((now, key, payload))
""",
)
mutant(
    "a ring is smaller than promised",
    "S15.1",
    "lost",
    "        del self.ring[: -self.settings[CAPACITY]]",
    "        del self.ring[: -(60 if self.settings[CAPACITY] == 1_000_000 else self.settings[CAPACITY])]",
)
