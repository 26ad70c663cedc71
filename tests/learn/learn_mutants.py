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


def mutant(kills, says, *patches):
    """Declare a mutant, under the name that is its docstring's place: the last argument."""
    *pairs, name = patches
    MUTANTS.append(Mutant(name, tuple(kills.split()), says, tuple(zip(pairs[::2], pairs[1::2], strict=True))))


# -- S1: one frame back ----------------------------------------------------------------------------------------

mutant("S1.1", "boot must not be 0", "1, 0, BOOT,", "1, 0, 0,", "boot is 0")
mutant("S1.1", "goes on for 1 bytes after its last field", 'text("tiny 1")', 'text("tiny 1") + b"!"',
       "trailing bytes in Welcome")  # fmt: skip
mutant("S1.1", "big-endian", '"<IBBHI", 8 + len(body)', '">IBBHI", 8 + len(body)', "integers of the header are big-endian")
mutant("S1.1", "count its own four bytes", '"<IBBHI", 8 + len(body)', '"<IBBHI", 12 + len(body)', "length counts itself")
mutant("S1.1", "everything after its own four bytes|everything after itself", '"<IBBHI", 8 + len(body)',
       '"<IBBHI", len(body)', "length counts only the body")  # fmt: skip
mutant("S1.1", "top bit", "frame(kind | 0x80, frame_id", "frame(kind, frame_id", "a reply has its request's type")
mutant("S1.2", "Pong.value should be", 'struct.pack("<Q", request.value)', 'struct.pack("<Q", request.value & 0xFFFFFFFF)',
       "only half of the value comes back")  # fmt: skip
mutant("S1.2", "Pong.id should be", "frame(kind | 0x80, frame_id,", "frame(kind | 0x80, frame_id & 0xFFFF,",
       "ids are taken for 16 bits")  # fmt: skip
mutant("S1.3", "ended the connection", 'return struct.pack("<Q", request.value)',
       'self.done = True\n        return struct.pack("<Q", request.value)', "one request a connection")  # fmt: skip
mutant("S1.4", "id 0 was answered", "if frame_id:  #", "if True:  #", "id 0 is answered")
mutant("S1.5", "Welcome.boot should be", "1, 0, BOOT,", "1, 0, secrets.randbits(62) + 1,", "boot is drawn for each connection")

# -- S2: split and glued frames --------------------------------------------------------------------------------

_READ = '''                length = int.from_bytes(await incoming.receive_exactly(4), "little")
'''
mutant("S2.1 S2.2", "nothing came", _READ, '''                data = await self.stream.receive()
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "little"):
                    size = 4 + int.from_bytes(data[:4], "little")
                    self.answer(data[4:size])
                    data = data[size:]
                continue
''', "half a frame is thrown away (as in 2020)")  # fmt: skip
mutant("S2.3", "nothing came", _READ, '''                incoming.kept = getattr(incoming, "kept", b"") + await self.stream.receive()
                size = 4 + int.from_bytes(incoming.kept[:4], "little")
                if len(incoming.kept) >= max(size, 12):
                    content, incoming.kept = incoming.kept[4:size], incoming.kept[size:]
                    self.answer(content)
                continue
''', "one frame a read")  # fmt: skip

# -- S3: a bad frame -------------------------------------------------------------------------------------------

mutant("S3.1", "ended the connection", "if 8 <= length", "if 0 <= length", "a length below 8 is not looked at")
mutant("S3.2", "nothing came", "(MAX_FRAME if self.welcomed else 4096)", "2**32", "no upper limit of a length")
mutant("S3.2", "FRAME_TOO_LARGE|nothing came", "(MAX_FRAME if self.welcomed else 4096)", "MAX_FRAME",
       "strangers may send as much as friends")  # fmt: skip
mutant("S3.3", "should have come", "require(not body.read(),", "require(body,", "trailing bytes are welcome")
mutant("S3.4", "should have come", "require(zero == 0,", "require(True,", "zero may be anything")
mutant("S3.5", "should have come", "require(self.welcomed or kind == 1,", "require(True,", "no Hello is needed")
mutant("S3.5", "should have come", "require(request.version_min <= 1 <= request.version_max,", "require(True,",
       "any version will do")  # fmt: skip
mutant("S3.6", "Error.flags should be|ended", "self.done = code < 64 or not self.welcomed", "self.done = True",
       "every error is fatal")  # fmt: skip
