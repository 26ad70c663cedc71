"""S18, continued: workers that crash, hang or come back, and the messages that they had."""

from zaichik.learn.failure import Failure, Inconclusive
from zaichik.learn.layouts import OWNER, SHARED
from zaichik.learn.stages.s18_dead import STAGE as STAGE
from zaichik.learn.stages.s18_dead import listed
from zaichik.learn.stages.s18_shared import (
    DAY_MS,
    DELAYED,
    DONE,
    EXTEND,
    LOSE,
    RELEASE,
    SOME_SECONDS,
    Delivery,
    Work,
    Worker,
    joining,
    sharing,
)
from zaichik.learn.trial import Trial

OWNING = SHARED | OWNER
TAKEN_OVER = 2  # code of SubscriptionEnded
SURELY_S = 1.5  # well within a time-out, and the two seconds that an owner has
TIMEOUT_MS = 2500
A_SWEEP_S = 1.2  # a broker may look once a second for what has timed out
A_MOMENT_MS = 10


async def suspect(worker: Worker, numbers: dict[int, int]) -> list[Delivery]:
    """Receive a suspect, which comes alone, and take it out of those that are due.

    Args:
        worker: who receives it.
        numbers: by offset, which delivery it is of each that is due.
    """
    await worker.client.has_event(worker.id, SOME_SECONDS + worker.work.trial.patience)
    frame = await worker.client.event(worker.id, awaited="a suspect")
    worker.client.must_be(frame, "Messages")
    offset = frame["base"]
    if offset not in numbers or len(frame.messages) > 1:
        expected = f"one of the offsets {', '.join(map(str, numbers))}, alone"
        raise Failure("a suspect was due, alone", expected=expected, frame=frame)
    worker.client.events.insert(0, frame)
    return await worker.expect(offset, number=numbers.pop(offset), again=True)


async def one_at_a_time(worker: Worker, numbers: dict[int, int]) -> None:
    """Receive suspects, each alone, and settle each."""
    while numbers:
        came = await suspect(worker, numbers)
        await worker.expect_nothing("a suspect was open, beside which nothing is handed out")
        await worker.settle(DONE, *came)


@STAGE.check(
    "a message that was lost goes to a connection that has nothing else, and gets nothing else",
    hint="Count what all subscriptions of a connection have, of every shared name. A suspect needs "
    "that to be 0; then nothing more until it is settled.",
    how="Give each connection a hand: the set of what its workers have. Mark a message that was "
    "lost as suspect. A suspect goes to an empty hand only, and nothing goes to a hand that has "
    "one.",
    where="zaichik/core/work_queue/isolation.py: why, and for which hands.",
    sentences="shared.11 messages.6",
)
async def suspects(trial: Trial) -> None:
    """Three lost in company; a worker of another name on the connection has a message."""
    work = await Work.begin(trial)
    worker = await work.worker()
    await work.publish(b"", b"", b"")
    came = await worker.expect(0, 1, 2)
    other = await work.worker(worker.client, name="other")
    theirs = await other.expect(0, 1, 2)
    await other.settle(DONE, *theirs[:2])
    await worker.settle(LOSE, *came)
    await worker.expect_nothing("all messages were suspects, and the connection had something")
    await other.settle(DONE, theirs[2])
    left = {0: 1, 1: 1, 2: 1}
    alone = await suspect(worker, left)
    await work.publish(b"")
    await worker.expect_nothing("a suspect was open on this connection")
    await other.leave()
    await worker.settle(RELEASE, *alone)
    await one_at_a_time(worker, left | {alone[0].offset: 1})
    await worker.expect(3)


