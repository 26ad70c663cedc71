"""Workers that share a name: they do their jobs, fail, hang, die, and come back; all of it in peace
at the end, when every job has to be accounted for.
"""

import json

import trio

from zaichik_protocol import (
    SHARED,
    Dead,
    DeadAction,
    Describe,
    Error,
    ErrorCode,
    Kind,
    Lagged,
    Messages,
    Outcome,
    Settle,
    Start,
    Subscribe,
    SubscriptionEnded,
    Unsubscribe,
)

from .client import PATIENCE, Lost, connected
from .share_ledger import NameLedger
from .topic_ledger import offsets_of
from .trace import Anomaly

TOPICS = ["live", "short", "ring", "bytes", "keys"]
QUIET = 15  # simulated seconds without news: then nothing comes any more


async def crew(world, name, random):
    """Two to four of them."""
    topic = random.choice(_topics(world))
    book = world.shared[topic, name] = NameLedger(world.topics[topic], random.choice([1, 2, 5]))
    timeout_ms = random.choice([0, 3000, 60_000])
    async with trio.open_nursery() as workers:
        for number in range(random.randint(2, 4)):
            worker = _Worker(world, f"{name}.{number}", name, topic, book, timeout_ms)
            workers.start_soon(worker.run)
    if not world.is_stopping:
        await _take_stock(world, name, topic, book, random)


def _topics(world):
    """Those of which one may have the name: with a disk, one that outlives a start (SHR-9)."""
    if world.machine is None:
        return TOPICS
    return [name for name in TOPICS if world.topics[name].is_durable]


async def _take_stock(world, name, topic, book, random):
    """Look what became of all jobs, and forget the name."""
    async with connected(world, f"{name}.end", random) as client:
        await client.hello(SHARED)
        page = await client.ask(Dead, topic, name, count=20, expects={ErrorCode.NO_SUCH_NAME})
        if isinstance(page, Error):
            return
        dead = []
        while True:
            dead += [row["offset"] for row in json.loads(page.json)["dead"]]
            if not page.more:
                break
            page = await client.ask(Dead, topic, name, from_offset=page.next, count=20)
        row = await _row_of(client, topic, name)
        book.check_end(row, dead)
        await client.ask(Dead, topic, name, action=DeadAction.FORGET_NAME)
        await client.close()


async def _row_of(client, topic, name):
    after, more = "", True
    while more:
        reply = await client.ask(Describe, Kind.SUBSCRIPTIONS, topic, after, 4)
        more = reply.more
        for row in json.loads(reply.json)["subscriptions"]:
            after = row["name"]
            if row["topic"] == topic and row["session"] == name and "shared" in row:
                return row
    raise Anomaly("P5", f"{topic} has no shared name {name}")


class _Worker:
    """One of them, on as many connections as it takes."""

    def __init__(self, world, own, name, topic, book, timeout_ms):
        self.world = world
        self.own = own
        self.random = world.random(own)
        self._name, self._topic, self._book = name, topic, book
        self._timeout_ms = timeout_ms
        self._owner = self.random.choice([0, self.random.getrandbits(63) | 1])
        self._attempt = 0
        self._has = {}  # its jobs: number of the delivery, by ticket
        self._is_done = False

    async def run(self):
        random, world = self.random, self.world
        await trio.sleep(random.choice([0, 0, 5]))
        while not self._is_done:
            try:
                weather = world.weather(random)
                async with connected(world, self.own, random, weather) as client:
                    with trio.move_on_after(world.cut_after(random)) as cut:
                        await client.hello(SHARED)
                        await self._work(client)
                        await client.close()
                    if cut.cancelled_caught:
                        client.socket.cut()
                        self._is_cut(client)
            except Lost:
                if world.is_stopping:
                    return
                await trio.sleep(random.choice([0, 0.5, 4]))

    def _is_cut(self, client):
        for share in client.book.subscriptions.values():
            share.is_cut = True

    async def _work(self, client):
        number = await self._subscribe(client)
        quiet_since = trio.current_time()
        while not self._is_done:
            await client.news(1)
            while client.events:
                quiet_since = trio.current_time()
                self._take(client.events.popleft())
            await self._settle(client, number)
            quiet_for = trio.current_time() - quiet_since
            is_over = self.world.is_published and quiet_for > QUIET + self._timeout_ms / 1000
            if is_over and not await self._is_open(client):
                self._is_done = True
            elif self.world.is_published and quiet_for > 3 * PATIENCE:
                raise Anomaly("P5", f"{self.own}: something is open, and nothing comes")
        await client.ask(Unsubscribe, number)

    async def _subscribe(self, client):
        """A worker that does not know its tickets any more names none: it has begun anew."""
        random, how = self.random, {}
        if random.random() < 0.3:
            self._has.clear()
        if self._owner:
            self._attempt += 1
            how = {"owned": True, "owner": self._owner, "attempt": self._attempt}
        reply = await client.ask(
            Subscribe,
            self._topic,
            self._name,
            Start.EARLIEST,
            credit=random.choice([1, 1, 3, 10]),
            timeout_ms=self._timeout_ms,
            max_deliveries=self._book.most,
            tickets=tuple(self._has)[:10],
            shared=True,
            **how,
        )
        return reply.id

    def _take(self, event):
        match event:
            case Messages():
                for index, _ in enumerate(offsets_of(event)):
                    self._has[event.ticket + index] = event.number
            case Lagged():
                pass
            case SubscriptionEnded():
                raise Lost(event.text)

    async def _settle(self, client, number):
        """Do what it feels like with what it has; in the end, all is done."""
        random, tickets = self.random, list(self._has)
        if not tickets:
            return
        outcomes = [Outcome.DONE] * 6
        if not self.world.is_published:
            outcomes += [*Outcome, Outcome.RETRY, Outcome.RETRY]
        outcome = random.choice(outcomes)
        some = tuple(random.sample(tickets, random.randint(1, len(tickets))))
        how = {}
        if outcome == Outcome.EXTEND or (outcome == Outcome.RETRY and random.random() < 0.7):
            how = {"delayed": True, "delay_ms": random.choice([1000, 2000])}
        if outcome != Outcome.EXTEND:
            for ticket in some:
                del self._has[ticket]
        await client.ask(Settle, number, outcome, tickets=some, reason="so it goes", **how)
        if not self.world.is_published and random.random() < 0.02:
            await trio.sleep(random.choice([2, 5]))  # it hangs

    async def _is_open(self, client):
        row = await _row_of(client, self._topic, self._name)
        shared = row["shared"]
        return bool(shared["open"] or row["ahead"])