mutant("S3.6", "should have come", "require(flags == 0 or (kind, flags) == (5, 1),", "require(True,", "unknown flags pass")
mutant("S3.7 S0.3", "no connection could be made|ended|broke", "except* Exception as errors:",
       "except* ZeroDivisionError as errors:", "an exception of one client ends the server (as in 2020)")  # fmt: skip

# -- S4: two clients -------------------------------------------------------------------------------------------

_SERVE = "tasks.start_soon(listener.serve, lambda stream: Connection(broker, stream, now_us).run())"
mutant("S4.1", "nothing came", _SERVE, '''lock = anyio.Lock()

        async def one_by_one(stream):
            async with lock:
                await Connection(broker, stream, now_us).run()

        tasks.start_soon(listener.serve, one_by_one)''', "one client after the other")  # fmt: skip
mutant("S4.2", "nothing came", "        incoming = BufferedByteReceiveStream(self.stream)\n",
       '''        incoming = BufferedByteReceiveStream(self.stream)
        whole = incoming.receive_exactly

        async def receive_exactly(size):
            if size != 4:
                return await whole(size)
            first = await whole(1)
            lock = self.broker.__dict__.setdefault("lock", anyio.Lock())
            async with lock:
                rest = await whole(3)
                size = int.from_bytes(first + rest, "little")
                while self.welcomed and len(incoming.buffer) < size:
                    incoming._buffer.extend(await self.stream.receive())
            return first + rest

        incoming.receive_exactly = receive_exactly
''', "a frame is awaited with the doors closed")  # fmt: skip
mutant("S4.3", "ended the connection", "        self.broker, self.stream, self.now_us = broker, stream, now_us\n",
       '''        self.broker, self.stream, self.now_us = broker, stream, now_us
        broker.__dict__.setdefault("clients", []).append(self)
''', "        self.done = code < 64 or not self.welcomed\n", '''        self.done = code < 64 or not self.welcomed
        for other in self.broker.clients if self.done else ():
            other.close()
''', "a fatal error ends every connection")  # fmt: skip
mutant("S4.4", "ended the connection|broke", '''        try:
            async with self.stream, anyio.create_task_group() as tasks:
''', '''        try:
            open_ = self.broker.__dict__.setdefault("open", [])
            if len(open_) >= 10:
                await self.stream.aclose()
                return
            open_.append(self)
            async with self.stream, anyio.create_task_group() as tasks:
''', "there is room for ten clients, ever")  # fmt: skip

# -- S5: publish and subscribe ---------------------------------------------------------------------------------

_BATCH = 'struct.pack("<I4i", 1, 0, len(key), 0, len(payload)) + key + payload'
mutant("S5.1", "epoch must not be 0", "Topic(epoch=max(now, 1))", "Topic(epoch=0)", "the epoch is 0")
mutant("S5.2", "Messages.base should be", 'struct.pack("<Qq", offset, accepted_us)', 'struct.pack("<Qq", offset + 1, accepted_us)',
       "offsets begin at 1")  # fmt: skip
mutant("S5.2", "other keys or payloads", _BATCH, 'struct.pack("<I4i", 1, 0, 0, 0, len(payload)) + payload', "keys are lost")
mutant("S5.3", "other keys or payloads", "        accepted_us, key, payload = topic.ring[offset - head]\n",
       '''        accepted_us, key, payload = topic.ring[offset - head]
        payload = payload.partition(b"\\0")[0]
''', "payloads end at a zero byte")  # fmt: skip
mutant("S5.4", "should have come", "self.replies + events)", "events + self.replies)", "messages overtake replies")
mutant("S5.5", "other keys or payloads", "        accepted_us, key, payload = topic.ring[offset - head]\n",
       '''        accepted_us, key, payload = topic.ring[offset - head]
        payload = payload[:65535]
''', "long payloads are cut")  # fmt: skip
mutant("S5.6", "first_offset should be", "self.setdefault(name, ", "self.setdefault(name[:-1], ", "similar names are one topic")
mutant("S5.7", "not the time of day", 'struct.pack("<Qq", offset, accepted_us)', 'struct.pack("<Qq", offset, accepted_us // 1000)',
       "time is in milliseconds")  # fmt: skip
mutant("S5.8", "should have come", "require(good, INVALID_FIELD,", "require(True, INVALID_FIELD,", "bad columns are stored")

