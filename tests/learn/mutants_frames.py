"""Brokers that are wrong about frames and connections (S1 to S4)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S1: one frame back --------------------------------------------------------------------------
mutant(
    "boot is 0",
    "S1.1",
    "Welcome.boot is 0; the checks need at least 1",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    'struct.pack("<HQQ5I", 1, 0, 0, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
)
mutant(
    "trailing bytes in Welcome",
    "S1.1",
    "has 1 more byte after its last field",
    "Connection.hello",
    """
    struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0) + text(
        "tiny 1"
    )
    """,
    """
    (
        struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)
        + text("tiny 1")
        + b"!"
    )
    """,
)
mutant(
    "integers of the header are big-endian",
    "S1.1",
    "big-endian",
    "frame",
    'struct.pack("<IBBHI", 8 + len(body), kind, flags, 0, frame_id)',
    'struct.pack(">IBBHI", 8 + len(body), kind, flags, 0, frame_id)',
)
mutant(
    "length counts itself",
    "S1.1",
    "count its own four bytes",
    "frame",
    "8 + len(body)",
    "12 + len(body)",
)
mutant(
    "length counts only the body",
    "S1.1",
    "everything after its own four bytes|everything after itself",
    "frame",
    "8 + len(body)",
    "len(body)",
)
mutant(
    "a reply has its request's type",
    "S1.1",
    "top bit",
    "Connection.answer",
    "kind | 0x80",
    "kind",
)
mutant(
    "only half of the value comes back",
    "S1.2",
    "Pong.value should be",
    "Connection.ping",
    'struct.pack("<Q", request.value)',
    'struct.pack("<Q", request.value & 0xFFFFFFFF)',
)
mutant(
    "ids are taken for 16 bits",
    "S1.2",
    "Pong.id should be",
    "Connection.answer",
    'frame(kind | 0x80, frame_id, reply or b"")',
    'frame(kind | 0x80, frame_id & 0xFFFF, reply or b"")',
)
mutant(
    "one request a connection",
    "S1.3",
    "ended the connection",
    "Connection.ping",
    '"""Says the same again."""',
    """
    \"\"\"Says the same again.\"\"\"

    self.done = True
    """,
)
mutant(
    "id 0 is answered",
    "S1.4",
    "id 0 was answered",
    "Connection.answer",
    """
    if frame_id:
        self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
    """,
    """
    if True:
        self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
    """,
)
mutant(
    "boot is drawn for each connection",
    "S1.5",
    "Welcome.boot should be",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    """
    struct.pack(
        "<HQQ5I",
        1,
        0,
        secrets.randbits(62) + 1,
        MAX_FRAME,
        8192,
        1_048_576,
        2**32 - 1,
        0,
    )
    """,
)

# -- S2: split and glued frames ------------------------------------------------------------------
mutant(
    "half a frame is thrown away (as in 2020)",
    "S2.1 S2.2",
    "nothing came",
    "Connection.read",
    'length = int.from_bytes(await incoming.receive_exactly(4), "little")',
    """
    data = await self.stream.receive()
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
    "Connection.read",
    'length = int.from_bytes(await incoming.receive_exactly(4), "little")',
    """
    incoming.kept = getattr(incoming, "kept", b"") + await self.stream.receive()
    size = 4 + int.from_bytes(incoming.kept[:4], "little")
    if len(incoming.kept) >= max(size, 12):
        content, incoming.kept = incoming.kept[4:size], incoming.kept[size:]
        self.answer(content)
    continue
    """,
)

# -- S3: a bad frame -----------------------------------------------------------------------------
mutant(
    "a length below 8 is not looked at",
    "S3.1",
    "ended the connection|nothing came",
    "Connection.read",
    "8 <= length <= (MAX_FRAME if self.welcomed else 4096)",
    "0 <= length <= (MAX_FRAME if self.welcomed else 4096)",
)
mutant(
    "no upper limit of a length",
    "S3.2",
    "nothing came",
    "Connection.read",
    "MAX_FRAME if self.welcomed else 4096",
    "2**32",
)
mutant(
    "strangers may send as much as friends",
    "S3.2",
    "FRAME_TOO_LARGE|nothing came",
    "Connection.read",
    "MAX_FRAME if self.welcomed else 4096",
    "MAX_FRAME",
)
mutant(
    "what comes with the Hello is judged as if it came before",
    "S3.6",
    "FRAME_TOO_LARGE|id should be",
    "Connection.read",
    'length = int.from_bytes(await incoming.receive_exactly(4), "little")',
    """
    was_welcomed = self.__dict__.get("before", False)
    length = int.from_bytes(await incoming.receive_exactly(4), "little")
    self.before = self.welcomed
    """,
    "Connection.read",
    "MAX_FRAME if self.welcomed else 4096",
    "MAX_FRAME if was_welcomed else 4096",
)
mutant(
    "trailing bytes are welcome",
    "S3.3",
    "should have come",
    "read_fields",
    "not body.read()",
    "body",
)
mutant(
    "zero may be anything",
    "S3.4",
    "should have come",
    "Connection.answer",
    "zero == 0",
    "True",
)
mutant(
    "no Hello is needed",
    "S3.5",
    "should have come",
    "Connection.answer",
    "self.welcomed or kind == 1",
    "True",
)
mutant(
    "any version will do",
    "S3.5",
    "should have come",
    "Connection.hello",
    "request.version_min <= 1 <= request.version_max",
    "True",
)
mutant(
    "every error is fatal",
    "S3.6",
    "Error.flags should be|ended",
    "Connection.fail",
    "code < 64 or not self.welcomed",
    "True",
)
mutant(
    "unknown flags pass",
    "S3.6",
    "should have come",
    "Connection.answer",
    "flags == 0 or (kind, flags) == (5, 1)",
    "True",
)
mutant(
    "an exception of one client ends the server (as in 2020)",
    "S3.7 S0.3",
    "no connection could be made|ended|broke",
    "Connection.run",
    "Exception",
    "ZeroDivisionError",
)

