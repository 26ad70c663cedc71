"""S13: A stuck reader harms nobody.

Goal: A program that doesn't read its socket must cost the broker a bounded amount of memory, and
other clients no time. Its messages turn into lag, its requests wait, and in the end it may be
disconnected.

Tested: A subscriber stops reading while 24 MiB are published. Others must be served meanwhile; what
was kept for it must have been bounded, and the rest reported as lag. Then a client sends requests
and reads no reply.

Real systems: NATS disconnects a client that has 64 MB pending or takes no bytes for 10 s
(max_pending, write_deadline); Redis has client-output-buffer-limit (pubsub 32mb 8mb 60). RabbitMQ
stops reading from publishers instead. In the first zaichik, a reader's own commits waited behind
its unfinished send.

How: Take from a topic only as much as the socket takes from you: while more than about 256 KiB wait
to be sent, leave messages in the ring (where they may be evicted).

Where: tutorial/tiny_broker.py, `Connection.write`: messages are taken from the topics only after
the last send has ended. zaichik/core/subscription_manager.py has a limit for it, `soft_output`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from zaichik.learn import docstrings, wire
from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure, Inconclusive
from zaichik.learn.hose import hose
from zaichik.learn.layouts import CAPACITY, FOREVER, LATEST, LEAST, TTL
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

# Between two programs on one machine, Linux keeps up to 4 MiB on the sender's side, and on the
# reader's, as long as it does not read, some 128 KiB. (With a smaller buffer packets are dropped,
# and sent again later and later.) Few, large messages, so that it is over long before a broker may
# disconnect a reader that takes nothing, which is after 10 s.
CHUNK, CHUNKS, CHUNKS_TO_BE_STUCK, ROOM = LEAST["max_message"], 96, 32, 5
OTHERS_STUCK = 3
SURELY_NOT_CUT_OFF_S, PAUSE_S = 8.0, 3.0
# Requests whose replies nobody reads, until no more are carried out. A broker may keep 1 MiB of
# them (slow.2), and its system 4 MiB: more than both, and a margin, is without limit. Marks are
# close together, to show that even a slow broker goes on, and few are sent ahead: this is about
# memory, not a flood.
MOST_UNREAD = 6 * 2**20
REQUESTS_A_MARK, MARKS_AHEAD = 500, 4
STALLED_S = 2.0

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=12, heavy=True)


@contextmanager
def _not_yet_cut_off(trial: Trial) -> Iterator[None]:
    """If it took too long, a failure proves nothing: the reader may have been disconnected."""
    began = trial.elapsed
    try:
        yield
    except Failure:
        if trial.elapsed - began > SURELY_NOT_CUT_OFF_S:
            unclear = "a reader that takes nothing for 10 s may be disconnected; this took as long"
            raise Inconclusive(unclear) from None
        raise


async def _stuck(trial: Trial) -> tuple[Connection, Connection, int]:
    """A reader with credit for everything, and a writer, of a topic with little room."""
    return await trial.make_reader({CAPACITY: ROOM, TTL: FOREVER}, credit_bytes=2**32 - 1)


def _chunk(offset: int) -> Pair:
    return b"", offset.to_bytes(4, "little") + bytes(CHUNK - 4)


def _chunks(count: int) -> Iterator[Pair]:
    return map(_chunk, range(count))


@STAGE.check(
    "publishers and other readers do not wait for a stuck reader",
    hint="What waits for a send to the stuck socket? Only the connection's own task may.",
    sentences="publish.5 slow.4",
)
async def others_go_on(trial: Trial) -> None:
    """Everything is published, and another reader gets it all."""
    stuck, writer, _ = await _stuck(trial)
    reader = await trial.client()
    subscription = await reader.subscribe(trial.topic(), credit_bytes=2**32 - 1)
    with _not_yet_cut_off(trial):
        for offset in range(CHUNKS_TO_BE_STUCK):
            await writer.publish(trial.topic(), _chunk(offset), first_offset=offset, subscribers=2)
            await reader.expect_messages(subscription, offset, [_chunk(offset)])
    await stuck.reset()


@STAGE.check(
    "what is kept for a stuck reader is bounded, and what it missed is reported later",
    hint="Is there a queue per subscriber, or an unlimited send buffer? Leave messages in the ring "
    "until the socket takes them.",
    sentences="slow.1 lag.1",
)
async def bounded(trial: Trial) -> None:
    """When it reads again, it gets messages and lag without a gap, but surely not everything."""
    stuck, writer, subscription = await _stuck(trial)
    expected, missed = 0, 0
    with _not_yet_cut_off(trial):
        await writer.publish_singly(trial.topic(), _chunks(CHUNKS), first_offset=0)
        while expected < CHUNKS:
            frame = await stuck.event(
                subscription, awaited=f"the message with offset {expected}, or lag"
            )
            if frame.name == "Lagged":
                stuck.must_be(frame, "Lagged", from_offset=expected)
                missed += frame["to_offset"] - expected
                expected = frame["to_offset"]
            else:
                await _same(stuck, frame, expected)
                expected += len(frame.messages)
    if not missed:
        kept = CHUNKS * CHUNK // 2**20
        problem = (
            f"all {kept} MiB were kept for a reader that did not read, though the ring "
            "holds "
            f"{ROOM} messages"
        )
        raise Failure(problem, expected="Lagged at some point", came="every message")


async def _same(client: Connection, frame: wire.Frame, expected: int) -> None:
    client.must_be(frame, "Messages", base=expected)
    numbers = [int.from_bytes(message.payload[:4], "little") for message in frame.messages]
    if numbers != list(range(expected, expected + len(numbers))):
        raise Failure(f"the payload of offset {expected} is not what was published")


@STAGE.check(
    "requests of a stuck reader are still carried out",
    hint="Read requests and write messages in two tasks: a send that waits must not stop the "
    "reading. Do several readers' sockets wait with one buffer, in which you write each one's id?",
    how="Two tasks or two states for each connection: reading goes on while writing waits. What a "
    "request changes for others happens at once; only its reply waits.",
    where="tutorial/tiny_broker.py: `Connection.run` starts `write` and `read`; `answer` never "
    "awaits.",
    sentences="slow.2",
)
async def own_requests(trial: Trial) -> None:
    """It publishes while its own messages wait; so do others. In the end all of them read on."""
    stuck, writer, subscription = await _stuck(trial)
    readers = [stuck, *[await trial.client() for _ in range(OTHERS_STUCK)]]
    subscriptions = [subscription]
    for number, reader in enumerate(readers[1:], 1):
        await reader.subscribe(trial.topic(f"{number}"))
        await writer.publish(trial.topic(f"{number}"), (b"", bytes(CHUNK * number // len(readers))))
        for _ in range(number):  # so that their ids differ
            await reader.ask("Unsubscribe", subscription=0)
        subscriptions.append(await reader.subscribe(trial.topic(), credit_bytes=2**32 - 1))
    other = await writer.subscribe(trial.topic("other"))
    with _not_yet_cut_off(trial):
        await writer.publish_singly(trial.topic(), _chunks(CHUNKS_TO_BE_STUCK), first_offset=0)
        for offset, reader in enumerate(readers):
            message = trial.message()
            await reader.send("Publish", frame_id=0, topic=trial.topic("other"), batch=[message])
            await reader.flush()
            await writer.expect_messages(other, offset, [message])
        for reader, its in zip(readers, subscriptions, strict=True):
            await _reads_on(reader, its)
    for reader in readers:
        await reader.reset()


async def _reads_on(reader: Connection, subscription: int) -> None:
    """Read everything, or lag: each frame must have the id of this reader's own subscription."""
    expected = 0
    while expected < CHUNKS_TO_BE_STUCK:
        frame = await reader.event(subscription, awaited=f"offset {expected}, or lag")
        if frame.name == "Lagged":
            reader.must_be(frame, "Lagged", from_offset=expected)
            expected = frame["to_offset"]
        else:
            await _same(reader, frame, expected)
            expected += len(frame.messages)