# -- S6: order -------------------------------------------------------------------------------------------------

mutant("S6.1", "gaps|nothing came", "        self.cursor += 1\n", "        self.cursor += 1 + (offset == 40)\n", "one message is skipped")
mutant("S6.2 S6.1", "is not there|different|nothing came", "first, dropped = topic.next_offset, topic.publish(batch, request.now)",
       '''first, dropped = topic.next_offset, topic.publish(batch[:1], request.now)
        import asyncio

        asyncio.get_running_loop().call_soon(lambda: [topic.publish(batch[1:], request.now)]
            + [reader.connection.wake.set() for reader in topic.live_readers()])''', "batches are torn apart")  # fmt: skip

# -- S7: topics ------------------------------------------------------------------------------------------------

mutant("S7.1", "first_offset should be", "        dropped = 0\n", "        dropped = 0\n        if not self.live_readers():\n            return 0\n",
       "what nobody reads is not stored")  # fmt: skip
mutant("S7.2", "Subscribed.start should be", "earliest = head if topic.settings[TTL_MS] else end", "earliest = head",
       "retention 0 keeps messages for latecomers")  # fmt: skip
mutant("S7.3", "does not tell the settings", "settings = b\"\".join(struct.pack(\"<BQ\", *setting) for setting in topic.settings.items())",
       'settings = b"".join(struct.pack("<BQ", *setting) for setting in sorted(topic.settings.items(), reverse=True))',
       "settings are told in another order")  # fmt: skip
mutant("S7.4 S7.5", "should have come", "require(request.settings.items() <= topic.settings.items(),", "require(True,",
       "other settings are ignored")  # fmt: skip
mutant("S7.5", "should have come", "if topic.settings is DEFAULTS and topic.next_offset == 0:", "if created:",
       "an automatic topic takes no settings")  # fmt: skip
mutant("S7.6 S7.3", "epochs|epoch should be|created should be|were told", "        topic = self.broker.find(request.topic, request.now)\n        if topic.settings",
       '''        topic = self.broker.find(request.topic, request.now)
        if topic.next_offset == 0:
            topic = self.broker[request.topic] = Topic(epoch=request.now)
        if topic.settings''', "the second creator replaces the topic (as in 2020)")  # fmt: skip
mutant("S7.7", "should have come", "require(0 < len(name) <= 200 and name[:1] != b\"$\",", "require(name,", "any name will do")

# -- S8: unsubscribe -------------------------------------------------------------------------------------------

mutant("S8.1 S8.3", "subscribers should be|nothing was|yet", "self.subscriptions.pop(request.subscription).until = 0",
       "self.subscriptions[request.subscription]", "Unsubscribe is answered, no more")  # fmt: skip
_KNOWN = "require(request.subscription in self.subscriptions, NO_SUCH_SUBSCRIPTION, \"subscription\", \"unknown\")\n"
mutant("S8.2", "should have come", _KNOWN + "        self.subscriptions.pop(request.subscription).until = 0",
       "if request.subscription in self.subscriptions:\n            self.subscriptions.pop(request.subscription).until = 0",
       "leaving twice is fine")  # fmt: skip
mutant("S8.3", "nothing came|subscribers should be", "        reader = self.subscriptions[request.id]",
       '''        self.subscriptions = {i: s for i, s in self.subscriptions.items() if s.topic is not topic}
        reader = self.subscriptions[request.id]''', "a second subscription replaces the first")  # fmt: skip
mutant("S8.4", "should have come", "require(request.id > self.last_subscribe_id,", "require(request.id not in self.subscriptions,",
       "ids may come again")  # fmt: skip
mutant("S8.5 S14.4", "still counted|subscribers should be", " and not each.connection.done]", "]",
       "the dead are counted (as in 2020)")  # fmt: skip

# -- S9: commit ------------------------------------------------------------------------------------------------

_COMMITTED = "reader.committed = max(reader.committed, request.next)\n"
mutant("S9.1", "and yet Messages came", "len(self.in_flight) >= self.credit or used", "used", "credit is not looked at")
mutant("S9.1", "and yet Messages came", "len(self.in_flight) >= self.credit or used", "len(self.in_flight) > self.credit or used",
       "one message too many")  # fmt: skip
mutant("S9.2", "nothing came", "reader.in_flight = {at: size for at, size in reader.in_flight.items() if at >= reader.committed}",
       "reader.in_flight.pop(min(reader.in_flight, default=0), None)", "a commit settles one message")  # fmt: skip
