"""Brokers that are wrong about frames and connections (S1 to S4)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S1: one frame back ----------------------------------------------------------------------------------------
mutant(
    "boot is 0",
    "S1.1",
    "Welcome.boot is 0; the checks need 1",
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

# -- limits, and everything that may be wrong with a frame -----------------------------------------------------
mutant(
    "clients of the future are sent away",
    "S1.6",
    "should have come",
    "require(request.version_min <= 1 <= request.version_max,",
    "require(request.version_min <= 1 == request.version_max,",
)
mutant(
    "unknown features are granted",
    "S1.6",
    "features should be",
    'struct.pack("<HQQ5I", 1, 0, BOOT',
    'struct.pack("<HQQ5I", 1, request.features & ~3, BOOT',
)
mutant(
    "a silent Hello is answered",
    "S1.6",
    "id 0 was answered",
    "if frame_id:  #",
    "if frame_id or kind == 1:  #",
)
mutant(
    "passwords are refused",
    "S1.7",
    "should have come",
    '        require(request.version_min <= 1 <= request.version_max, UNSUPPORTED_VERSION, "", "version 1 only")\n',
    """        require(request.version_min <= 1 <= request.version_max, UNSUPPORTED_VERSION, "", "version 1 only")
        require(request.auth < 2, 8, "", "no passwords here")
""",
)
mutant(
    "no frame can hold a whole batch",
    "S1.8",
    "above max_frame",
    "MAX_FRAME, 8192, 1_048_576",
    "MAX_FRAME, 81920, 1_048_576",
)
mutant(
    "a heartbeat is granted, and never awaited",
    "S1.8",
    "idle_ms is 0 if and only if",
    'struct.pack("<HQQ5I", 1, 0, BOOT',
    'struct.pack("<HQQ5I", 1, request.features & 1, BOOT',
)
mutant(
    "a limit is what is too large already",
    "S3.8",
    "should have come",
    "if 8 <= length <= (",
    "if 8 <= length < (",
)
mutant(
    "a limit is told too small by one",
    "S3.8",
    "nothing came|should be",
    '5I", 1, 0, BOOT, MAX_FRAME,',
    '5I", 1, 0, BOOT, MAX_FRAME - 1,',
)
mutant(
    "the connection is torn down after a bad frame",
    "S3.9",
    "torn down|broke",
    "        await self.stream.send_eof()\n",
    "        await self.stream.aclose()\n",
)
mutant(
    "a refused Hello may be said again",
    "S3.10",
    "ended|more came|should be|should have",
    "self.done = code < 64 or not self.welcomed",
    "self.done = code < 64 and self.welcomed",
)
mutant(
    "any auth will do",
    "S3.10",
    "should have come",
    'RANGES = {"auth": range(3),',
    'RANGES = {"auth": range(256),',
)
mutant(
    "letters that are none are overlooked",
    "S3.11 S14.6",
    "should have come|code should be",
    'utf8 = kinds[name] != "str" or value.decode(errors="ignore").encode() == value',
    "utf8 = True",
)
