"""S16, continued: what is kept for a reader that is away, and for how long silence is borne."""

import anyio

from zaichik.learn.failure import Failed, Skipped
from zaichik.learn.layouts import FOREVER, HEARTBEAT, TTL
from zaichik.learn.stages.s16_managing import STAGE as STAGE
from zaichik.learn.stages.s16_options import granted, named
from zaichik.learn.trial import Trial

KEPT_S, MOST_IDLE_S = 2.5, 3.0


@STAGE.check(
    "what a name has not settled stays with its topic while others read on, and its reader is away",
    hint="A position is kept for a minute. With retention 0, what lies below every position and reader may go, once a "
    "second: not what a name was sent and has not settled.",
    sentences="name.9 retention.2 retention.4",
    once=True,
)
async def kept(trial: Trial) -> None:
    """A reader away, one that is there and has settled nothing, one without a name that reads all; two seconds."""
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
    await client.messages(other, 0, messages)
    await here.messages(frame.id, 0, messages)
    await anyio.sleep(KEPT_S)
    for topic in topics:
        frame = await client.ask("Subscribe", topic=topic, name="worker")
        client.must_be(frame, "Subscribed", start=0, committed=0)
        await client.messages(frame.id, 0, messages)
    await client.messages(await client.subscribe(forever, expect={"start": 0}), 0, messages)


@STAGE.check(
    "a client that has promised a heartbeat and keeps silent is ended, and nobody else",
    hint="Note when anything came from a client, be it a frame or a part of one. Without the promise, forget it.",
    sentences="hello.11 hello.12",
    once=True,
)
async def heartbeats(trial: Trial) -> None:
    """One silent, one that sends this and that in time, one silent without a promise."""
    silent, alive, other = await trial.dial(), await trial.dial(), await trial.client()
    idle_s = (await granted(silent, "HEARTBEAT", HEARTBEAT)).limits["idle_ms"] / 1000
    if idle_s > MOST_IDLE_S:
        most = f"{MOST_IDLE_S:g} s (zaichik serve --limit idle_timeout={MOST_IDLE_S:g}s)"
        raise Skipped(f"idle_ms is {idle_s * 1000:.0f}: this check waits no longer than {most}")
    began = trial.elapsed
    await alive.hello(features=HEARTBEAT)

    async def goes_on() -> None:
        for _ in range(2):
            await anyio.sleep(idle_s / 3)
            await alive.ask("CreateTopic", topic=trial.topic())
            await anyio.sleep(idle_s / 3)
            await alive.ask("Commit", subscription=1, next=0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(goes_on)
        frame = await silent.read(awaited="IDLE_TIMEOUT", patience=idle_s + trial.patience)
        passed = trial.elapsed - began
        silent.must_be_error(frame, "IDLE_TIMEOUT", request_type=0, id=0)
        await silent.ends()
        if passed < 0.9 * idle_s:
            problem = f"{passed:.2f} s of silence ended a connection, and idle_ms was {idle_s * 1000:.0f}"
            raise Failed(problem, expected="not before idle_ms has passed", frame=frame)
    await other.ping()
    await alive.ping()
