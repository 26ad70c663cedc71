"""S1: One frame back.

Goal: Read a frame, answer with a frame: Hello with Welcome, Ping with Pong. A frame is a header of
12 bytes (length u32, type u8, flags u8, zero u16, id u32) and a body; all integers are
little-endian, and the length counts everything after it. Flags and zero are 0 for now.

Tested: Each request goes out in one piece, and its reply is checked to the last byte.

Real systems: Every binary protocol starts like this: Kafka's length is a big-endian i32, MQTT's is
1 to 4 bytes of 7 bits, RabbitMQ (AMQP 0-9-1) ends each frame with the byte 0xCE. A server that
knows the length never has to search for the end.

How: Reply type = request type with the top bit set; reply id = request id. Build the body first,
then put the header in front: length = 8 + size of the body.

Where: tutorial/tiny_broker.py: `frame` builds one, `Connection.answer` takes one apart, `hello` and
`ping` are the two methods. protocol/README.md, section 8, shows Hello and Welcome byte by byte.
"""

from zaichik.learn import docstrings
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import ERROR_CODES, HEARTBEAT, LEAST, SHARED
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=2, frames="Hello Welcome Ping Pong")


@STAGE.check(
    "Hello is answered with Welcome",
    hint="Compare your Welcome with the hexdump in protocol/README.md, section 8; you can use its "
    "limits. A string is a u16 length and then UTF-8.",
    sentences="bytes.1 bytes.2 frame.1 frame.2 frame.3 type.1 id.1 hello.3 hello.9 hello.10 open.3 "
    "welcome.1 welcome.2",
)
async def welcome(trial: Trial) -> None:
    """Version 1, no feature that wasn't offered, limits with room to work."""
    connection = await trial.dial()
    request = await connection.send("Hello")
    frame = await connection.read(awaited=f"Welcome with id {request}")
    connection.must_be(frame, "Welcome", id=request, flags=0, version=1, features=0)
    for field, least in LEAST.items():
        if frame[field] < least:
            problem = f"Welcome.{field} is {frame[field]}; the checks need at least {least}"
            raise Failure(problem, expected=f"{field} of {least} or more", frame=frame)


@STAGE.check(
    "Ping is answered with Pong, with the same id and the same value",
    hint="Send the id and the 8 bytes of the value back unchanged, whatever they are.",
    sentences="id.1 ping.1",
)
async def pong(trial: Trial) -> None:
    """A random value, 0 and the largest one."""
    connection = await trial.client()
    for value in (trial.rng.getrandbits(64), 0, 2**64 - 1):
        frame_id = trial.rng.randrange(1, 2**32)
        await connection.ok(
            "Ping", frame_id=frame_id, value=value, expect={"id": frame_id, "value": value}
        )


@STAGE.check(
    "after a reply the connection stays open for the next request",
    hint="Don't read just once: read in a loop until the client ends its stream.",
    how="One loop per connection: read a frame, answer it, repeat. Only the end of the stream or "
    "an error gets you out of it.",
    where="tutorial/tiny_broker.py, `Connection.read`: `while not self.done`, and IncompleteRead "
    "means the end of the stream.",
    sentences="open.1",
)
async def stays_open(trial: Trial) -> None:
    """Ten requests, each sent once the previous one was answered."""
    connection = await trial.client()
    for _ in range(10):
        await connection.ping()


@STAGE.check(
    "a request with id 0 is carried out without a reply",
    hint="Id 0 means: tell me only if it fails. Build the reply as usual, but don't send it.",
    how="Decide it in a single place, where replies are added to the output: only if the id isn't "
    "0. An Error is always sent.",
    where="tutorial/tiny_broker.py, `Connection.answer`: the request is carried out, and `if "
    "frame_id` guards only the reply. `fail` has no guard.",
    sentences="id.4",
)
async def silence(trial: Trial) -> None:
    """Only the second Ping is answered."""
    connection = await trial.client()
    await connection.send("Ping", frame_id=0, value=1)
    await connection.expect_silence("a request with id 0 was answered")
    await connection.ok("Ping", frame_id=9, value=2, expect={"id": 9, "value": 2})


