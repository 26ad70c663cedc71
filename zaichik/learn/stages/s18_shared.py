"""S18: Shared names.

Goal: An optional kind of name: several subscriptions share it, and are the workers of a queue. Each
message goes to one of them, which settles it by itself: done, to be tried again, or hopeless. What
fails too often is dead, and is kept apart until somebody decides about it. If a broker does not
grant SHARED, these checks are skipped.

Tested: Who gets what, and how much at a time; tickets; each outcome of Settle; the dead, listed,
revived and forgotten; workers that leave, crash, hang and come back; messages that may have killed
a worker; order by key; lag; a random history in which every message has one fate.

Real systems: Queues of RabbitMQ settle each message by itself, and so do the share groups of Kafka
(KIP-932). Both count deliveries and give up after some. If a consumer crashes with a hundred
messages, all hundred are counted, so one that kills consumers takes innocent ones with it.

How: A name has the next offset to be handed out, what is open, and what is dead, each by offset. An
open message is with a worker, or waits. Workers ask for the next one whenever something changes.
Everything that comes back goes through one function, which decides whether the delivery counts.

Where: tests/learn/brokers/python/work_queue.py: a queue in a short file.
zaichik/core/work_queue/work_queue.py: one that serves workers in turns and is saved on disk. The
rules and their reasons are in docs/understand/semantics.md, SHR.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zaichik.learn import docstrings, notation
from zaichik.learn.connection import Connection, Pair
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.layouts import ERROR_CODES, FOREVER, LATEST, OFFSET, SHARED, SHARING, TTL, TYPES
from zaichik.learn.stage import Stage
from zaichik.learn.stages.s16_names import NAMED, REDELIVERED, RESUMED, delivered
from zaichik.learn.stages.s16_options import OWNED, named
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame, Message

BY_KEY = 4  # a flag of Subscribe
HOLES, TICKETS = 1, 4  # flags of Messages
DELAYED = 1  # a flag of Settle
DONE, RETRY, REJECT, RELEASE, GIVE_BACK, LOSE, EXTEND = range(7)  # outcomes of Settle
DAY_MS = 86_400_000
NAME = "workers"
SOME_SECONDS = 3.0  # two for a lost worker's owner, and one until a broker judges

STAGE = Stage.parse(
    docstrings.of_module(__name__), chapter=16, frames="Settle Settled Dead DeadPage"
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a worker was handed."""

    message: Message
    ticket: int
    number: int

    @property
    def offset(self) -> int:
        """The message's offset."""
        return self.message.offset


def sharing(*, by_key: bool = False, **how: Any) -> dict[str, Any]:
    """The fields of a Subscribe that shares its name."""
    flags = SHARING
    if by_key:
        flags |= BY_KEY
    if "owner" in how:
        flags |= OWNED
    usual = {"name": NAME, "timeout_ms": 0, "max_deliveries": 0, "tickets": ()}
    return usual | {"flags": flags} | how


async def joining(trial: Trial, features: int = SHARED) -> Connection:
    """A client that may share names. Skips the check if the broker does not let it."""
    client = await trial.client(features=features)
    if client.limits["features"] & features != features:
        raise Skipped(
            "this broker does not offer shared names, or not with owners: both are optional"
        )
    return client


@dataclass(slots=True)
class Work:
    """A topic, what was published to it, and what workers of its shared name have been told.

    Attributes:
        trial: the trial.
        topic: the topic's name.
        client: publishes, and asks about the dead.
        published: key and payload of each message.
        tickets: all that were given.
    """

    trial: Trial
    topic: str
    client: Connection
    published: list[Pair] = field(default_factory=list)
    tickets: set[int] = field(default_factory=set)

    @classmethod
    async def begin(cls, trial: Trial, settings: dict[int, int] | None = None) -> "Work":
        """Create the topic, which keeps its messages. Skips the check without shared names."""
        client, topic = await joining(trial), trial.topic()
        await client.create(topic, {TTL: FOREVER} | (settings or {}))
        return cls(trial, topic, client)

    async def publish(self, *keys: bytes) -> None:
        """Publish a batch with a message for each key."""
        batch = [self.trial.message(key) for key in keys]
        first = len(self.published)
        # Before they are sent: a worker may have them before the reply has come.
        self.published += batch
        await self.client.publish(self.topic, *batch, first_offset=first)

    async def worker(
        self,
        client: Connection | None = None,
        *,
        features: int = SHARED,
        expect: dict[str, Any] | None = None,
        **how: Any,
    ) -> "Worker":
        """Subscribe to the shared name, on a connection of its own unless one is given."""
        connection = client or await joining(self.trial, features)
        frame = await connection.ask("Subscribe", topic=self.topic, **sharing(**how))
        connection.must_be(frame, "Subscribed", **(expect or {}))
        return Worker(self, connection, frame.id)

    def deliveries(self, frame: Frame) -> list[Delivery]:
        """Check the content of a frame with TICKETS. Returns what it hands out."""
        found = []
        for ticket, message in enumerate(frame.messages, frame["ticket"]):
            is_there = message.offset < len(self.published)
            if not is_there or self.published[message.offset] != (message.key, message.payload):
                problem = f"offset {message.offset} was not published like this"
                raise Failure(problem, frame=frame)
            if ticket in self.tickets:
                raise Failure(f"the ticket {ticket} had been given before", frame=frame)
            self.tickets.add(ticket)
            found.append(Delivery(message, ticket, frame["number"]))
        return found


