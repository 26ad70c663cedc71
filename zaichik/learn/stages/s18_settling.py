"""S18, continued: what a worker may say of a message that it has, and what becomes of it then."""

from typing import Any

from zaichik.learn.failure import Skipped
from zaichik.learn.layouts import LATEST, TYPES
from zaichik.learn.stages.s18_shared import (
    DAY_MS,
    DELAYED,
    DONE,
    EXTEND,
    GIVE_BACK,
    NAME,
    REJECT,
    RELEASE,
    RETRY,
    SOME_SECONDS,
    Work,
    sharing,
)
from zaichik.learn.stages.s18_shared import STAGE as STAGE
from zaichik.learn.trial import Trial

MONTH_MS = 30 * DAY_MS  # the longest delay of a retry
MOST_REASON = 1024  # bytes
MOST_BESIDES = 1024  # bytes of a frame besides a list
SELECTED = 1  # a flag of Dead
A_MOMENT_MS = 10  # if it were taken for seconds, nothing would come in time


@STAGE.check(
    "each ticket is judged by itself, and one that is not open at this worker is late",
    hint="Look each ticket up among those of this subscription. Collect the others in the order of "
    "the request, and change nothing of them.",
    sentences="settle.1 shared.6",
)
async def late(trial: Trial) -> None:
    """Settled before, twice in a request, another worker's, never given; with every outcome."""
    work = await Work.begin(trial)
    worker = await work.worker(credit=3)
    await work.publish(*[b""] * 5)
    came = await worker.expect(0, 1, 2)
    other = await work.worker(worker.client)
    theirs = await other.expect(3, 4)
    await worker.settle(DONE, came[0])
    everything = [theirs[0], came[1], came[0], came[1], theirs[1]]
    await worker.settle(DONE, *everything, late=[theirs[0], came[0], came[1], theirs[1]])
    for outcome in range(EXTEND):
        await worker.settle(outcome, theirs[1], came[0], late=[theirs[1], came[0]])
    await worker.settle(EXTEND, theirs[0], came[1], delay_ms=DAY_MS, late=[theirs[0], came[1]])
    # Which numbers are tickets is up to the broker; this worker has been told of all of its own.
    unknown = [ticket for ticket in (0, 1, 2**64 - 1) if ticket not in work.tickets]
    await worker.client.ok(
        "Settle",
        subscription=worker.id,
        outcome=REJECT,
        tickets=unknown,
        expect={"late": unknown},
    )
    await worker.expect_nothing("nothing had been given back")
    await other.settle(DONE, *theirs)
    await worker.settle(DONE, came[2])
    await work.worker(expect={"start": 5, "committed": 5})