@STAGE.check(
    "boot is the same number on every connection",
    hint="Draw it once, when the server starts. It tells a client that reconnects whether the "
    "broker is still the same one.",
    how="Draw a random number, but never 0, before the server listens; keep it in a global "
    "variable. Every Welcome carries it.",
    where="tutorial/tiny_broker.py: `BOOT`, near the top, and `Connection.hello`, which packs it.",
    sentences="welcome.1",
)
async def same_boot(trial: Trial) -> None:
    """Two connections, one after another."""
    first = await trial.client()
    await first.aclose()
    await (await trial.dial()).ok("Hello", expect={"boot": first.limits["boot"]})


@STAGE.check(
    "Hello is answered with Welcome whatever else it offers",
    hint="If 1 is in the range, the answer is version 1. Ignore feature bits that you don't know.",
    sentences="hello.9 hello.10 hello.14 id.4",
)
async def any_offer(trial: Trial) -> None:
    """Other versions, unknown features, a user and a secret; then a Hello with id 0."""
    for fields in (
        {"version_min": 0},
        {"version_max": 9},
        {"version_min": 0, "version_max": 65535},
        {"features": 2**64 - 2 * SHARED},
        {"user": "me", "secret": trial.payload().decode()},
    ):
        async with await trial.dial() as connection:
            frame = await connection.hello(**fields)
            connection.must_be(frame, "Welcome", version=1, features=0)
            await connection.ping()
    quiet = await trial.dial()
    await quiet.send("Hello", frame_id=0)
    await quiet.expect_silence("a Hello with id 0 was answered")
    await quiet.ping()


@STAGE.check(
    "a broker without users accepts every token and every password",
    hint="Read auth, user and secret. Unless you have users, ignore all three.",
    sentences="hello.14",
)
async def credentials(trial: Trial) -> None:
    """A random token; if it is accepted, any other token and a password must be, too."""
    for fields in (
        {"auth": 1, "secret": trial.payload().decode()},
        {"auth": 2, "user": "me"},
        {"auth": 1},
    ):
        async with await trial.dial() as connection:
            frame = await connection.ask("Hello", **fields)
            if (
                frame.name == "Error"
                and frame["code"] == ERROR_CODES["AUTH_FAILED"]
                and fields.get("secret")
            ):
                raise Skipped("this broker has users, so it may refuse unknown ones")
            connection.must_be(frame, "Welcome", flags=0)


@STAGE.check(
    "the limits in Welcome fit together",
    hint="max_frame must hold a Publish of max_batch messages and max_message bytes (welcome.3). "
    "idle_ms is 0 unless "
    "you granted HEARTBEAT.",
    sentences="welcome.3 welcome.5",
)
async def limits(trial: Trial) -> None:
    """Without features, and with HEARTBEAT offered."""
    async with await trial.dial() as connection:
        frame = await connection.hello()
        connection.must_be(frame, "Welcome", features=0, idle_ms=0)
    least = 238 + 8 * frame["max_batch"] + frame["max_message"]
    if frame["max_frame"] < least:
        problem = (
            f"max_frame is below {least}: a Publish of max_batch and max_message is that large"
        )
        raise Failure(problem, expected=f"max_frame of {least} or more", frame=frame)
    frame = await (await trial.dial()).hello(features=HEARTBEAT)
    if frame["features"] & ~HEARTBEAT or (frame["idle_ms"] > 0) != (frame["features"] == HEARTBEAT):
        problem = "idle_ms must be 0 if and only if HEARTBEAT was not granted"
        raise Failure(problem, expected="features=1 and an idle_ms, or neither", frame=frame)