@dataclass(slots=True)
class Worker:
    """A subscription to the shared name.

    Attributes:
        work: what it works on.
        client: its connection.
        id: that of the subscription.
    """

    work: Work
    client: Connection
    id: int

    async def receive(
        self, awaited: str = "a message", *, number: int, again: bool
    ) -> list[Delivery]:
        """The deliveries in the next event, which must be this kind of delivery."""
        frame = await self.client.event(self.id, awaited=awaited)
        flags = TICKETS | frame.flags & HOLES
        if again:
            flags |= REDELIVERED
        self.client.must_be(frame, "Messages", flags=flags)
        # Only now is it sure that the frame has that field.
        self.client.must_be(frame, "Messages", number=number)
        return self.work.deliveries(frame)

    async def take(self, count: int) -> list[Delivery]:
        """Receive so many new messages, whichever they are, in the order of their offsets."""
        came: list[Delivery] = []
        while len(came) < count:
            came += await self.receive(number=1, again=False)
        offsets = [each.offset for each in came]
        if len(came) > count or offsets != sorted(offsets):
            problem = f"new messages came in another order, or more than {count}"
            raise Failure(problem, expected=f"{count}, in order", came=notation.numbers(offsets))
        return came

    async def expect(self, *offsets: int, number: int = 1, again: bool = False) -> list[Delivery]:
        """Receive exactly these messages: new ones in this order, others in any."""
        came: list[Delivery] = []
        left = list(offsets)
        while left:
            awaited = f"a delivery of offset {notation.numbers(left)}"
            for each in await self.receive(awaited, number=number, again=again):
                is_due = each.offset in left if again else left[:1] == [each.offset]
                if not is_due:
                    raise Failure(
                        f"{notation.message(each.message)} came, and it was not due",
                        expected=awaited,
                    )
                left.remove(each.offset)
                came.append(each)
        return sorted(came, key=lambda each: each.offset)

    async def expect_late(self, *offsets: int, number: int = 1) -> list[Delivery]:
        """Receive these messages again, which may take the broker some seconds."""
        await self.client.has_event(self.id, SOME_SECONDS + self.work.trial.patience)
        return await self.expect(*offsets, number=number, again=True)

    async def settle(
        self,
        outcome: int,
        *deliveries: Delivery,
        late: Sequence[Delivery] = (),
        delay_ms: int | None = None,
        **how: Any,
    ) -> None:
        """Settle messages; `late` are those that are not open at this worker any more."""
        fields: dict[str, Any] = {"tickets": [each.ticket for each in deliveries]} | how
        if delay_ms is not None:
            fields |= {"flags": DELAYED, "delay_ms": delay_ms}
        due = {"late": [each.ticket for each in late]}
        await self.client.ok("Settle", subscription=self.id, outcome=outcome, expect=due, **fields)

    async def leave(self, **how: Any) -> None:
        """Unsubscribe."""
        await self.client.ok("Unsubscribe", subscription=self.id, **how)

    async def expect_nothing(self, why: str) -> None:
        """Make sure that no event comes in a quiet period."""
        await self.client.expect_no_event(why)