mutant("S9.3", "should have come", "require(request.next <= reader.cursor,", "require(True,", "the future can be committed")
mutant("S9.4", "and yet Messages came|should be", _COMMITTED, "reader.credit += request.next <= reader.committed\n        " + _COMMITTED,
       "a commit of nothing buys a message (as in 2020)")  # fmt: skip
mutant("S9.4", "committed should be", _COMMITTED, "reader.committed = request.next\n", "a commit can go back")
mutant("S9.5", "nothing came", "len(self.in_flight) >= self.credit or used",
       "sum(len(each.in_flight) for each in self.connection.subscriptions.values()) >= self.credit or used",
       "a connection has one credit for all")  # fmt: skip
mutant("S9.6", "and yet Messages came", "if self.in_flight and used + len(key) + len(payload) > self.credit_bytes:", "if False:",
       "bytes are counted when it is too late")  # fmt: skip
mutant("S9.6", "nothing came", "if self.in_flight and used +", "if used +", "a large message never goes")
mutant("S9.7", "should have come", '"credit": range(1, 2**32), "credit_bytes": range(1, 2**32)',
       '"credit": range(2**32), "credit_bytes": range(2**32)', "no credit is a credit")  # fmt: skip

# -- S10: lag --------------------------------------------------------------------------------------------------

_LAGGED = 'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))'
mutant("S10.1 S10.5", "should have come", _LAGGED, 'return b""', "lag is not told")
mutant("S10.1 S10.2", "to_offset should be", _LAGGED, 'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor - 1))',
       "lag is told with its last offset")  # fmt: skip
mutant("S10.1 S10.3 S10.4", "nothing came", "            self.cursor = min(head, self.until)\n", '            return b""\n',
       "who lags gets nothing ever again (as in 2020)")  # fmt: skip
mutant("S10.2", "and yet Lagged came", "        if len(self.in_flight) >= self.credit or",
       '''        if offset < head and offset < topic.next_offset:
            self.cursor = min(head, self.until)
            return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))
        if len(self.in_flight) >= self.credit or''', "lag is told at once")  # fmt: skip
mutant("S10.3 S10.1", "nothing came", "            self.cursor = min(head, self.until)\n",
       "            self.cursor, self.in_flight[offset] = min(head, self.until), 0\n", "lag uses credit")  # fmt: skip
mutant("S10.4", "base should be", "            self.cursor = min(head, self.until)\n", '''            for each in topic.readers:
                each.cursor = min(head, self.until)
''', "the lag of one is everybody's")  # fmt: skip
mutant("S10.5", "Subscribed.start should be", "start = (earliest, end, request.value, at_time)[request.start]",
       "start = (earliest, end, max(head, request.value), at_time)[request.start]", "who asks for too old an offset is not told")  # fmt: skip
mutant("S10.6", "should have come", "require(len(batch) <= topic.settings[CAPACITY],", "require(True,", "a batch loses its beginning")

# -- S11: retention --------------------------------------------------------------------------------------------

mutant("S11.1", "start should be", "earliest = head if topic.settings[TTL_MS] else end",
       "earliest = max(head, end - 20) if topic.settings[TTL_MS] else end", "only the last twenty are history")  # fmt: skip
mutant("S11.2", "start should be", "bisect_left(topic.ring, (request.value, b\"\", b\"\"))", "bisect_left(topic.ring, (request.value + 1, b\"\", b\"\"))",
       "a time begins after itself")  # fmt: skip
mutant("S11.2", "should have come", "require(request.start != 2 or request.value <= end,", "require(True,", "one can start in the future")
mutant("S11.3", "should have come", "require(request.epoch in (0, topic.epoch),", "require(True,", "epochs are not compared")
mutant("S11.4", "should have come|nothing came", "while self.cursor < self.until:", "while True:", "until is not looked at")
mutant("S11.5 S11.6", "start should be|should have come", "self.settings[TTL_MS] * 1000:", "self.settings[TTL_MS] * 1_000_000:", "retention is taken for seconds")
mutant("S11.5", "start should be|nothing came|should have come", "self.settings[TTL_MS] * 1000:", "self.settings[TTL_MS]:", "retention is taken for microseconds")
mutant("S11.6", "should have come", "head, used = topic.head(self.connection.now_us()), sum",
       "head, used = topic.next_offset - len(topic.ring), sum", "head, cursors = topic.head(now_us), [",
       "head, cursors = topic.next_offset - len(topic.ring), [", "who waits gets what has expired")  # fmt: skip

