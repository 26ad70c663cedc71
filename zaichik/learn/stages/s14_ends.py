"""S14, continued: bad frames of all types, and nothing lost at the end, whatever ends it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from zaichik.learn import layouts, vectors, wire
from zaichik.learn.backlog import ASKED, CHUNKS, clear, pile_up, requests
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Inconclusive
from zaichik.learn.stages.s14_close import STAGE as STAGE
from zaichik.learn.trial import Trial

FLAGS = {"Subscribe": 1, "Unsubscribe": 1, "Delete": 1}  # how many bits a request defines
FLAGS_OF_TABLES = {"Publish": 1}
FLAGS_OF_SHARED = {"Subscribe": 3, "Settle": 1, "Dead": 1}
MANY = 300  # requests of a kind
STOPPING = 1  # code of GoAway
PILES_UP_S, STOPS_S = 0.4, 0.2
MANY_MORE = 5000  # requests: more replies than a broker keeps before it stops reading
LINGERS_S, LINGERS_AT_MOST_S = 0.3, 5.0
WAITS_SURELY_S = 1.0  # a stopping broker, for a client that reads
SILENT_SURELY_S = 2.0  # one that sends nothing for so long is not about to
NOISE = b"\xff" * 16


@STAGE.check(
    "every bad frame is refused as the test vectors say",
    hint="As in S3, now also for the requests added since. Check the whole frame at one level "
    "before you go to the next.",
    sentences="type.2 type.3 batch.3 flag.1 frame.3 judge.4 judge.5 judge.6 judge.7",
    once=True,
)
async def bad_frames(trial: Trial) -> None:
    """Of all types that a broker knows by now, and of those it may leave out."""
    await vectors.refuse(trial, lambda kind: kind in layouts.REQUESTS)


@STAGE.check(
    "flags that a request does not define, and bytes after its last field, are never overlooked",
    hint="Check them in one place, for all types, before the request's own code runs.",
    sentences="flag.1 frame.3 judge.4 judge.5 table.15",
)
async def overlooked(trial: Trial) -> None:
    """Each request with unknown flags; each with a byte too many; a Ping with both."""
    client = await trial.client(features=layouts.TABLES | layouts.SHARED)
    defined = dict(FLAGS)
    if client.limits["features"] & layouts.TABLES:
        defined |= FLAGS_OF_TABLES
    if client.limits["features"] & layouts.SHARED:
        defined |= FLAGS_OF_SHARED
    await client.send_frame(wire.raw_frame(layouts.TYPES["Ping"], bytes(9), frame_id=9, flags=0x80))
    client.must_be_error(
        await client.reply(9), "UNSUPPORTED", request_type=layouts.TYPES["Ping"], at="flags"
    )
    topic: dict[str, Any] = {"topic": trial.topic()}
    requests: dict[str, dict[str, Any]] = {
        "CreateTopic": topic, "Subscribe": topic, "Unsubscribe": {"subscription": 1},
        "Commit": {"subscription": 1, "next": 0}, "Close": {},
    }  # fmt: skip
    others = {
        "Publish": topic | {"batch": [trial.message()]},
        "Hello": {},
        "Describe": {},
        "Delete": topic,
        "Disconnect": {"connection": 0},
        "Settle": {"subscription": 1, "outcome": 0, "tickets": ()},
        "Dead": topic | {"name": "worker", "action": 0},
    }
    for name, fields in (requests | others).items():
        kind, body = layouts.TYPES[name], wire.encode(name, frame_id=9, **fields)[12:]
        for bit in range(defined.get(name, 0), 8):
            await client.send_frame(wire.raw_frame(kind, body, frame_id=9, flags=1 << bit))
            client.must_be_error(await client.reply(9), "UNSUPPORTED", request_type=kind)
    await client.publish(trial.topic(), trial.message(), first_offset=0, subscribers=0)
    for name, fields in requests.items():  # not Publish: an extra byte makes its batch a bad one
        body = wire.encode(name, frame_id=9, **fields)[12:] + b"!"
        async with await trial.client() as other:
            await other.send_bytes(
                wire.raw_frame(layouts.TYPES[name], body, frame_id=9), f"{name}, and a byte"
            )
            await other.expect_fatal("MALFORMED", layouts.TYPES[name], id=9)


@STAGE.check(
    "a Close with id 0 is carried out without a reply",
    hint="Id 0 means no reply here, too: no Closed, but the end of the stream all the same.",
    sentences="id.4 close.3",
)
async def silent_close(trial: Trial) -> None:
    """A Ping before it is answered, then the stream ends."""
    client = await trial.client()
    request = await client.send("Ping", value=1)
    await client.send("Close", frame_id=0)
    client.must_be(await client.reply(request), "Pong", value=1)
    await client.expect_end()


@STAGE.check(
    "hundreds of replies still waiting at the end are all sent",
    hint="At Close or at the end of the stream, are replies still waiting to be sent? Send all of "
    "them before your FIN.",
    sentences="close.1 close.5 close.7 id.2",
)
async def many(trial: Trial) -> None:
    """Requests in one write, then a Close or a FIN; only then does the client read."""
    for name in ("Close", ""):
        requests = [wire.encode("Ping", frame_id=2, value=value) for value in range(MANY)]
        requests += [
            wire.encode(
                "Publish", frame_id=3, topic=trial.topic(name or "fin"), batch=[(b"", b"x")]
            )
        ] * MANY
        requests += [wire.encode("Close", frame_id=4)] if name else []
        async with await trial.client() as client:
            await client.send_bytes(b"".join(requests), "many requests")
            if not name:
                await client.end()
            for value in range(MANY):
                await client.expect_frame("Pong", id=2, value=value)
            for offset in range(MANY):
                await client.expect_frame("Published", id=3, first_offset=offset)
            if name:
                await client.expect_frame("Closed", id=4)
            await client.expect_end()


@STAGE.check(
    "a server that is told to stop delivers what it has acknowledged, and sends everyone GoAway",
    hint="On SIGTERM: answer what was read, send what credit allows, then GoAway (1), then FIN.",
    sentences="stop.1 stop.3 stop.4 goaway.1 event.1 welcome.1",
    once=True,
)
async def goes_away(trial: Trial) -> None:
    """A separate server; a reader, one far behind, one without credit, and a silent client."""
    boot = (await trial.client()).limits["boot"]
    async with trial.host.start_fresh() as server:
        silent, writer, reader, waiting, slow = [await trial.dial(server.target) for _ in range(5)]
        for client in (silent, writer, reader, waiting, slow):
            await client.hello()
        if silent.limits["boot"] == boot:
            raise Failure(
                "two runs of the server have the same boot", expected="another one", came=f"{boot}"
            )
        subscription = await reader.subscribe(trial.topic())
        stuck = await waiting.subscribe(trial.topic(), credit=1)
        messages = [(b"", b"%d" % offset) for offset in range(MANY)]
        await writer.publish_singly(trial.topic(), messages)
        backlog = await pile_up(trial, slow, writer)
        await slow.send_bytes(
            requests(ASKED, ASKED + MANY_MORE, trial.topic()), "requests; not all need be read"
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.terminate)
            # Nobody reads yet, or the backlog would be gone before it stops.
            await anyio.sleep(STOPS_S)
            took_s, silent_s = await slow.take_in()
            with unless_it_gave_up(took_s, silent_s):
                last, delivered = await clear(slow, backlog, ASKED)
                if last is None or delivered < CHUNKS:
                    problem = (
                        f"of {CHUNKS} messages that were acknowledged, a reader with credit was "
                        f"sent {delivered}"
                    )
                    raise Failure(
                        problem,
                        expected="all of them, and then GoAway",
                        came=last.name if last else "the end",
                    )
                slow.must_be(last, "GoAway", code=STOPPING, id=0)
            await slow.expect_end()
            await reader.expect_messages(subscription, 0, messages)
            await waiting.expect_messages(stuck, 0, messages[:1])
            for client in (silent, writer, reader, waiting):
                await client.expect_frame("GoAway", code=STOPPING, id=0)
                await client.expect_end()
                await client.aclose()


@contextmanager
def unless_it_gave_up(took_s: float, silent_s: float) -> Iterator[None]:
    """If it took so long to read, a cut proves nothing: a broker waits no longer than it likes.

    But one that was silent for long before the end had nothing more to send.

    Raises:
        Inconclusive: instead of a Failure.
    """
    try:
        yield
    except Failure:
        if took_s > WAITS_SURELY_S and silent_s < SILENT_SURELY_S:
            raise Inconclusive(f"it took {took_s:.1f} s to read what was left") from None
        raise


@STAGE.check(
    "replies queued after a reader's unread messages are sent, however the connection ends",
    hint="Waiting replies, and requests that were not read because of them, come before the end of "
    "the stream: carry out and send everything, and only then FIN.",
    sentences="close.1 close.3 close.5 close.7 id.2 slow.2",
    once=True,
)
async def behind_messages(trial: Trial) -> None:
    """A stuck reader sends many requests, then Close, FIN or a bad frame. Only then it reads."""
    for name, many, end, last, its_id in (
        ("close", MANY_MORE, wire.encode("Close", frame_id=9), "Closed", 9),
        ("fin", MANY_MORE, b"", "", 0),
        # A length of 0, which is read while everything else waits.
        ("bad", 0, bytes(4), "Error", 0),
    ):
        helper, reader = await trial.client(), await trial.client()
        backlog = await pile_up(trial, reader, helper, name)
        more = requests(ASKED, ASKED + many, trial.topic(name))
        await reader.send_bytes(more + end, f"requests, and {last or 'a FIN'}")
        if not end:
            await reader.end()
        await anyio.sleep(PILES_UP_S)  # or the client would read while a slow broker still answers
        frame, _ = await clear(reader, backlog, ASKED + many)
        if end:
            reader.must_be(frame or await reader.read(awaited=last), last, id=its_id)
            await reader.expect_end()
        elif frame:
            problem = "the stream should have ended, but more came"
            raise Failure(problem, expected="the end of the stream", frame=frame)
        await reader.aclose()
        await helper.aclose()


async def _takes(connection: Connection) -> bool:
    try:
        await connection.send_bytes(NOISE, "bytes after the end")
    except Failure:
        return False
    return True


@STAGE.check(
    "after its last frame the broker keeps reading for about a second, and then closes the socket",
    hint="Closing at once destroys what you have sent if bytes are still on their way; never "
    "closing leaks a socket for every careless client.",
    sentences="close.4 close.7 judge.8",
    once=True,
)
async def lingers(trial: Trial) -> None:
    """More bytes keep coming, after a fatal Error and after Closed."""
    for request in (wire.encode("Ping", frame_id=5, zero=1), wire.encode("Close", frame_id=5)):
        connection = await trial.client()
        await connection.send_bytes(request)
        await connection.read(awaited="the last frame")
        await connection.expect_end()
        ended = trial.elapsed
        while await _takes(connection):
            if trial.elapsed - ended > LINGERS_AT_MOST_S + trial.patience:
                problem = (
                    f"{trial.elapsed - ended:.0f} s after the end the broker still takes bytes"
                )
                raise Failure(
                    problem, expected="the socket is closed after about a second", came="no end"
                )
            await anyio.sleep(0.05)
        if trial.elapsed - ended < LINGERS_S:
            problem = f"{trial.elapsed - ended:.2f} s after the end the broker reset the connection"
            raise Failure(
                problem, expected="it reads and drops bytes for about a second", came="RST"
            )