@STAGE.check(
    "a client that asks for SHARED is granted it, and TICKETS come with shared names only",
    hint="Keep the bit SHARED of the Hello with the connection. Give tickets where you hand out.",
    sentences="hello.10 hello.19 shared.1 messages.6",
)
async def features(trial: Trial) -> None:
    """A client without the feature tries it; its own subscription; a worker beside it."""
    work, old = await Work.begin(trial), await trial.client()
    old.must_be(old.limits, "Welcome", features=0)
    frame = await old.ask("Subscribe", topic=work.topic, **sharing())
    if frame.name == "Error" and frame["code"] == ERROR_CODES["UNSUPPORTED"]:
        old.must_be_error(frame, "UNSUPPORTED", request_type=TYPES["Subscribe"], at="flags")
    else:
        old.must_be(frame, "Subscribed")
        await old.ok("Unsubscribe", subscription=frame.id)
    plain = await old.subscribe(work.topic)
    mine = await named(old, work.topic, "mine")
    worker = await work.worker()
    await work.publish(b"", b"key", b"")
    await delivered(old, plain, 0, 3, 0)
    await delivered(old, mine.id, 0, 3, 0)
    await worker.settle(DONE, *await worker.expect(0, 1, 2))
    await worker.expect_nothing("everything had come, and was done")


@STAGE.check(
    "a Subscribe with SHARED has a name, no until, and a timeout_ms of at most a day",
    hint="Check the fields before you look for the name. BY_KEY alone is wrong, too.",
    sentences="id.7 shared.2",
)
async def fields(trial: Trial) -> None:
    """Each field wrong, alone; then the longest time-out, with the same id."""
    work = await Work.begin(trial)
    client = await joining(trial)
    for at, bad in (
        ("name", {"name": ""}),
        ("until", {"until": 7}),
        ("timeout_ms", {"timeout_ms": DAY_MS + 1}),
        ("by_key", {"flags": BY_KEY}),
    ):
        how = sharing(**bad)
        if at == "by_key":
            how = {"name": NAME} | bad
        frame_id = await client.send("Subscribe", topic=work.topic, **how)
        client.must_be_error(await client.reply(frame_id), "INVALID_FIELD", at=at)
    used = await client.send(
        "Subscribe", topic=work.topic, frame_id=frame_id, **sharing(timeout_ms=DAY_MS)
    )
    client.must_be(await client.reply(used), "Subscribed", start=0, flags=NAMED)


@STAGE.check(
    "a name is shared or exclusive from its first Subscribe on, and the other kind is refused",
    hint="Look for the name among both kinds. What is refused changes nothing.",
    sentences="name.4 name.9 shared.3",
)
async def kinds(trial: Trial) -> None:
    """Each kind while it is used, and when its reader is away."""
    work = await Work.begin(trial)
    client = work.client
    exclusive = await named(client, work.topic, "mine")
    client.must_be(exclusive, "Subscribed", flags=NAMED)
    worker = await work.worker()

    async def refused() -> None:
        for how in (sharing(name="mine"), {"name": NAME}):
            await client.expect_error(
                "INVALID_FIELD", "Subscribe", topic=work.topic, at="name", **how
            )

    await refused()
    await work.publish(b"")
    await delivered(client, exclusive.id, 0, 1, 0)
    await worker.settle(DONE, *await worker.expect(0))
    await client.ok("Unsubscribe", subscription=exclusive.id)
    await worker.leave()
    await refused()
    await work.worker(expect={"flags": NAMED | RESUMED, "start": 1, "committed": 1})


@STAGE.check(
    "the first Subscribe decides max_deliveries and BY_KEY, and later ones must agree",
    hint="Keep both with the name. Without a subscription, max_deliveries may change, and BY_KEY "
    "if nothing is open.",
    how="Compare before you change anything. Open are all messages that were handed out and are "
    "neither done nor dead: those that wait to be handed out again, too.",
    where="zaichik/core/work_queue/work_queue.py: `agree`, which also says what may change when.",
    sentences="shared.4",
)
async def agree(trial: Trial) -> None:
    """Both, while there is a worker; without one, with a message open and without."""
    work = await Work.begin(trial)
    client = work.client

    async def refused(at: str, **how: Any) -> None:
        await client.expect_error(
            "INVALID_FIELD", "Subscribe", topic=work.topic, at=at, **sharing(**how)
        )

    first = await work.worker(max_deliveries=3, by_key=True)
    await refused("max_deliveries", max_deliveries=4, by_key=True)
    await refused("by_key", max_deliveries=3)
    second = await work.worker(max_deliveries=3, by_key=True)
    await first.leave()
    await refused("max_deliveries", max_deliveries=4, by_key=True)
    await work.publish(b"")
    await second.expect(0)
    await second.leave()
    await refused("by_key", max_deliveries=3)
    third = await work.worker(max_deliveries=4, by_key=True)
    await refused("max_deliveries", max_deliveries=3, by_key=True)
    await third.settle(DONE, *await third.expect(0, again=True))
    await third.leave()
    await work.worker(max_deliveries=4, expect={"start": 1, "committed": 1})


