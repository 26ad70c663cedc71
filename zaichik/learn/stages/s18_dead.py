"""S18, continued: the dead, messages that are handed out to nobody until somebody decides."""

import json
from typing import Any

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import CAPACITY
from zaichik.learn.stages.s16_options import named
from zaichik.learn.stages.s18_settling import SELECTED
from zaichik.learn.stages.s18_settling import STAGE as STAGE
from zaichik.learn.stages.s18_shared import DONE, NAME, REJECT, RETRY, Work
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

LIST, REVIVE, FORGET, FORGET_NAME = range(4)  # actions of Dead
FORGETTING = 1  # a flag of Unsubscribe
MEMBERS = {"offset": int, "deliveries": int, "died_us": int, "reason": str, "is_readable": bool}
FAILURES = 7

Record = dict[str, Any]


async def ask_dead(work: Work, action: int, **how: Any) -> Frame:
    """Make a request about the dead, which must succeed."""
    frame = await work.client.ok("Dead", topic=work.topic, name=NAME, action=action, **how)
    if action != LIST and frame["json"]:
        problem = "only a list has JSON"
        raise Failure(problem, expected="nothing after next", frame=frame)
    return frame


async def act(work: Work, action: int, *, count: int = 100, **how: Any) -> int:
    """Act on all the dead that a request is about, in as many pages as that takes.

    Returns how many were acted on.
    """
    done = 0
    frame = await ask_dead(work, action, count=count, **how)
    while frame["more"]:
        done += frame["done"]
        how |= {"from_offset": frame["next"]}
        frame = await ask_dead(work, action, count=count, **how)
    return int(done + frame["done"])


async def listed(work: Work, *, count: int = 100, **how: Any) -> list[Record]:
    """The dead that a request is about, in as many pages as that takes."""
    found: list[Record] = []
    more, following = 1, how.pop("from_offset", 0)
    while more:
        frame = await ask_dead(work, LIST, count=count, from_offset=following, **how)
        page = parsed(frame)
        if len(page) > count:
            raise Failure(f"{len(page)} are listed, and count was {count}", frame=frame)
        found += page
        more, following = frame["more"], frame["next"]
    return found


def parsed(frame: Frame) -> list[Record]:
    """What a page lists: only what every client must know."""
    expected = 'JSON with "dead", a list of objects with "offset" and its neighbours'
    try:
        page = [
            {name: each[name] for name in MEMBERS} for each in json.loads(frame["json"])["dead"]
        ]
    except (ValueError, TypeError, LookupError):
        raise Failure("a page of the dead is odd", expected=expected, frame=frame) from None
    for record in page:
        for name, kind in MEMBERS.items():
            if type(record[name]) is not kind:
                raise Failure(f"{name} is odd", expected=kind.__name__, frame=frame)
    return page


async def expect_dead(work: Work, *due: tuple[int, int, str], **how: Any) -> list[Record]:
    """The dead must be these: offset, deliveries and reason of each, all of them readable."""
    records = await listed(work, **how)
    came = [(each["offset"], each["deliveries"], each["reason"]) for each in records]
    if came != list(due):
        problem = "the dead that are listed are not those that should be"
        raise Failure(problem, expected=str(list(due)), came=str(came))
    if not all(each["is_readable"] for each in records):
        raise Failure("a message is not readable that the topic has", came=str(records))
    return records


@STAGE.check(
    "what fails max_deliveries times, or is rejected, is dead: listed with why, handed out no more",
    hint="When a delivery fails, compare the count with max_deliveries; 0 means never. A dead "
    "message is settled.",
    sentences="shared.5 shared.10 dead.1 dead.2",
)
async def dies(trial: Trial) -> None:
    """At the third failure; at once; never, with 0; and a key, a reason that is not ASCII."""
    work = await Work.begin(trial)
    worker = await work.worker(max_deliveries=3)
    await work.publish(b"key", b"", b"")
    frame = await worker.client.event(worker.id, awaited="the message with offset 0")
    worker.client.events.insert(0, frame)
    came = await worker.expect(0, 1, 2)
    await expect_dead(work)
    for number in (2, 3):
        await worker.settle(RETRY, came[0], delay_ms=0, reason="not the last")
        came[:1] = await worker.expect(0, number=number, again=True)
    await worker.settle(RETRY, came[0], delay_ms=0, reason="zu spät")
    await worker.settle(REJECT, came[2], reason="no such image")
    await worker.expect_nothing("one message was open, and the others were dead")
    for record in await expect_dead(work, (0, 3, "zu spät"), (2, 1, "no such image")):
        if record["died_us"] < frame["accepted_us"]:
            problem = "a message died before it was accepted"
            expected = f"died_us of at least {frame['accepted_us']}"
            raise Failure(problem, expected=expected, came=str(record))
    await worker.settle(DONE, came[0], came[1], late=[came[0]])
    await worker.leave()
    never = await work.worker(max_deliveries=0, expect={"start": 3})
    await work.publish(b"")
    came = await never.expect(3)
    for number in range(2, FAILURES):
        await never.settle(RETRY, *came, delay_ms=0)
        came = await never.expect(3, number=number, again=True)