@STAGE.check(
    "replies that nobody reads do not pile up without limit",
    hint="While more than about 128 KiB of replies wait, stop reading this client's requests.",
    how="Count the bytes of replies in the output. Above about 128 KiB, stop reading from this "
    "client: TCP then stops it from sending. Once they are sent, go on.",
    where="zaichik/server/connection.py compares `replies.bytes` with `max_replies` before it "
    "reads. "
    "tutorial/tiny_broker.py does not, and says so in its docstring.",
    sentences="slow.2",
    once=True,
)
async def replies(trial: Trial) -> None:
    """Requests whose replies are never read; marks among them show how many were carried out."""
    watcher = await trial.client()
    topic, marks_topic = trial.topic(), trial.topic("marks")
    marks = await watcher.subscribe(marks_topic, start=LATEST)
    await watcher.create(topic)
    unread_a_mark = REQUESTS_A_MARK * len((await watcher.create(topic)).data)
    requests = wire.encode("CreateTopic", frame_id=7, topic=topic) * REQUESTS_A_MARK
    requests += wire.encode("Publish", frame_id=0, topic=marks_topic, batch=[(b"", b"mark")])
    ahead = anyio.Semaphore(MARKS_AHEAD)
    unread = 0
    async with hose(trial.target) as greedy, anyio.create_task_group() as tasks:
        await greedy.pour(wire.encode("Hello", frame_id=0))

        async def pour_on() -> None:
            await ahead.acquire()
            while await greedy.pour(requests):
                await ahead.acquire()

        tasks.start_soon(pour_on)
        while unread <= MOST_UNREAD and await watcher.has_event(
            marks, STALLED_S * max(1.0, trial.scale)
        ):
            for _ in await watcher.next_messages(marks):
                unread += unread_a_mark
                ahead.release()
        tasks.cancel_scope.cancel()
    await watcher.ping()
    if unread > MOST_UNREAD:
        problem = (
            f"requests were carried out although {unread:,} bytes of their replies had not been "
            "read"
        )
        raise Failure(
            problem,
            expected="no more requests are read once 1 MiB of replies waits in the broker, and "
            "up to 4 MiB in its system",
            came="all were carried out",
        )


