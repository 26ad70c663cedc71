"""Brokers that are wrong at a bound, in a silence, or in a rare moment (the later checks of S5 to S13)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

mutant(
    "a silent Publish is not stored",
    "S5.10",
    "nothing came",
    "        batch, topic = read_batch(request.batch), self.broker.find(request.topic, request.now)\n",
    """        batch, topic = read_batch(request.batch), self.broker.find(request.topic, request.now)
        if not request.id:
            return b""
""",
)
mutant(
    "silence also when it fails",
    "S5.10 S9.9",
    "should|nothing came",
    "        self.replies.append(frame(0xFF, frame_id, body, flags=2 if self.done else 0))\n",
    "        self.replies += [frame(0xFF, frame_id, body, flags=2)] if self.done else []\n"
    "        self.replies += [frame(0xFF, frame_id, body)] if frame_id and not self.done else []\n",
)
mutant(
    "the epoch counts topics",
    "S11.14",
    "not the time of day",
    "Topic(epoch=max(now, 1))",
    "Topic(epoch=1000 + len(self))",
)
mutant(
    "epochs may be older",
    "S11.14",
    "should have come",
    "require(request.epoch in (0, topic.epoch),",
    "require(request.epoch <= topic.epoch,",
)
mutant(
    "an emptied topic takes settings",
    "S7.10",
    "should have come",
    "if topic.settings is DEFAULTS and topic.next_offset == 0:",
    "if topic.settings is DEFAULTS and not topic.ring:",
)
mutant(
    "only the first setting is compared",
    "S7.10",
    "should have come",
    "require(request.settings.items() <= topic.settings.items(),",
    "require(set(list(request.settings.items())[:1]) <= topic.settings.items(),",
)
mutant(
    "an id is used up by a Subscribe that failed",
    "S8.6",
    "should have come",
    '        require(request.id > self.last_subscribe_id, INVALID_FIELD, "id", "not greater than an earlier one")\n',
    """        require(request.id > self.last_subscribe_id, INVALID_FIELD, "id", "not greater than an earlier one")
        self.last_subscribe_id = request.id
""",
)
mutant(
    "FORGET needs a name",
    "S8.7",
    "should have come",
    "require(flags == 0 or (kind, flags) == (5, 1),",
    "require(flags == 0,",
)
mutant(
    "a silent commit wakes nobody",
    "S9.9 S9.13",
    "nothing came",
    "            self.fail(kind, frame_id, *refused.args)\n        self.wake.set()\n",
    "            self.fail(kind, frame_id, *refused.args)\n        if frame_id:\n            self.wake.set()\n",
    "with anyio.move_on_after(1):  # at times it looks again, since messages expire silently",
    "with anyio.move_on_after(100):",
)
mutant(
    "keys are free",
    "S9.10",
    "and yet Messages came|nothing came",
    "        self.in_flight[offset] = len(key) + len(payload)\n",
    "        self.in_flight[offset] = len(payload)\n",
)
mutant(
    "as many bytes as allowed are too many",
    "S9.10",
    "nothing came",
    "used + len(key) + len(payload) > self.credit_bytes:",
    "used + len(key) + len(payload) >= self.credit_bytes:",
)
mutant(
    "a frame is settled with its first message",
    "S9.11",
    "and yet Messages came",
    """        self.in_flight[offset] = len(key) + len(payload)
        self.cursor += 1
        # A batch of one: the count, the key's two offsets, the payload's, and their bytes.
        batch = struct.pack("<I4i", 1, 0, len(key), 0, len(payload)) + key + payload
""",
    """        self.in_flight[offset] = len(key) + len(payload)
        self.cursor += 1
        batch = struct.pack("<I4i", 1, 0, len(key), 0, len(payload)) + key + payload
        more = [each for each in topic.ring[offset - head + 1 :][:2] if each[0] == accepted_us and len(each[2]) == 30]
        if not self.in_flight.keys() - {offset} and len(more) == 2:
            payloads = [payload, *(each[2] for each in more)]
            self.in_flight = {offset: 90, offset + 1: 0, offset + 2: 0}
            self.cursor += 2
            batch = struct.pack("<I8i", 3, 0, 0, 0, 0, 0, 30, 60, 90) + b"".join(payloads)
""",
)
mutant(
    "Welcome promises more credit than is granted",
    "S9.12",
    "should have come",
    '"credit": range(1, 2**32), "credit_bytes"',
    '"credit": range(1, 2**31), "credit_bytes"',
)
mutant(
    "any credit is granted",
    "S9.12",
    "should have come",
    "1_048_576, 2**32 - 1, 0) + text",
    "1_048_576, 1000, 0) + text",
)
mutant(
    "every thousandth wake-up is lost",
    "S9.13",
    "nothing came",
    "            reader.connection.wake.set()\n        compacted",
    "            if topic.next_offset % 1000:\n                reader.connection.wake.set()\n        compacted",
    "with anyio.move_on_after(1):  # at times it looks again, since messages expire silently",
    "with anyio.move_on_after(100):",
)
mutant(
    "what was skipped cannot be committed",
    "S10.6",
    "committed should be",
    "        reader.committed = max(reader.committed, request.next)\n",
    """        last = max((at for at in reader.in_flight if at < request.next), default=reader.committed - 1)
        reader.committed = max(reader.committed, last + 1)
