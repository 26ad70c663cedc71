"""The requests about shared names: to share one, to settle messages, and to look after the dead."""

import json
import struct
from typing import TYPE_CHECKING, NamedTuple

import wire
from topic import Topic
from wire import Body, Fault
from work_queue import NEVER, Settlement, WorkQueue
from worker import Worker

if TYPE_CHECKING:
    from handlers import Requests

DAY_MS = 86_400_000
MOST_DELAYED_MS = 30 * DAY_MS
MOST_REASON = 1024
MOST_OFFSETS = 1000  # of the dead, in a page


class Sharing(NamedTuple):
    """What a Subscribe says of its shared name."""

    timeout_ms: int
    max_deliveries: int
    tickets: list[int]
    by_key: bool


class Wish(NamedTuple):
    """What a Subscribe asks for."""

    number: int
    name: str
    start: int
    value: int
    until: int
    owner: int | None
    attempt: int
    sharing: Sharing | None


class SharedRequests:
    """Of one connection."""

    def sharing(self, flags: int, body: Body) -> Sharing | None:
        if not flags & wire.SHARED:
            return None
        return Sharing(body.u32(), body.u16(), body.numbers("tickets"), bool(flags & wire.BY_KEY))

    def check_sharing(self, wish: Wish, flags: int) -> None:
        if wish.sharing is None:
            if flags & wire.BY_KEY:
                raise Fault(wire.INVALID_FIELD, "by_key", "only a shared name has messages by key")
            return
        if not wish.name:
            raise Fault(wire.INVALID_FIELD, "name", "there is no name to share")
        if wish.until != wire.FOREVER:
            raise Fault(wire.INVALID_FIELD, "until", "a shared name does not end")
        if wish.sharing.timeout_ms > DAY_MS:
            raise Fault(wire.INVALID_FIELD, "timeout_ms", "a worker has a day at most")

    def worker(self: "Requests", topic: Topic, wish: Wish) -> tuple[Worker, int]:
        """A subscription that shares its name, and the flags of its Subscribed."""
        assert wish.sharing is not None
        if wish.name in topic.sessions:
            raise Fault(wire.INVALID_FIELD, "name", "this name is not shared")
        timeout_ms, max_deliveries, tickets, by_key = wish.sharing
        queue = topic.queues.get(wish.name)
        flags = wire.NAMED
        if queue is None:
            place = self.starting_place(topic, wish.start, wish.value)
            queue = WorkQueue(topic, place, max_deliveries, self.broker.tickets, by_key=by_key)
            topic.queues[wish.name] = queue
        else:
            queue.judge(wish.owner, wish.attempt)
            queue.agree(max_deliveries, by_key=by_key)
            flags |= wire.RESUMED
        worker = Worker(self.connection, wish.number, queue)
        worker.owner, worker.attempt = wish.owner, wish.attempt
        worker.timeout = timeout_ms / 1000 if timeout_ms else NEVER
        queue.join(worker, tickets, self.broker.seconds())
        return worker, flags

    def settle(self: "Requests", _number: int, flags: int, body: Body) -> bytes:
        number, outcome = body.u32(), body.u8()
        delay_ms = body.u64() if flags & wire.DELAYED else None
        raw, tickets = body.string(), body.numbers("tickets")
        body.end()
        reason = wire.text(raw, "reason")
        if outcome > wire.EXTEND:
            raise Fault(wire.INVALID_FIELD, "outcome", "an outcome is 0 to 6")
        if len(raw) > MOST_REASON:
            raise Fault(wire.INVALID_FIELD, "reason", "a reason has at most 1,024 bytes")
        check_delay(outcome, delay_ms)
        worker = self.of_connection(number)
        if not isinstance(worker, Worker):
            raise Fault(wire.INVALID_FIELD, "subscription", "its name is not shared: commit, and do not settle")
        delay = None if delay_ms is None else delay_ms / 1000
        late = worker.settle(tickets, Settlement(outcome, delay, reason, self.broker.now()))
        return b"\0" + wire.numbers(late)

    def about_dead(self: "Requests", _number: int, flags: int, body: Body) -> bytes:
        raw, raw_name, raw_user = body.string(), body.string(), body.string()
        action, first, count = body.u8(), body.u64(), body.u16()
        selected = body.numbers("offsets") if flags & wire.SELECTED else None
        body.end()
        name = wire.session_name(raw_name)
        wire.text(raw_user, "user")
        topic_name = wire.topic_name(raw)
        if action > wire.FORGET_NAME:
            raise Fault(wire.INVALID_FIELD, "action", "an action is 0 to 3")
        if count == 0:
            raise Fault(wire.INVALID_FIELD, "count", "count is at least 1")
        topic = self.broker.topics.get(topic_name)
        if topic is None:
            raise Fault(wire.NO_SUCH_TOPIC, "topic", "there is no such topic")
        topic.expire(self.broker.now())
        queue = topic.queues.get(name)
        if queue is None:
            raise Fault(wire.NO_SUCH_NAME, "name", "the topic has no shared name like this")
        if action == wire.FORGET_NAME:
            if queue.workers:
                raise Fault(wire.NOT_EMPTY, "", "this name has workers")
            queue.forget()
            return struct.pack("<BBIQ", 0, 0, 1, 0)
        offsets, following = queue.page(first, min(count, MOST_OFFSETS), selected)
        done, page = 0, b""
        if action == wire.LIST:
            page = listed(queue, offsets)
        elif action == wire.REVIVE:
            done = queue.revive(offsets)
        else:
            done = len(offsets)
            for offset in offsets:
                del queue.dead[offset]
        more = following is not None
        return struct.pack("<BBIQ", 0, more, done, following or 0) + page


def check_delay(outcome: int, delay_ms: int | None) -> None:
    if outcome == wire.RETRY:
        is_good = delay_ms is None or delay_ms <= MOST_DELAYED_MS
    elif outcome == wire.EXTEND:
        is_good = delay_ms is not None and 1 <= delay_ms <= DAY_MS
    else:
        return
    if not is_good:
        raise Fault(wire.INVALID_FIELD, "delay_ms", f"outcome {outcome} cannot take {delay_ms} ms")


def listed(queue: WorkQueue, offsets: list[int]) -> bytes:
    rows = [
        {
            "offset": offset,
            "deliveries": queue.dead[offset].deliveries,
            "died_us": queue.dead[offset].died_us,
            "reason": queue.dead[offset].reason,
            "is_readable": queue.topic.read(offset) is not None,
        }
        for offset in offsets
    ]
    return json.dumps({"dead": rows}).encode()