@STAGE.check(
    "a message that is lost alone is counted, and dies of it; in company it is not",
    hint="Look at the hand before you take anything out: was there one message in it?",
    sentences="shared.10 shared.11",
)
async def counted(trial: Trial) -> None:
    """Two lost by one request; another one twice, alone, with max_deliveries 2."""
    work = await Work.begin(trial)
    worker = await work.worker(max_deliveries=2)
    await work.publish(b"", b"")
    await worker.settle(LOSE, *await worker.expect(0, 1))
    await one_at_a_time(worker, {0: 1, 1: 1})
    await work.publish(b"")
    await worker.settle(LOSE, *await worker.expect(2))
    await worker.settle(LOSE, *await worker.expect_late(2, number=2))
    await worker.expect_nothing("it had been lost twice when nothing else was there")
    died = [(each["offset"], each["deliveries"]) for each in await listed(work)]
    if died != [(2, 2)]:
        problem = "a message that was lost alone, max_deliveries times, is not listed as dead"
        raise Failure(problem, expected="offset 2, 2 deliveries", came=str(died))


@STAGE.check(
    "what a lost connection had comes again one by one, if it has an owner after two seconds",
    hint="A stream that ends without a Close is lost. Without an owner, so is what it had; with "
    "one, when two seconds have passed. Remember whether it was one message.",
    sentences="close.5 shared.9 shared.10 shared.11 messages.6",
    once=True,
)
async def crashes(trial: Trial) -> None:
    """One that had a message, and is reset; an owner that had two, and just ends."""
    work, owner = await Work.begin(trial), trial.rng.randrange(1, 2**63)
    first = await work.worker(credit=1)
    second = await work.worker(features=OWNING, owner=owner, attempt=1, credit=2)
    await work.publish(b"", b"", b"")
    (alone,) = await first.take(1)
    company = await second.take(2)
    idle = await work.worker()
    await first.client.reset()
    await one_at_a_time(idle, {alone.offset: 2})
    await second.client.end()
    await one_at_a_time(idle, {each.offset: 1 for each in company})
    await work.worker(expect={"start": 3, "committed": 3})


@STAGE.check(
    "an owner that comes back in time keeps what it names, and the rest is released",
    hint="Keep what a lost connection had for two seconds, with its owner, attempt and tickets. A "
    "Subscribe of that owner takes it.",
    how="What is named goes to the new subscription with its old ticket: nothing is sent. What "
    "isn't named never arrived, so it is handed out as if it had not been before.",
    where="zaichik/core/work_queue/absence.py: workers that are away, and what they had.",
    sentences="hello.13 owner.6 shared.9 shared.14",
)
async def comes_back(trial: Trial) -> None:
    """Three messages, and two of them named; a worker beside it; a late attempt."""
    work, owner = await Work.begin(trial), trial.rng.randrange(1, 2**63)
    first = await work.worker(features=OWNING, owner=owner, attempt=3, credit=3)
    await work.publish(b"", b"", b"")
    came = await first.expect(0, 1, 2)
    beside = await work.worker()
    lost = trial.elapsed
    await first.client.reset()
    if await beside.client.has_event(beside.id, trial.quiet):
        _must_be_within(trial, lost)
        raise Failure("what a lost connection had was handed out before two seconds had passed")
    late = await joining(trial, OWNING)
    frame = await late.ask("Subscribe", topic=work.topic, **sharing(owner=owner, attempt=3))
    _must_be_within(trial, lost)
    late.must_be_error(frame, "TAKEN_OVER", at="attempt")
    tickets = [each.ticket for each in came[1:]]
    back = await work.worker(features=OWNING, owner=owner, attempt=4, credit=2, tickets=tickets)
    _must_be_within(trial, lost)
    await beside.settle(DONE, *await beside.expect(0, again=True))
    await beside.expect_nothing("the owner had kept the other two")
    await back.settle(DONE, came[0], *came[1:], late=came[:1])
    await work.worker(expect={"start": 3, "committed": 3})


def _must_be_within(trial: Trial, since: float) -> None:
    """Raise Inconclusive if it took so long that a right broker may have given up."""
    if trial.elapsed - since > SURELY_S:
        raise Inconclusive(f"more than {SURELY_S:g} s passed until the broker was asked")