async def with_dead(trial: Trial, count: int, *others: bytes) -> tuple[Work, Any]:
    """Work of which the first messages are dead, and a worker that has the others."""
    work = await Work.begin(trial)
    worker = await work.worker()
    await work.publish(*[b""] * count, *others)
    came = await worker.expect(*range(count + len(others)))
    for each in came[:count]:
        await worker.settle(REJECT, each, reason=f"reason {each.offset}")
    return work, worker


def reasons(*offsets: int) -> list[tuple[int, int, str]]:
    """What is listed of messages that `with_dead` has rejected."""
    return [(offset, 1, f"reason {offset}") for offset in offsets]


@STAGE.check(
    "the dead are listed in pages: from an offset on, of some alone, and at most count of them",
    hint="Sort by offset. If some are left after the last one listed, more is 1, and next is where "
    "they begin.",
    sentences="dead.1 dead.2 dead.7",
)
async def pages(trial: Trial) -> None:
    """Five of six messages; in pages of two and of one; from the middle; selected ones."""
    work, _ = await with_dead(trial, 5, b"")
    await expect_dead(work, *reasons(*range(5)))
    for count in (1, 2, 5):
        await expect_dead(work, *reasons(*range(5)), count=count)
    await expect_dead(work, *reasons(3, 4), from_offset=3, count=1)
    await expect_dead(work, from_offset=5)
    some: dict[str, Any] = {"flags": SELECTED, "offsets": (4, 1, 5, 2, 77)}
    await expect_dead(work, *reasons(1, 2, 4), **some)
    await expect_dead(work, *reasons(2, 4), **some, from_offset=2, count=1)
    await expect_dead(work, flags=SELECTED, offsets=())
    await expect_dead(work, *reasons(*range(5)), user="somebody")


@STAGE.check(
    "a revived message is open as if it had never failed, and a forgotten one is gone",
    hint="Revive: take it off the dead, and let it wait to be handed out, with a count of 0.",
    sentences="shared.10 dead.3 dead.4 messages.6",
)
async def revives(trial: Trial) -> None:
    """Two of five; two forgotten; the last, which fails again; nothing that was not dead."""
    work, worker = await with_dead(trial, 5, b"")
    await _acted(work, REVIVE, 2, flags=SELECTED, offsets=(1, 3, 5))
    came = await worker.expect(1, 3, again=True)
    await expect_dead(work, *reasons(0, 2, 4))
    await worker.settle(RETRY, came[0], delay_ms=0)
    await worker.settle(DONE, *await worker.expect(1, number=2, again=True))
    await worker.settle(REJECT, came[1], reason="still")
    await expect_dead(work, *reasons(0, 2), (3, 1, "still"), *reasons(4))
    await _acted(work, FORGET, 2, from_offset=2, flags=SELECTED, offsets=(0, 2, 4))
    await expect_dead(work, *reasons(0), (3, 1, "still"))
    await _acted(work, FORGET, 0, from_offset=4)
    await _acted(work, REVIVE, 2, count=1)
    await worker.settle(DONE, *await worker.expect(0, 3, again=True))
    await expect_dead(work)
    await worker.expect_nothing("what was forgotten does not come")


async def _acted(work: Work, action: int, due: int, **how: Any) -> None:
    """Act on the dead, so many of them."""
    if (done := await act(work, action, **how)) != due:
        raise Failure(f"{done} dead messages were acted on", expected=f"{due}", came=f"{done}")


