"""A zaichik broker written from protocol/README.md alone: ``python3 broker.py PORT``."""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Coroutine
from random import SystemRandom
from typing import Any

import wire
from connection import Connection
from subscription import Subscription
from topic import MAX_BYTES, OVERFLOW, REJECT, Topic
from wire import Fault

MAX_TOPICS = 10_000
MAX_PRODUCERS = 100_000
MAX_CONNECTIONS = 10_000
RESERVE_BYTES = 2**31
KEPT_ANSWERS = 64
SILENT_SECONDS = 600
STOP_SECONDS = 2


class Producer:
    """What is remembered of one: the sequence to come, and the last answers."""

    def __init__(self) -> None:
        self.next = 0
        self.answers: deque[bytes | Fault] = deque(maxlen=KEPT_ANSWERS)
        self.seen = 0.0

    def keep(self, answer: bytes | Fault) -> None:
        self.answers.append(answer)
        self.next += 1

    def again(self, sequence: int) -> bytes:
        """The answer that this sequence got."""
        age = self.next - sequence
        if age > len(self.answers):
            raise Fault(wire.INVALID_FIELD, "sequence", "its answer is no longer known")
        answer = self.answers[-age]
        if isinstance(answer, Fault):
            raise answer
        return bytes([wire.DUPLICATE]) + answer


class Broker:
    """All that connections share."""

    def __init__(self) -> None:
        self.boot = SystemRandom().randrange(1, 2**64)
        self.topics: dict[str, Topic] = {}
        self.connections: dict[int, Connection] = {}
        self.producers: dict[int, Producer] = {}
        self.last_number = 0
        self.last_now = 0
        self.greatest_deleted = 0
        self.tickets = itertools.count(self.now())
        self.tasks: set[asyncio.Task[Any]] = set()

    def now(self) -> int:
        """The clock: µs since 1970, never decreasing."""
        self.last_now = max(self.last_now, time.time_ns() // 1000)
        return self.last_now

    def seconds(self) -> float:
        return time.monotonic()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # Connections.

    def join(self, connection: Connection) -> None:
        self.last_number += 1
        connection.number = self.last_number
        self.connections[connection.number] = connection
        if len(self.connections) > MAX_CONNECTIONS:
            connection.give_up(wire.TOO_MANY_CONNECTIONS, "there are as many connections as there may be")

    def leave(self, connection: Connection) -> None:
        self.connections.pop(connection.number, None)

    # Topics.

    def topic(self, name: str) -> Topic:
        return self.topics.get(name) or self.make_topic(name, {}, explicit=False)

    def make_topic(self, name: str, named: dict[int, int], *, explicit: bool) -> Topic:
        if len(self.topics) >= MAX_TOPICS:
            raise Fault(wire.TOO_MANY_TOPICS, "", "there are as many topics as there may be")
        epoch = max(self.now(), self.greatest_deleted + 1)
        topic = Topic(name, epoch, named, explicit=explicit)
        self.check_reserve(topic, named)
        self.topics[name] = topic
        return topic

    def check_reserve(self, topic: Topic, named: dict[int, int]) -> None:
        """A topic that rejects has its bytes reserved."""
        wanted = topic.settings | named
        if wanted[OVERFLOW] != REJECT:
            return
        others = [t for t in self.topics.values() if t is not topic and t.settings[OVERFLOW] == REJECT]
        if sum(t.settings[MAX_BYTES] for t in others) + wanted[MAX_BYTES] > RESERVE_BYTES:
            raise Fault(wire.NO_MEMORY, "", "there is no room to reserve")

    def delete(self, topic: Topic) -> None:
        del self.topics[topic.name]
        self.greatest_deleted = max(self.greatest_deleted, topic.epoch)
        for reader in list(topic.readers):
            reader.end_with(wire.DELETED, "the topic was deleted")

    # Producers.

    def producer(self, number: int, sequence: int) -> Producer:
        known = self.producers.get(number)
        if known is None:
            if sequence != 0:
                raise Fault(wire.PRODUCER_UNKNOWN, "producer", "this broker does not remember it")
            if len(self.producers) >= MAX_PRODUCERS:
                raise Fault(wire.NO_MEMORY, "producer", "there is no room for another producer")
            known = self.producers[number] = Producer()
        known.seen = self.seconds()
        return known

    # Time.

    async def watch(self) -> None:
        swept = self.seconds()
        while True:
            await asyncio.sleep(0.2)
            seconds = self.seconds()
            for connection in list(self.connections.values()):
                connection.watch(seconds)
            if seconds - swept >= 1:
                swept = seconds
                self.sweep(seconds)

    def sweep(self, seconds: float) -> None:
        now = self.now()
        for topic in self.topics.values():
            topic.sweep(now, seconds)
        for number, producer in list(self.producers.items()):
            if seconds - producer.seen > SILENT_SECONDS:
                del self.producers[number]

    # The end.

    async def stop(self) -> None:
        """Sends what there is credit for, as far as clients read, says GoAway, and waits a little for it to arrive."""
        until = self.seconds() + STOP_SECONDS
        for connection in list(self.connections.values()):
            if not connection.done:
                connection.transport.pause_reading()
        while self.seconds() < until and any(self.is_owed(c) for c in self.connections.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self.connections.values()):
            if not connection.done:
                connection.paused = True
                connection.go_away(wire.STOPPING, "the broker is stopping")
        until = self.seconds() + STOP_SECONDS / 2
        while self.seconds() < until and self.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        for connection in list(self.connections.values()):
            connection.transport.abort()

    def is_owed(self, connection: Connection) -> bool:
        return any(owed(reader, self.now()) for reader in connection.subscriptions.values())


def owed(reader: Subscription, now: int) -> bool:
    return not reader.ended and reader.has_something(now)


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    broker = Broker()
    server = await loop.create_server(lambda: Connection(broker), "127.0.0.1", port, backlog=1024)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    watching = broker.spawn(broker.watch())
    await stopped.wait()
    server.close()
    await broker.stop()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1] if len(sys.argv) > 1 else os.environ["PORT"])))