@STAGE.check(
    "a worker is ended only by its own owner, and everybody else works beside it",
    hint="Look for a subscription of the same owner. Release what it has, unless it is named.",
    sentences="owner.6 owner.7 shared.9 shared.14 settle.3 ended.1",
)
async def taken_over(trial: Trial) -> None:
    """Another owner, and nobody; the same attempt; a greater one; what the old one says then."""
    work = await Work.begin(trial)
    owner, another = trial.rng.sample(range(1, 2**63), 2)
    first = await work.worker(features=OWNING, owner=owner, attempt=5, credit=2)
    await work.publish(b"", b"")
    came = await first.expect(0, 1)
    await work.worker(features=OWNING, owner=another, attempt=1, credit=1)
    await work.worker(credit=1)
    await first.expect_nothing("other owners work beside it")
    client = await joining(trial, OWNING)
    for attempt in (5, 4):
        how = sharing(owner=owner, attempt=attempt)
        await client.expect_error("TAKEN_OVER", "Subscribe", topic=work.topic, at="attempt", **how)
    await first.settle(DONE, came[0])
    await _replaced(work, first, came[1:], owner)


async def _replaced(work: Work, first: Worker, left: list[Delivery], owner: int) -> None:
    """The owner has asked again: the earlier subscription has ended, and has nothing."""
    await work.worker(features=OWNING, owner=owner, attempt=6, expect={"committed": 1})
    await first.client.expect_event(first.id, "SubscriptionEnded", code=TAKEN_OVER)
    await first.settle(DONE, *left, late=left)
    await first.leave()
    await work.worker(expect={"start": 2, "committed": 1})


@STAGE.check(
    "a message that a worker has for too long comes again, and still uses that worker's credit",
    hint="Note when each message is lost, and look once a second. Keep its ticket as overdue until "
    "the worker settles it, late, or leaves.",
    sentences="shared.8 shared.10 shared.11 settle.1",
    once=True,
)
async def hangs(trial: Trial) -> None:
    """An idle worker beside it; a new message; then it settles at last."""
    work = await Work.begin(trial)
    first = await work.worker(credit=1, timeout_ms=TIMEOUT_MS)
    asked = trial.elapsed
    await work.publish(b"")
    came = await first.expect(0)
    second = await work.worker(timeout_ms=DAY_MS)
    if await second.client.has_event(second.id, A_SWEEP_S):
        _must_be_within(trial, asked)
        raise Failure("a message came again before its worker's time-out was over")
    again = await second.expect_late(0, number=2)
    await work.publish(b"")
    await first.expect_nothing("what had timed out used its credit, which was 1")
    await second.expect_nothing("a suspect was open, beside which nothing is handed out")
    await first.settle(DONE, *came, late=came)
    await first.expect(1)
    await second.settle(DONE, *again)


@STAGE.check(
    "an extend gives a worker as much time as it says, and timeout_ms 0 gives it all",
    hint="Count from now, whatever was left. A time-out of 0 means that nothing times out.",
    how="A time-out is a moment, kept with the message. Extending moves it, later or earlier.",
    where="zaichik/core/work_queue/work_queue.py: `_extend`; zaichik/core/work_queue/calendar.py "
    "finds what is due.",
    sentences="shared.8 settle.1 settle.2",
    once=True,
)
async def extends(trial: Trial) -> None:
    """From seconds to a day; without a time-out; from a day to a moment."""
    work = await Work.begin(trial)
    first = await work.worker(credit=1, timeout_ms=TIMEOUT_MS)
    never = await work.worker(credit=1, timeout_ms=0)
    asked = trial.elapsed
    await work.publish(b"", b"")
    mine, yours = await first.take(1), await never.take(1)
    idle = await work.worker()
    frame = await first.client.ok(
        "Settle",
        subscription=first.id,
        outcome=EXTEND,
        flags=DELAYED,
        delay_ms=DAY_MS,
        tickets=[mine[0].ticket],
    )
    _must_be_within(trial, asked)
    first.client.must_be(frame, "Settled", late=[])
    if await idle.client.has_event(idle.id, TIMEOUT_MS / 1000 + A_SWEEP_S):
        raise Failure("a message was lost that a worker had, and had time for")
    await first.settle(EXTEND, *mine, delay_ms=A_MOMENT_MS)
    again = await idle.expect_late(mine[0].offset, number=2)
    await idle.settle(DONE, *again)
    await never.settle(DONE, *yours)