@STAGE.check(
    "a Settle that is out of bounds is refused and settles nothing",
    hint="Check outcome, reason, delay_ms and the subscription before you look at a ticket.",
    sentences="settle.2 settle.3",
)
async def bounds(trial: Trial) -> None:
    """Just within each bound, and just beyond; subscriptions that take no Settle."""
    work = await Work.begin(trial)
    worker = await work.worker()
    client = worker.client
    await work.publish(*[b""] * 4)
    came = await worker.expect(0, 1, 2, 3)
    tickets = [each.ticket for each in came]

    async def refused(at: str, error: str = "INVALID_FIELD", **how: Any) -> None:
        request = {"subscription": worker.id, "outcome": DONE, "tickets": tickets} | how
        await client.expect_error(error, "Settle", at=at, **request)

    await refused("outcome", outcome=EXTEND + 1)
    await refused("reason", outcome=RETRY, reason="é" * (MOST_REASON // 2) + "x")
    await refused("delay_ms", outcome=EXTEND)
    for outcome, delay_ms in ((RETRY, MONTH_MS + 1), (EXTEND, 0), (EXTEND, DAY_MS + 1)):
        await refused("delay_ms", outcome=outcome, flags=DELAYED, delay_ms=delay_ms)
    plain = await client.subscribe(work.topic, start=LATEST)
    await refused("subscription", subscription=plain)
    await refused("subscription", "NO_SUCH_SUBSCRIPTION", subscription=plain + 1)
    await client.ok("Unsubscribe", subscription=plain)
    await worker.settle(EXTEND, *came, delay_ms=DAY_MS)
    await worker.settle(DONE, came[0], delay_ms=2**64 - 1)
    await worker.settle(RETRY, came[1], delay_ms=MONTH_MS, reason="é" * (MOST_REASON // 2))
    await worker.settle(REJECT, came[2], delay_ms=MONTH_MS + 1)
    await worker.settle(DONE, came[3])
    await worker.expect_nothing("a message was to come again after 30 days")


@STAGE.check(
    "a list of tickets or offsets has at most max_batch numbers",
    hint="Welcome tells max_batch. Check the length of the list with the other fields.",
    sentences="settle.4",
)
async def lists(trial: Trial) -> None:
    """As many as may be, and one more: in Settle, Subscribe and Dead."""
    work = await Work.begin(trial)
    worker = await work.worker()
    client = worker.client
    most = client.limits["max_batch"]
    if 8 * most > client.limits["max_frame"] - MOST_BESIDES:
        raise Skipped("a list of max_batch numbers is larger than this broker's frames")
    numbers = range(most)
    settle = {"subscription": worker.id, "outcome": DONE}
    await client.ok("Settle", **settle, tickets=numbers, expect={"late": [*numbers]})
    about = {"topic": work.topic, "name": NAME, "action": 0, "flags": SELECTED}
    frame = await client.ask("Dead", **about, offsets=numbers)
    client.must_be(frame, "DeadPage", more=0)
    longer = range(most + 1)
    for request, at, fields in (
        ("Settle", "tickets", settle),
        ("Dead", "offsets", about),
        ("Subscribe", "tickets", {"topic": work.topic} | sharing()),
    ):
        fields |= {at: longer}
        frame = await client.ask(request, **fields)
        client.must_be_error(frame, "INVALID_FIELD", request_type=TYPES[request], at=at)


@STAGE.check(
    "a retry comes again before new messages, after its delay, and each delivery counts",
    hint="Keep a count with the message, and the time from which on it may be handed out.",
    how="A delivery is number count + 1. What waits for its time uses nobody's credit. Look for "
    "what is due whenever a worker asks, and once a second.",
    where="zaichik/core/work_queue/retries.py: `retry`; the essay above it has a table of what "
    "comes again when.",
    sentences="messages.6 shared.6 shared.10",
)
async def retry(trial: Trial) -> None:
    """With no delay, three times, and new ones waiting; a day; a moment; no delay named."""
    work = await Work.begin(trial)
    worker = await work.worker(credit=1)
    await work.publish(b"", b"")
    came = await worker.expect(0)
    for number in (2, 3, 4):
        await worker.settle(RETRY, *came, delay_ms=0, reason="again")
        came = await worker.expect(0, number=number, again=True)
    await worker.settle(RETRY, *came, delay_ms=DAY_MS)
    await worker.settle(RETRY, *came, delay_ms=0, late=came)
    came = await worker.expect(1)
    await worker.expect_nothing("credit was 1, and the other message was to come in a day")
    await worker.settle(RETRY, *came, delay_ms=A_MOMENT_MS)
    came = await worker.expect_late(1, number=2)
    await worker.settle(RETRY, *came)
    await worker.settle(DONE, *came, late=came)


@STAGE.check(
    "a release is as if nothing had been handed out: at once, to anybody, and not counted",
    hint="Take the delivery off the count. It stays REDELIVERED, and gets a new ticket.",
    sentences="messages.6 shared.6 shared.9 shared.10",
)
async def release(trial: Trial) -> None:
    """Released again and again, before new ones; after a failure; by Unsubscribe and by Close."""
    work = await Work.begin(trial)
    worker = await work.worker(credit=2, max_deliveries=2)
    await work.publish(b"", b"", b"")
    came = await worker.expect(0, 1)
    for _ in range(3):
        await worker.settle(RELEASE, *came)
        came = await worker.expect(0, 1, again=True)
    await worker.settle(RETRY, came[0], delay_ms=0)
    came[:1] = await worker.expect(0, number=2, again=True)
    await worker.settle(RELEASE, came[0])
    came[:1] = await worker.expect(0, number=2, again=True)
    other = await work.worker(max_deliveries=2)
    await other.settle(DONE, *await other.expect(2))
    await worker.settle(DONE, came[0])
    await other.expect_nothing("the last message was with another worker")
    await worker.leave()
    await other.expect(1, again=True)
    last = await work.worker(max_deliveries=2)
    await other.client.ok("Close")
    await last.settle(DONE, *await last.expect(1, again=True))
    await work.worker(max_deliveries=2, expect={"start": 3, "committed": 3})


@STAGE.check(
    "what is given back comes again later, and this delivery does not count",
    hint="As with a release, take the delivery off the count. But let it wait, or it would come at "
    "once, again and again.",
    how="Let it wait like a retry without a delay. That time is yours to choose, so this check "
    "waits for some seconds, and passes if nothing has come by then.",
    where="zaichik/core/work_queue/retries.py: `give_back`, with the doubt after the tenth time.",
    sentences="messages.6 shared.7 shared.10",
    once=True,
)
async def give_back(trial: Trial) -> None:
    """Given back, and if it comes again, done; then another message."""
    work = await Work.begin(trial)
    worker = await work.worker(credit=1)
    await work.publish(b"")
    came = await worker.expect(0)
    await worker.settle(GIVE_BACK, *came)
    await worker.settle(DONE, *came, late=came)
    if await worker.client.has_event(worker.id, SOME_SECONDS):
        await worker.settle(DONE, *await worker.expect(0, again=True))
    else:
        await work.publish(b"")
        await worker.expect(1)
