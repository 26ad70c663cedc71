"""S1: One frame back.

Goal: Read a frame, answer with a frame: Hello with Welcome, Ping with Pong. A frame is a header of 12 bytes (length
u32, type u8, flags u8, zero u16, id u32) and a body; all integers are little-endian, and the length counts all that
follows it. Flags and zero are 0 for now.

Tested: Each request goes out in one piece, and its answer is taken apart to the last byte.

Real systems: Every binary protocol begins so: Kafka's length is a big-endian i32, MQTT's is 1 to 4 bytes of 7 bits,
RabbitMQ (AMQP 0-9-1) ends each frame with the byte 0xCE. A server that knows the length never has to search for an end.

How: Reply type = request type with the top bit set; reply id = request id. Build body first, then the header around it:
length = 8 + size of the body.

Where: tutorial/tiny_broker.py: `frame` builds one, `Connection.answer` takes one apart, `hello` and `ping` are the two
methods. protocol/README.md, section 8, shows Hello and Welcome byte by byte.
"""

from zaichik.learn.failure import Failed, Skipped
from zaichik.learn.layouts import ERROR_CODES, HEARTBEAT, LEAST
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.told(__doc__, chapter=2, frames="Hello Welcome Ping Pong")


@STAGE.check(
    "Hello is answered with Welcome",
    hint="Compare your Welcome with the hexdump in protocol/README.md, section 8; its limits will do for you. Strings "
    "are a u16 length and UTF-8.",
    sentences="bytes.1 bytes.2 frame.1 frame.2 frame.3 type.1 id.1 hello.3 hello.9 hello.10 open.3 welcome.1 welcome.2",
)
async def welcome(trial: Trial) -> None:
    """Version 1, no feature that was not offered, limits that leave room to work."""
    connection = await trial.dial()
    request = await connection.send("Hello")
    frame = await connection.read(awaited=f"Welcome with id {request}")
    connection.must_be(frame, "Welcome", id=request, flags=0, version=1, features=0)
    for field, least in LEAST.items():
        if frame[field] < least:
            problem = f"Welcome.{field} is {frame[field]}; the checks need {least} at least"
            raise Failed(problem, expected=f"{field} of {least} or more", frame=frame)


@STAGE.check(
    "Ping is answered with Pong, with the same id and the same value",
    hint="The id and the 8 bytes of the value come back as they came, whatever they are.",
    sentences="id.1 ping.1",
)
async def pong(trial: Trial) -> None:
    """The largest numbers come back whole, too."""
    connection = await trial.client()
    for value in (trial.rng.getrandbits(64), 0, 2**64 - 1):
        frame_id = trial.rng.randrange(1, 2**32)
        await connection.ok("Ping", frame_id=frame_id, value=value, expect={"id": frame_id, "value": value})


@STAGE.check(
    "after an answer the connection stays open for the next request",
    hint="Read in a loop until the client ends its stream, not once.",
    how="One loop for each connection: read a frame, answer it, again. Only the end of the stream, or an error, leads "
    "out of it.",
    where="tutorial/tiny_broker.py, `Connection.read`: `while not self.done`, and IncompleteRead is the end of the "
    "stream.",
    sentences="open.1",
)
async def stays_open(trial: Trial) -> None:
    """Ten requests, each sent when the one before was answered."""
    connection = await trial.client()
    for _ in range(10):
        await connection.ping()


@STAGE.check(
    "a request with id 0 is carried out in silence",
    hint="Id 0 means: tell me only if it fails. So the reply is built, and not sent.",
    how="Decide it in one place, where replies are put into the output: if the id is not 0. An Error is sent in any "
    "case.",
    where="tutorial/tiny_broker.py, `Connection.answer`: the request is carried out, and `if frame_id` guards nothing "
    "but the reply. `fail` has no such guard.",
    sentences="id.4",
)
async def silence(trial: Trial) -> None:
    """Only the second Ping is answered."""
    connection = await trial.client()
    await connection.send("Ping", frame_id=0, value=1)
    await connection.silent("a request with id 0 was answered")
    await connection.ok("Ping", frame_id=9, value=2, expect={"id": 9, "value": 2})


@STAGE.check(
    "boot is the same number on every connection",
    hint="Draw it once, when the server starts: a client knows by it whether it has come back to the same broker.",
    how="A global that is drawn at random, never 0, before the server listens. Every Welcome has it.",
    where="tutorial/tiny_broker.py: `BOOT`, near the top, and `Connection.hello`, which packs it.",
    sentences="welcome.1",
)
async def same_boot(trial: Trial) -> None:
    """Two connections, one after the other."""
    first = await trial.client()
    await first.aclose()
    await (await trial.dial()).ok("Hello", expect={"boot": first.limits["boot"]})


@STAGE.check(
    "Hello is welcomed whatever else it offers",
    hint="If version 1 lies between the two versions, it is version 1. Feature bits that you do not know are ignored.",
    sentences="hello.9 hello.10 hello.14 id.4",
)
async def any_offer(trial: Trial) -> None:
    """Older and later versions, features of the future, a user and a secret nobody asked for; in silence, with id 0."""
    for fields in (
        {"version_min": 0},
        {"version_max": 9},
        {"version_min": 0, "version_max": 65535},
        {"features": 2**64 - 8},
        {"user": "me", "secret": trial.payload().decode()},
    ):
        async with await trial.dial() as connection:
            frame = await connection.hello(**fields)
            connection.must_be(frame, "Welcome", version=1, features=0)
            await connection.ping()
    quiet = await trial.dial()
    await quiet.send("Hello", frame_id=0)
    await quiet.silent("a Hello with id 0 was answered")
    await quiet.ping()


@STAGE.check(
    "a broker without users accepts every token and every password",
    hint="Read auth, user and secret, and look at none of them, unless you know users.",
    sentences="hello.14",
)
async def credentials(trial: Trial) -> None:
    """If a token of chance is welcome, so is every other, and a password."""
    for fields in ({"auth": 1, "secret": trial.payload().decode()}, {"auth": 2, "user": "me"}, {"auth": 1}):
        async with await trial.dial() as connection:
            frame = await connection.ask("Hello", **fields)
            if frame.name == "Error" and frame["code"] == ERROR_CODES["AUTH_FAILED"] and fields.get("secret"):
                raise Skipped("this broker knows users, and so it may refuse whom it does not know")
            connection.must_be(frame, "Welcome", flags=0)


@STAGE.check(
    "the limits in Welcome fit together",
    hint="max_frame must hold a Publish of max_batch messages and max_message bytes (welcome.3). idle_ms is 0 unless "
    "you granted HEARTBEAT.",
    sentences="welcome.3 welcome.5",
)
async def limits(trial: Trial) -> None:
    """Without features, and with a heartbeat promised."""
    async with await trial.dial() as connection:
        frame = await connection.hello()
        connection.must_be(frame, "Welcome", features=0, idle_ms=0)
    least = 238 + 8 * frame["max_batch"] + frame["max_message"]
    if frame["max_frame"] < least:
        problem = f"a Publish of max_batch messages and max_message bytes is a frame of {least}, above max_frame"
        raise Failed(problem, expected=f"max_frame of {least} or more", frame=frame)
    frame = await (await trial.dial()).hello(features=HEARTBEAT)
    if frame["features"] & ~HEARTBEAT or (frame["idle_ms"] > 0) != (frame["features"] == HEARTBEAT):
        problem = "idle_ms is 0 if and only if HEARTBEAT was not granted"
        raise Failed(problem, expected="features=1 and an idle_ms, or neither", frame=frame)