# -- S4: two clients -----------------------------------------------------------------------------
mutant(
    "one client after the other",
    "S4.1",
    "nothing came",
    "serve",
    """
    tasks.start_soon(
        listener.serve, lambda stream: Connection(broker, stream, now_us).run()
    )
    """,
    """
    lock = anyio.Lock()


    async def one_by_one(stream):
        async with lock:
            await Connection(broker, stream, now_us).run()


    tasks.start_soon(listener.serve, one_by_one)
    """,
)
mutant(
    "a frame is awaited with the doors closed",
    "S4.2",
    "nothing came",
    "Connection.read",
    "incoming = BufferedByteReceiveStream(self.stream)",
    """
    incoming = BufferedByteReceiveStream(self.stream)
    whole = incoming.receive_exactly


    async def receive_exactly(size):
        if size != 4:
            return await whole(size)
        first = await whole(1)
        lock = self.broker.__dict__.setdefault("lock", anyio.Lock())
        async with lock:
            rest = await whole(3)
            size = int.from_bytes(first + rest, "little")
            while (
                8 <= size <= (MAX_FRAME if self.welcomed else 4096)
                and len(incoming.buffer) < size
            ):
                incoming._buffer.extend(await self.stream.receive())
        return first + rest


    incoming.receive_exactly = receive_exactly
    """,
)
mutant(
    "a fatal error ends every connection",
    "S4.3",
    "ended the connection",
    "Connection.__init__",
    "self.replies: list[bytes] = []",
    """
    broker.__dict__.setdefault("clients", []).append(self)
    self.replies: list[bytes] = []
    """,
    "Connection.fail",
    "self.done = code < 64 or not self.welcomed",
    """
    self.done = code < 64 or not self.welcomed
    for other in self.broker.clients if self.done else ():
        other.close()
    """,
)
mutant(
    "there is room for ten clients",
    "S4.4",
    "ended the connection|broke",
    "Connection.run",
    """
    async with self.stream, anyio.create_task_group() as tasks:
        tasks.start_soon(self.write)
        await self.read()

        with anyio.move_on_after(1):
            async for _ignored in self.stream:
                pass
    """,
    """
    open_ = self.broker.__dict__.setdefault("open", [])
    open_[:] = [each for each in open_ if not each.done]
    if len(open_) >= 10:
        await self.stream.aclose()
        return
    open_.append(self)
    async with self.stream, anyio.create_task_group() as tasks:
        tasks.start_soon(self.write)
        await self.read()
        with anyio.move_on_after(1):
            async for _ignored in self.stream:
                pass
    """,
)

# -- limits, and everything that may be wrong with a frame ---------------------------------------
mutant(
    "clients of the future are sent away",
    "S1.6",
    "should have come",
    "Connection.hello",
    "request.version_min <= 1 <= request.version_max",
    "request.version_min <= 1 == request.version_max",
)
mutant(
    "unknown features are granted",
    "S1.6",
    "features should be",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    """
    struct.pack(
        "<HQQ5I",
        1,
        request.features & ~3,
        BOOT,
        MAX_FRAME,
        8192,
        1_048_576,
        2**32 - 1,
        0,
    )
    """,
)
mutant(
    "a silent Hello is answered",
    "S1.6",
    "id 0 was answered",
    "Connection.answer",
    """
    if frame_id:
        self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
    """,
    """
    if frame_id or kind == 1:
        self.replies.append(frame(kind | 0x80, frame_id, reply or b""))
    """,
)
mutant(
    "passwords are refused",
    "S1.7",
    "should have come",
    "Connection.hello",
    "self.welcomed = True",
    """
    require(request.auth < 2, 8, "", "no passwords here")
    self.welcomed = True
    """,
)
mutant(
    "no frame can hold a whole batch",
    "S1.8",
    "max_frame is below",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 81920, 1_048_576, 2**32 - 1, 0)',
)
mutant(
    "a heartbeat is granted, and never awaited",
    "S1.8",
    "idle_ms must be 0 if and only if",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    """
    struct.pack(
        "<HQQ5I",
        1,
        request.features & 1,
        BOOT,
        MAX_FRAME,
        8192,
        1_048_576,
        2**32 - 1,
        0,
    )
    """,
)
mutant(
    "a limit is what is too large already",
    "S3.8",
    "should have come",
    "Connection.read",
    "8 <= length <= (MAX_FRAME if self.welcomed else 4096)",
    "8 <= length < (MAX_FRAME if self.welcomed else 4096)",
)
mutant(
    "a limit is told too small by one",
    "S3.8",
    "nothing came|should be",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME - 1, 8192, 1_048_576, 2**32 - 1, 0)',
)
mutant(
    "the connection is reset after a bad frame",
    "S3.9",
    "reset|broke",
    "Connection.write",
    "self.stream.send_eof()",
    "self.stream.aclose()",
)
mutant(
    "a refused Hello may be said again",
    "S3.10",
    "ended|more came|should be|should have",
    "Connection.fail",
    "code < 64 or not self.welcomed",
    "code < 64 and self.welcomed",
)
mutant(
    "any auth will do",
    "S3.10",
    "should have come",
    "RANGES",
    "range(3)",
    "range(256)",
)
mutant(
    "letters that are none are overlooked",
    "S3.11 S14.6",
    "should have come|code should be",
    "read_fields",
    'kinds[name] != "str" or value.decode(errors="ignore").encode() == value',
    "True",
)