""",
)
mutant(
    "lag waits until nothing is in flight",
    "S10.7 S10.3",
    "nothing came",
    "        if offset < head:\n",
    '        if offset < head and self.in_flight:\n            return b""\n        if offset < head:\n',
)
mutant(
    "messages live 20 ms too long",
    "S11.8",
    "ms after its end",
    "if ttl_us := self.settings[TTL_MS] * 1000:",
    "if ttl_us := self.settings[TTL_MS] and self.settings[TTL_MS] * 1000 + 20_000:",
)
mutant(
    "messages live 20 ms too short",
    "S11.8",
    "ms before its end",
    "if ttl_us := self.settings[TTL_MS] * 1000:",
    "if ttl_us := self.settings[TTL_MS] and self.settings[TTL_MS] * 1000 - 20_000:",
)
mutant(
    "what somebody waits for is freed",
    "S11.9",
    "begins at",
    "del topic.ring[: max(0, min(cursors, default=topic.next_offset) - head)]",
    "topic.ring.clear()",
)
mutant(
    "nothing is ever freed",
    "S11.9",
    "begins at 0",
    "            if topic.settings[TTL_MS] == 0:\n",
    "            if False:\n",
)
mutant(
    "an until below the start is never reached",
    "S11.10",
    "should have come|nothing came",
    "        while self.cursor < self.until:\n",
    "        start = self.cursor\n        while self.cursor != self.until or start > self.until:\n",
)
mutant(
    "lag goes beyond until",
    "S11.10",
    "to_offset should be",
    "            self.cursor = min(head, self.until)\n",
    "            self.cursor = head\n",
)
mutant(
    "times are signed",
    "S11.11",
    "start should be",
    'bisect_left(topic.ring, (request.value, b"", b""))',
    'bisect_left(topic.ring, ((request.value + 2**63) % 2**64 - 2**63, b"", b""))',
)
mutant(
    "the future of all starts is looked at",
    "S11.11",
    "should have come",
    "require(request.start != 2 or request.value <= end,",
    "require(request.start == 3 or request.value <= end,",
)
mutant(
    "windows are 20 ms too long",
    "S12.7",
    "ms after its end",
    "self.windows[key] = now + self.settings[WINDOW_MS] * 1000",
    "self.windows[key] = now + self.settings[WINDOW_MS] * 1000 + 20_000 * (self.settings[WINDOW_MS] > 0)",
)
mutant(
    "windows are 20 ms too short",
    "S12.7",
    "ms before its end",
    "self.windows[key] = now + self.settings[WINDOW_MS] * 1000",
    "self.windows[key] = now + self.settings[WINDOW_MS] * 1000 - 20_000 * (self.settings[WINDOW_MS] > 0)",
)
mutant(
    "what is refused opens windows",
    "S12.9",
    "stored should be",
    '        require(len(batch) <= topic.settings[CAPACITY], BATCH_TOO_LARGE, "batch", "the ring is smaller")\n',
    """        if len(batch) > topic.settings[CAPACITY]:
            topic.windows |= {key: request.now + topic.settings[WINDOW_MS] * 1000 for key, _ in batch}
        require(len(batch) <= topic.settings[CAPACITY], BATCH_TOO_LARGE, "batch", "the ring is smaller")
""",
)
mutant(
    "the bitmap always has a byte to spare",
    "S12.10",
    "dropped should be",
    "dropped.to_bytes((len(batch) + 7) // 8,",
    "dropped.to_bytes(len(batch) // 8 + 1,",
)
mutant(
    "long keys are compared by their beginnings",
    "S12.10",
    "should be",
    "        for place, (key, payload) in enumerate(batch):\n",
    "        for place, (key, payload) in enumerate((key[:1000], payload) for key, payload in batch):\n",
)
mutant(
    "who is busy stays at it",
    "S13.5",
    "before the one of a quiet one",
    '            events = [next(reader.events, b"") for reader in self.subscriptions.values()]\n',
    """            readers = sorted(self.subscriptions.values(), key=lambda each: each.topic.next_offset, reverse=True)
            events = [next((event for reader in readers if (event := next(reader.events, b""))), b"")]
""",
)
mutant(
    "a silent CreateTopic is overlooked",
    "S7.11",
    "created should be",
    '        """Makes a topic, or agrees that it is there already."""\n',
    """        if not request.id:
            return b""
""",
)
mutant(
    "an Error to a Commit comes late",
    "S9.14",
    "should have come|should be",
    "            self.fail(kind, frame_id, *refused.args)\n",
    """            import asyncio

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
    "start = (earliest, end, request.value, at_time)[request.start]",
    "start = (earliest, end, request.value if topic.settings[TTL_MS] else end, at_time)[request.start]",
)
mutant(
    "with retention 0 a publish frees what was there",
    "S11.15",
    "should have come|nothing came",
    "        first, dropped = topic.next_offset, topic.publish(batch, request.now)\n",
    """        if topic.settings[TTL_MS] == 0 and not topic.live_readers():
            topic.ring.clear()
        first, dropped = topic.next_offset, topic.publish(batch, request.now)
""",
)
mutant(
    "windows keep their place when they are opened again",
    "S12.11",
    "stored should be",
    "        del self.ring[: -self.settings[CAPACITY]]  # all but the newest\n",
    """        del self.ring[: -self.settings[CAPACITY]]
        while len(self.windows) > self.settings[MAX_KEYS]:
            del self.windows[next(iter(self.windows))]
""",
)