@STAGE.check(
    "each message goes to one worker, as many to each as its credit allows, in order",
    hint="One next offset for all workers of the name. A worker has what it was handed and has not "
    "settled.",
    how="Let workers with free credit take the message at the next offset, and move it on. Wake "
    "them when a message is published, and the one that has settled something.",
    where="tests/learn/brokers/python/work_queue.py: `offer` finds what a worker may have.",
    sentences="credit.1 credit.2 credit.6 shared.6 shared.7 messages.6 settle.1",
)
async def one_each(trial: Trial) -> None:
    """Two workers with credit for two, on two connections, and seven messages."""
    work = await Work.begin(trial)
    first, second = await work.worker(credit=2), await work.worker(credit=2)
    await work.publish(*[b""] * 7)
    mine, yours = await first.take(2), await second.take(2)
    offsets = sorted(each.offset for each in mine + yours)
    if offsets != [0, 1, 2, 3]:
        problem = "two workers with credit for two did not get the first four messages, each once"
        raise Failure(problem, expected="0, 1, 2, 3", came=notation.numbers(offsets))
    for worker in (first, second):
        await worker.expect_nothing("two messages were open at each worker, and credit was 2")
    await second.settle(DONE, yours[1])
    yours[1:] = await second.expect(4)
    await first.settle(DONE, *mine)
    mine = await first.expect(5, 6)
    for worker in (first, second):
        await worker.expect_nothing("seven messages had been handed out, and none came back")
    await first.settle(DONE, *mine)
    await second.settle(DONE, *yours)
    await work.worker(expect={"start": 7, "committed": 7})


@STAGE.check(
    "credit_bytes bounds what a worker has, and a shared name takes no Commit",
    hint="Add up keys and payloads of what a worker has. One message alone may have any size.",
    sentences="credit.2 credit.3 credit.6 shared.7",
)
async def bytes_and_commit(trial: Trial) -> None:
    """Room for two keys and a half; a message that is larger than all; a Commit."""
    work = await Work.begin(trial)
    for size in (4, 4, 4, 90, 4):
        message = (b"", trial.payload(size))
        await work.client.publish(work.topic, message, first_offset=len(work.published))
        work.published.append(message)
    worker = await work.worker(credit_bytes=10)
    came = await worker.expect(0, 1)
    await worker.expect_nothing("8 bytes were open, and 4 more would have exceeded credit_bytes")
    await worker.settle(DONE, came[0])
    came[:1] = await worker.expect(2)
    await worker.client.expect_error(
        "INVALID_FIELD", "Commit", subscription=worker.id, next=3, at="subscription"
    )
    await worker.settle(DONE, came[1])
    await worker.expect_nothing("4 bytes were open, and 90 more would have exceeded credit_bytes")
    await worker.settle(DONE, came[0])
    large = await worker.expect(3)
    await worker.expect_nothing("90 bytes were open, and credit_bytes was 10")
    await worker.settle(DONE, *large)
    await worker.expect(4)


@STAGE.check(
    "Subscribed tells how far the name is: what was not handed out yet, and what is not settled",
    hint="start is the next offset of the name, committed the smallest open one, or else start.",
    sentences="name.4 shared.4 shared.5",
)
async def positions(trial: Trial) -> None:
    """A name that begins at 2; others look where it is, whatever start they ask for."""
    work = await Work.begin(trial)
    await work.publish(*[b""] * 5)
    new = {"flags": NAMED, "start": 2, "live": 5, "committed": 2}
    worker = await work.worker(start=OFFSET, value=2, credit=3, expect=new)
    came = await worker.expect(2, 3, 4)
    known = {"flags": NAMED | RESUMED, "start": 5, "live": 5}
    for settled, committed in ((1, 2), (0, 4), (2, 5)):
        await worker.settle(DONE, came[settled])
        await work.worker(start=LATEST, expect=known | {"committed": committed})
    await worker.leave()
    await work.worker(start=OFFSET, value=0, expect=known | {"committed": 5})
