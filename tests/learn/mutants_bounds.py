"""Brokers that are wrong at a bound, in a silence, or in a rare moment (the later checks of S5 to
S13).
"""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

mutant(
    "a silent Publish is not stored",
    "S5.10",
    "nothing came",
    "Connection.publish",
    """
    batch, topic = (
        read_batch(request.batch),
        self.broker.find(request.topic, request.now),
    )
    """,
    """
    batch, topic = (
        read_batch(request.batch),
        self.broker.find(request.topic, request.now),
    )
    if not request.id:
        return b""
    """,
)
mutant(
    "silence also when it fails",
    "S5.10 S9.9",
    "should|nothing came",
    "Connection.fail",
    "self.replies.append(frame(0xFF, frame_id, body, flags=2 if self.done else 0))",
    """
    self.replies += [frame(0xFF, frame_id, body, flags=2)] if self.done else []
    self.replies += [frame(0xFF, frame_id, body)] if frame_id and not self.done else []
    """,
)
mutant(
    "the epoch counts topics",
    "S11.14",
    "not the time of day",
    "Broker.find",
    "max(now, 1)",
    "1000 + len(self)",
)
mutant(
    "epochs may be older",
    "S11.14",
    "should have come",
    "Connection.subscribe",
    "request.epoch in (0, topic.epoch)",
    "request.epoch <= topic.epoch",
)
mutant(
    "an emptied topic takes settings",
    "S7.10",
    "should have come",
    "Connection.create_topic",
    "topic.next_offset == 0",
    "not topic.ring",
)
mutant(
    "only the first setting is compared",
    "S7.10",
    "should have come",
    "Connection.create_topic",
    "request.settings.items()",
    "set(list(request.settings.items())[:1])",
)
mutant(
    "an id is used up by a Subscribe that failed",
    "S8.6",
    "should have come",
    "Connection.subscribe",
    """
    require(
        not request.name,
        UNSUPPORTED,
        "name",
        "no named subscriptions here: leave it empty",
    )
    """,
    """
    self.last_subscribe_id = request.id
    require(
        not request.name,
        UNSUPPORTED,
        "name",
        "no named subscriptions here: leave it empty",
    )
    """,
)
mutant(
    "FORGET needs a name",
    "S8.7",
    "should have come",
    "Connection.answer",
    "flags == 0 or (kind, flags) == (5, 1)",
    "flags == 0",
)
mutant(
    "a silent commit wakes nobody",
    "S9.9 S9.13",
    "nothing came",
    "Connection.answer",
    "self.wake.set()",
    """
    if frame_id:
        self.wake.set()
    """,
    "Connection.write",
    "anyio.move_on_after(1)",
    "anyio.move_on_after(100)",
)
mutant(
    "keys are free",
    "S9.10",
    "but Messages came|nothing came",
    "Subscription.next_event",
    "len(key) + len(payload)",
    "len(payload)",
)
mutant(
    "as many bytes as allowed are too many",
    "S9.10",
    "nothing came",
    "Subscription.next_event",
    "used + len(key) + len(payload) > self.credit_bytes",
    "used + len(key) + len(payload) >= self.credit_bytes",
)
mutant(
    "a frame is settled with its first message",
    "S9.11",
    "but Messages came",
    "Subscription.next_event",
    'return frame(0x40, self.id, struct.pack("<Qq", offset, accepted_us) + batch)',
    """
    more = [
        each
        for each in topic.ring[offset - head + 1 :][:2]
        if each[0] == accepted_us and len(each[2]) == 30
    ]
    if not self.in_flight.keys() - {offset} and len(more) == 2:
        payloads = [payload, *(each[2] for each in more)]
        self.in_flight = {offset: 90, offset + 1: 0, offset + 2: 0}
        self.cursor += 2
        batch = struct.pack("<I8i", 3, 0, 0, 0, 0, 0, 30, 60, 90) + b"".join(payloads)
    return frame(64, self.id, struct.pack("<Qq", offset, accepted_us) + batch)
    """,
)
mutant(
    "Welcome promises more credit than is granted",
    "S9.12",
    "should have come",
    "RANGES",
    """
    {
        "auth": range(3),
        "start": range(4),
        "credit": range(1, 2**32),
        "credit_bytes": range(1, 2**32),
    }
    """,
    """
    {
        "auth": range(3),
        "start": range(4),
        "credit": range(1, 2**31),
        "credit_bytes": range(1, 2**32),
    }
    """,
)
mutant(
    "any credit is granted",
    "S9.12",
    "should have come",
    "Connection.hello",
    "2**32 - 1",
    "1000",
)
mutant(
    "the wake-up of the hundredth message is lost",
    "S9.13",
    "nothing came",
    "Connection.publish",
    "reader.connection.wake.set()",
    """
    if topic.next_offset != 100:
        reader.connection.wake.set()
    """,
    "Connection.write",
    "anyio.move_on_after(1)",
    "anyio.move_on_after(100)",
)
mutant(
    "what was skipped cannot be committed",
    "S10.6",
    "committed should be",
    "Connection.commit",
    "reader.committed = max(reader.committed, request.next)",
    """
    last = max(
        (at for at in reader.in_flight if at < request.next),
        default=reader.committed - 1,
    )
    reader.committed = max(reader.committed, last + 1)
    """,
)
mutant(
    "lag waits until nothing is in flight",
    "S10.7 S10.3",
    "nothing came",
    "Subscription.next_event",
    """
    if (
        len(self.in_flight) >= self.credit
        or used >= self.credit_bytes
        or offset == topic.next_offset
    ):
        return b""
    """,
    """
    if (
        len(self.in_flight) >= self.credit
        or used >= self.credit_bytes
        or offset == topic.next_offset
    ):
        return b""
    if offset < head and self.in_flight:
        return b""
    """,
)
mutant(
    "messages live 20 ms too long",
    "S11.8",
    "ms after its end",
    "Topic.head",
    "self.settings[TTL_MS] * 1000",
    "self.settings[TTL_MS] and self.settings[TTL_MS] * 1000 + 20_000",
)
mutant(
    "messages live 20 ms too short",
    "S11.8",
    "ms before its end",
    "Topic.head",
    "self.settings[TTL_MS] * 1000",
    "self.settings[TTL_MS] and self.settings[TTL_MS] * 1000 - 20_000",
)
mutant(
    "what somebody waits for is freed",
    "S11.9",
    "begins at",
    "Broker.sweep",
    "del topic.ring[: max(0, min(cursors, default=topic.next_offset) - head)]",
    "topic.ring.clear()",
)
mutant(
    "nothing is ever freed",
    "S11.9",
    "begins at 0",
    "Broker.sweep",
    "topic.settings[TTL_MS] == 0",
    "False",
)
mutant(
    "an until below the start is never reached",
    "S11.10",
    "should have come|nothing came",
    "Subscription.all_events",
    """
    while self.cursor < self.until:
        yield self.next_event()
    """,
    """
    start = self.cursor
    while self.cursor != self.until or start > self.until:
        yield self.next_event()
    """,
)
mutant(
    "lag goes beyond until",
    "S11.10",
    "to_offset should be",
    "Subscription.next_event",
    "min(head, self.until)",
    "head",
)
mutant(
    "times are signed",
    "S11.11",
    "start should be",
    "Connection.subscribe",
    '(request.value, b"", b"")',
    '((request.value + 2**63) % 2**64 - 2**63, b"", b"")',
)
mutant(
    "the future of all starts is looked at",
    "S11.11",
    "should have come",
    "Connection.subscribe",
    "request.start != 2",
    "request.start == 3",
)
mutant(
    "windows are 20 ms too long",
    "S12.7",
    "ms after its end",
    "Topic.publish",
    "now + self.settings[WINDOW_MS] * 1000",
    "now + self.settings[WINDOW_MS] * 1000 + 20_000 * (self.settings[WINDOW_MS] > 0)",
)
mutant(
    "windows are 20 ms too short",
    "S12.7",
    "ms before its end",
    "Topic.publish",
    "now + self.settings[WINDOW_MS] * 1000",
    "now + self.settings[WINDOW_MS] * 1000 - 20_000 * (self.settings[WINDOW_MS] > 0)",
)
mutant(
    "what is refused opens windows",
    "S12.9",
    "stored should be",
    "Connection.publish",
    """
    batch, topic = (
        read_batch(request.batch),
        self.broker.find(request.topic, request.now),
    )
    """,
    """
    batch, topic = (
        read_batch(request.batch),
        self.broker.find(request.topic, request.now),
    )
    if len(batch) > topic.settings[CAPACITY]:
        topic.windows |= {
            key: request.now + topic.settings[WINDOW_MS] * 1000 for key, _ in batch
        }
    """,
)
mutant(
    "the bitmap always has a byte to spare",
    "S12.10",
    "dropped should be",
    "Connection.publish",
    "(len(batch) + 7) // 8",
    "len(batch) // 8 + 1",
)
mutant(
    "long keys are compared by their beginnings",
    "S12.10",
    "should be",
    "Topic.publish",
    "enumerate(batch)",
    "enumerate((key[:1000], payload) for key, payload in batch)",
)
mutant(
    "who is busy stays at it",
    "S13.5",
    "before that of a quiet one",
    "Connection.write",
    'events = [next(reader.events, b"") for reader in self.subscriptions.values()]',
    """
    readers = sorted(
        self.subscriptions.values(),
        key=lambda each: each.topic.next_offset,
        reverse=True,
    )
    events = [
        next((event for reader in readers if (event := next(reader.events, b""))), b"")
    ]
    """,
)
mutant(
    "a silent CreateTopic is overlooked",
    "S7.11",
    "created should be",
    "Connection.create_topic",
    '"""Makes a topic, or agrees that it is there already."""',
    """
    if not request.id:
        return b""
    """,
)
mutant(
    "an Error to a Commit comes late",
    "S9.14",
    "should have come|should be",
    "Connection.answer",
    "self.fail(kind, frame_id, *refused.args)",
    """
    import asyncio

    args = refused.args
    late = 0.02 if kind == 6 else 0
    fail = lambda: (self.fail(kind, frame_id, *args), self.wake.set())
    asyncio.get_running_loop().call_later(late, fail) if late else fail()
    """,
)
mutant(
    "with retention 0 an offset means latest",
    "S11.15",
    "start should be",
    "Connection.subscribe",
    "(earliest, end, request.value, at_time)",
    "(earliest, end, request.value if topic.settings[TTL_MS] else end, at_time)",
)
mutant(
    "with retention 0 a publish frees what was there",
    "S11.15",
    "should have come|nothing came",
    "Connection.publish",
    "first, dropped = topic.next_offset, topic.publish(batch, request.now)",
    """
    if topic.settings[TTL_MS] == 0 and (not topic.live_readers()):
        topic.ring.clear()
    first, dropped = (topic.next_offset, topic.publish(batch, request.now))
    """,
)
mutant(
    "windows keep their place when they are opened again",
    "S12.11",
    "stored should be",
    "Topic.publish",
    "return dropped",
    """
    while len(self.windows) > self.settings[MAX_KEYS]:
        del self.windows[next(iter(self.windows))]
    return dropped
    """,
)
