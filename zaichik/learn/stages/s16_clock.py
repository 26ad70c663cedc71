"""S16, continued: a clock that stands still until a client moves it, so that hours pass at once."""

from zaichik.learn.layouts import HEARTBEAT, TTL, WINDOW
from zaichik.learn.stages.s16_killed import STAGE as STAGE
from zaichik.learn.trial import Trial

HOUR_MS = 3_600_000
HOUR_US = HOUR_MS * 1000


@STAGE.check(
    "an hour passes when a client says so",
    hint="Get the time from a single function everywhere: publishing, reading, windows. Let that "
    "function return a variable.",
    how="The request has a time, not a duration: sent again, because its reply was lost, it "
    "changes nothing. Refuse a time before the current one; otherwise set the variable.",
    where="zaichik/core/broker.py: `advance`; zaichik/base/clock.py: `ManualClock`.",
    sentences="clock.1 clock.2 clock.3 clock.4",
)
async def advances(trial: Trial) -> None:
    """A message and its window in the last microsecond of an hour and in the next; no way back."""
    client, topic, message = await trial.client(), trial.topic(), (b"k", trial.message()[1])
    frame = await client.ask_optional("AdvanceClock", to_us=0)
    client.must_be_error(frame, "INVALID_FIELD", at="to_us")
    other = await trial.client(features=HEARTBEAT)
    await client.create(topic, {TTL: HOUR_MS, WINDOW: HOUR_MS})
    await client.publish(topic, message, first_offset=0, stored=1)
    subscription = await client.subscribe(topic, credit=1, expect={"start": 0})
    frame = await client.event(subscription, awaited="the message with offset 0")
    client.must_be(frame, "Messages", base=0)
    end_us = frame["accepted_us"] + HOUR_US
    await client.ok("AdvanceClock", to_us=end_us - 1)
    await client.publish(topic, message, stored=0, compacted=1)
    await client.expect_messages(
        await client.subscribe(topic, credit=1, expect={"start": 0}), 0, [message]
    )
    for _ in range(2):
        await client.ok("AdvanceClock", to_us=end_us)
    await client.expect_error("INVALID_FIELD", "AdvanceClock", to_us=end_us - 1, at="to_us")
    await client.publish(topic, message, first_offset=1, stored=1)
    subscription = await client.subscribe(topic, expect={"start": 1})
    frame = await client.event(subscription, awaited="the message with offset 1")
    client.must_be(frame, "Messages", base=1, accepted_us=end_us)
    await other.ping()
