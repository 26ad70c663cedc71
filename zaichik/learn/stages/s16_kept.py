"""S16, continued: what is kept for a reader that is away, and how long a client may be silent."""

import anyio

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import ERROR_CODES, FOREVER, HEARTBEAT, TTL
from zaichik.learn.stages.s16_managing import STAGE as STAGE
from zaichik.learn.stages.s16_options import granted, named
from zaichik.learn.trial import Trial

KEPT_S, MOST_IDLE_S = 2.5, 3.0
PING_ID = 77
PING = wire.encode("Ping", frame_id=PING_ID, value=0)
PARTS = 4  # bytes of it that come singly, a third of idle_ms apart
OFTEN = 10  # messages in idle_ms


@STAGE.check(
    "messages a name has not settled are kept while others read on and its own reader is away",
    hint="A position is kept for a minute. With retention 0, once a second, free only what lies "
    "below every position and reader, not what a name was sent and has not settled.",
    sentences="name.9 retention.2 retention.4",
    once=True,
)
async def kept(trial: Trial) -> None:
    """A reader that is away, one that settles nothing, one without a name that reads everything."""
    client, topics = await trial.client(), [trial.topic("away"), trial.topic("here")]
    forever = trial.topic("forever")
    await client.create(forever, {TTL: FOREVER})
    here = await trial.client()
    for topic in topics:
        frame = await named(here, topic)
        if topic == topics[0]:
            await here.ok("Unsubscribe", subscription=frame.id)
        else:
            other = await client.subscribe(topic)
    messages = [trial.message() for _ in range(3)]
    for topic in (*topics, forever):
        await client.publish(topic, *messages)
    await client.expect_messages(other, 0, messages)
    await here.expect_messages(frame.id, 0, messages)
    await anyio.sleep(KEPT_S)
    for topic in topics:
        frame = await client.ask("Subscribe", topic=topic, name="worker")
        client.must_be(frame, "Subscribed", start=0, committed=0)
        await client.expect_messages(frame.id, 0, messages)
    await client.expect_messages(await client.subscribe(forever, expect={"start": 0}), 0, messages)


@STAGE.check(
    "a client that promised a heartbeat and falls silent is disconnected, and no other",
    hint="Note when anything last came from a client, even part of a frame. A client without the "
    "promise may stay silent. What you send yourself is no sign of life.",
    sentences="hello.11 hello.12",
    once=True,
)
async def heartbeats(trial: Trial) -> None:
    """Silent while it is sent messages, two that send in time, one silent without the promise."""
    silent, alive, other = await trial.dial(), await trial.dial(), await trial.client()
    idle_s = (await granted(silent, "HEARTBEAT", HEARTBEAT)).limits["idle_ms"] / 1000
    if idle_s > MOST_IDLE_S:
        most = f"{MOST_IDLE_S:g} s (zaichik serve --limit idle_timeout={MOST_IDLE_S:g}s)"
        raise Skipped(f"idle_ms is {idle_s * 1000:.0f}: this check waits no longer than {most}")
    parts, publisher = await trial.dial(), await trial.client()
    await alive.hello(features=HEARTBEAT)
    await parts.hello(features=HEARTBEAT)
    began = trial.elapsed
    await silent.subscribe(trial.topic("read"))

    async def is_sent_messages() -> None:
        while True:
            message = {"topic": trial.topic("read"), "batch": [trial.message()]}
            await publisher.send("Publish", frame_id=0, **message)
            await anyio.sleep(idle_s / OFTEN)

    async with anyio.create_task_group() as tasks, anyio.create_task_group() as meanwhile:
        tasks.start_soon(_goes_on, trial, alive, parts, idle_s)
        meanwhile.start_soon(is_sent_messages)
        frame = await silent.read(awaited="IDLE_TIMEOUT", patience=idle_s + trial.patience)
        while frame.name == "Messages" and trial.elapsed - began < idle_s + trial.patience:
            frame = await silent.read(awaited="IDLE_TIMEOUT", patience=idle_s + trial.patience)
        passed = trial.elapsed - began
        meanwhile.cancel_scope.cancel()
        silent.must_be_error(frame, "IDLE_TIMEOUT", request_type=0, id=0)
        await silent.expect_end()
        if passed < 0.9 * idle_s:
            problem = (
                f"{passed:.2f} s of silence ended a connection, and idle_ms was {idle_s * 1000:.0f}"
            )
            raise Failure(problem, expected="not before idle_ms has passed", frame=frame)
    await other.ping()
    await alive.ping()
    await parts.pour(PING[PARTS:])
    frame = await parts.read(awaited="Pong")
    if frame.name != "Error" or frame["code"] != ERROR_CODES["FRAME_TIMEOUT"]:  # it may limit that
        parts.must_be(frame, "Pong", id=PING_ID)


async def _goes_on(trial: Trial, alive: Connection, parts: Connection, idle_s: float) -> None:
    """For longer than idle_ms, send requests on one connection, and bytes of a Ping on another."""
    for part in range(PARTS):
        await anyio.sleep(idle_s / 3)
        await parts.pour(PING[part : part + 1])
        if part % 2:
            await alive.ask("Commit", subscription=1, next=0)
        else:
            await alive.ask("CreateTopic", topic=trial.topic())