@STAGE.check(
    "what is gone from the topic is listed as not readable, and stays dead when it is revived",
    hint="Ask the topic whether it has that offset: when you list, and before you revive.",
    sentences="dead.2 dead.3 dead.4",
)
async def gone(trial: Trial) -> None:
    """Room for two messages; a dead one that was evicted, and one that is still there."""
    work = await Work.begin(trial, {CAPACITY: 2})
    worker = await work.worker()
    await work.publish(b"", b"")
    await worker.settle(REJECT, *await worker.expect(0, 1))
    await work.publish(b"")
    await worker.settle(DONE, *await worker.expect(2))
    for readable in ([False, True], [False]):
        found = [each["is_readable"] for each in await listed(work)]
        if found != readable:
            problem = "is_readable does not tell which messages the topic still has"
            raise Failure(problem, expected=str(readable), came=str(found))
        if len(readable) > 1:
            await _acted(work, REVIVE, 1)
            await worker.settle(DONE, *await worker.expect(1, again=True))
    await _acted(work, REVIVE, 0)
    await worker.expect_nothing("what is gone cannot be handed out")
    await _acted(work, FORGET, 1)
    await expect_dead(work)


@STAGE.check(
    "a request about the dead of what does not exist is refused, and creates nothing",
    hint="Check the fields, look for the topic, then for a shared name. Create nothing on the way.",
    sentences="dead.6",
)
async def nothing_there(trial: Trial) -> None:
    """No topic; no name; a name that is not shared; an action and a count out of range."""
    work = await Work.begin(trial)
    client, missing = work.client, trial.topic("missing")
    await work.worker()
    for action in range(4):
        await client.expect_error("NO_SUCH_TOPIC", "Dead", topic=missing, name=NAME, action=action)
        await no_such_name(client, work.topic, "other", action)
    await client.create(missing, created=1)
    exclusive = await named(client, work.topic, "mine")
    client.must_be(exclusive, "Subscribed")
    await no_such_name(client, work.topic, "mine", LIST)
    named_so: dict[str, Any] = {"topic": work.topic, "name": NAME}
    for at, action, count in (("action", FORGET_NAME + 1, 1), ("count", LIST, 0)):
        await client.expect_error(
            "INVALID_FIELD", "Dead", **named_so, action=action, count=count, at=at
        )


async def no_such_name(client: Connection, topic: str, name: str, action: int) -> None:
    """A request about the dead of a shared name that there is not."""
    about = {"topic": topic, "name": name, "action": action}
    await client.expect_error("NO_SUCH_NAME", "Dead", **about, at="name")


@STAGE.check(
    "a name is forgotten when nobody has it, with all that is open or dead",
    hint="Unsubscribe with FORGET, and Dead with action 3: NOT_EMPTY while a subscription has the "
    "name. A subscription does not stand in its own way.",
    sentences="shared.3 shared.15 unsubscribe.3 dead.5 dead.6",
)
async def forgotten(trial: Trial) -> None:
    """Both ways, with and without workers; afterwards the name is free for either kind."""
    work, first = await with_dead(trial, 1, b"", b"")
    client, about = work.client, {"topic": work.topic, "name": NAME}
    second = await work.worker()
    await first.client.expect_error(
        "NOT_EMPTY", "Unsubscribe", subscription=first.id, flags=FORGETTING
    )
    await client.expect_error("NOT_EMPTY", "Dead", **about, action=FORGET_NAME)
    await second.leave()
    await first.expect_nothing("it has all that is open")
    await client.expect_error("NOT_EMPTY", "Dead", **about, action=FORGET_NAME)
    await expect_dead(work, *reasons(0))
    await first.leave(flags=FORGETTING)
    await no_such_name(client, work.topic, NAME, LIST)
    third = await work.worker(max_deliveries=9, expect={"start": 0, "committed": 0})
    came = await third.expect(0, 1, 2)
    await third.settle(REJECT, came[1])
    await third.leave()
    await expect_dead(work, (1, 1, ""))
    await _acted(work, FORGET_NAME, 1)
    await no_such_name(client, work.topic, NAME, FORGET_NAME)
    plain = await named(client, work.topic, NAME)
    client.must_be(plain, "Subscribed", start=0)
    await client.ok("Unsubscribe", subscription=plain.id, flags=FORGETTING)