# -- S12: compaction -------------------------------------------------------------------------------------------

mutant("S12.1", "dropped should be", "dropped |= 1 << place", "dropped |= 1 << (place ^ 7)", "the bitmap has its highest bit first")
mutant("S12.2 S12.3 S12.6", "stored should be", "        dropped = 0\n", "        dropped, self.windows = 0, {}\n", "windows end with their batch")
mutant("S12.3 S12.1", "stored should be|compacted should be", "if key and now <", "if now <", "messages without a key are compacted")
mutant("S12.3", "stored should be", "            if key and now", "            key = key.lower()\n            if key and now",
       "keys are compared without case")  # fmt: skip
mutant("S12.4", "stored should be", "now < self.windows.get(key, 0)", "now <= self.windows.get(key, -1)", "a window of 0 is one microsecond")
mutant("S12.5", "stored should be", "dropped |= 1 << place\n", "dropped |= 1 << place\n                self.windows[key] = now + self.settings[WINDOW_MS] * 1000\n",
       "repeats prolong the window")  # fmt: skip
mutant("S12.6", "first_offset should be|stored should be", "        del self.ring[: -self.settings[CAPACITY]]  # all but the newest\n",
       '''        del self.ring[: -self.settings[CAPACITY]]
        there = {key for _, key, _ in self.ring}
        self.windows = {key: end for key, end in self.windows.items() if key in there}
''', "who is evicted is forgotten")  # fmt: skip

# -- S13: a stuck reader ---------------------------------------------------------------------------------------

_SEND = "                await self.stream.send(chunk)\n"
mutant("S13.1", "nothing came", _SEND, '''                async with self.broker.__dict__.setdefault("sending", anyio.Lock()):
                    await self.stream.send(chunk)
''', "one sends at a time")  # fmt: skip
mutant("S13.2", "were kept for a reader", _SEND, "                self.stream._transport.write(chunk)\n                await anyio.sleep(0)\n",
       "output without a bound (a queue for each subscriber)")  # fmt: skip
mutant("S13.3", "nothing came", _SEND, '''                self.sending = True
                await self.stream.send(chunk)
                self.sending = False
''', _READ, _READ + '''                while getattr(self, "sending", False):
                    await anyio.sleep(0.01)
''', "requests wait behind an unfinished send (as in 2020)")  # fmt: skip
mutant("S13.4", "not one of their replies", "all replies", "all  replies", "tiny_broker as it is")

# -- S14: the end ----------------------------------------------------------------------------------------------

mutant("S14.1", "ended the connection|should have come", "while self.replies or not self.done:", "while not self.done:", "Close drops what waits to be sent")
mutant("S14.1", "should have closed", "        await self.stream.send_eof()\n", "        await anyio.sleep_forever()\n", "after Closed nothing ends")
mutant("S14.2", "and yet Messages came|broke|ended", "            while not self.done:\n", "            while True:\n", "what comes behind Close is carried out")
mutant("S14.3", "ended the connection", "incoming.receive_exactly(length))\n", '''incoming.receive_exactly(length))
                    if self.welcomed and 0 < len(incoming.buffer) and incoming.buffer[0] > len(incoming.buffer):
                        self.replies = []
''', "half a frame takes answers with it")  # fmt: skip

# -- S15: everything -------------------------------------------------------------------------------------------

mutant("S15.1", "silent gap", "        self.cursor += 1\n", "        self.cursor += 1 + (offset % 67 == 66)\n", "one message in 67 is skipped")
mutant("S15.1", "duplicated|reordered", "        self.cursor += 1\n", '''        again = self.__dict__.setdefault("again", set())
        self.cursor += offset % 67 != 66 or offset in again
        again.add(offset)
''', "one message in 67 comes twice")  # fmt: skip
mutant("S15.1", "invented", "                self.ring.append((now, key, payload))\n",
       '''                self.ring.append((now, key, payload[::-1] if self.next_offset % 67 == 66 else payload))
''', "one message in 67 has another payload")  # fmt: skip
mutant("S15.1", "lost", "        del self.ring[: -self.settings[CAPACITY]]", "        del self.ring[: -min(self.settings[CAPACITY], 60)]", "a ring is smaller than promised")