@STAGE.check(
    "a busy subscription does not starve quiet ones on the same connection",
    hint="Give each subscription that has something to send a turn of one frame. Repeat.",
    sentences="fair.1 fair.2 open.6 open.7",
    once=True,
)
async def turns(trial: Trial) -> None:
    """One has a long backlog; messages for two others, and a reply, must not come last."""
    client, writer = await trial.client(), await trial.client()
    await writer.create(trial.topic("busy"), {TTL: FOREVER})
    quiet = [trial.topic("first"), trial.topic("last")]
    subscriptions = [await client.subscribe(quiet[0])]
    busy = await client.subscribe(trial.topic("busy"), credit_bytes=2**32 - 1)
    subscriptions.append(await client.subscribe(quiet[1]))
    with _not_yet_cut_off(trial):
        await writer.publish_singly(trial.topic("busy"), _chunks(CHUNKS), first_offset=0)
        await anyio.sleep(PAUSE_S)  # too short to be disconnected for
        for topic in quiet:
            await writer.publish(topic, trial.message(), subscribers=1)
        request = await client.send("Ping", value=1)
        waiting, offset = {*subscriptions, request}, 0
        while waiting:
            frame = await client.read(awaited="messages, and a Pong")
            if frame.id == request:
                client.must_be(frame, "Pong", value=1)
            else:
                client.must_be(frame, "Messages")
            if frame.id == busy:
                offset += len(frame.messages)
            waiting.discard(frame.id)
            if waiting and offset == CHUNKS:
                what = "a reply" if waiting == {request} else "that of a quiet one"
                problem = f"all {CHUNKS} messages of a busy subscription came before {what}"
                raise Failure(
                    problem,
                    expected="subscriptions take turns",
                    came=f"nothing with id {min(waiting)}",
                )
        request = await client.send("Unsubscribe", subscription=busy)
        while (frame := await client.read(awaited="Unsubscribed")).name == "Messages":
            pass
        client.must_be(frame, "Unsubscribed", id=request)
        await client.expect_no_event(
            "its subscription had ended, however much was left of the topic"
        )
    await client.reset()
