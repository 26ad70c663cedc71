"""What an attacker can do to a broker, one function for each attack; run as a process of its own.

    python -m benchmarks.attacks NAME PORT CONNECTIONS SECONDS

It comes from 127.0.0.2, prepares what it needs, prints "ready", and attacks until it is killed or
the seconds are over, so it never outlives the measurement. The docstring of each function is the
attack's name in the table.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from typing import Never

from benchmarks.dialing import ADDRESS, HELLO, Conversation, converse, dial, exactly, flood, greeted
from benchmarks.idle import IdleConnection
from benchmarks.victims import AWAITED, STREAMED
from zaichik_protocol import (
    FOREVER,
    Batch,
    Commit,
    CreateTopic,
    Describe,
    Frame,
    Kind,
    Ping,
    Publish,
    Published,
    Setting,
    Subscribe,
    Subscribed,
    Unsubscribe,
    encode,
)

PREPARE_SECONDS = 120
MIB = 1024 * 1024
RECONNECT_SECONDS = 0.4  # less than the half second of free time that a new connection is given
KILL_AFTER_SECONDS, KILL_REST_SECONDS = 0.25, 0.75
TOPICS = 1000  # whose description is asked for
SUBSCRIBERS, SUBSCRIPTIONS = 100, 1000  # connections, and idle subscriptions of each
FEW_BYTES_SUBSCRIPTIONS = 10  # of each connection that has a credit of one byte
DELIVERIES = 20_000  # batches of one message in the topic that is read again and again
STUCK_MIB = 32  # more than the buffers of both ends take
BYTE_SECONDS = 0.01
FULL_CREDIT, FULL_CREDIT_BYTES = 1_000_000, 2**32 - 1
HONEST_WINDOW = 16  # batches sent before the answers to as many others are read
EVENT_BYTES = 49  # of a Messages frame with one message of one byte and without a key

SUBSCRIBED_BYTES = len(encode(Subscribed(1, 1, 0, 0, 0)))

SILENT_PING, PING = encode(Ping(0, 0)), encode(Ping(1, 0))


@dataclass(frozen=True)
class Target:
    """A broker to attack, and the number of connections to attack it with.

    Attributes:
        seconds: after which the attack is over.
    """

    port: int
    connections: int
    seconds: int

    def ready(self) -> None:
        """Say that all is prepared."""
        signal.alarm(self.seconds)
        print("ready", flush=True)

    def prepare(self, requests: Iterator[Frame] | list[Frame]) -> None:
        """Make what the attack needs, over a connection of its own; refusals are ignored."""
        with (
            suppress(RuntimeError, OSError),
            closing(IdleConnection(self.port, ADDRESS)) as connection,
        ):
            connection.ask(requests)

    def flood(self, frame: Frame | bytes, *, reads: bool = True) -> Never:
        """Send this frame again and again over all connections."""
        data = frame if isinstance(frame, bytes) else encode(frame)
        flood(self.port, self.connections, data, self.ready, reads=reads)


def one(payload: bytes = b"m") -> Batch:
    """A batch of one message without a key."""
    return Batch.of_columns([b""], [payload])


def lasting(topic: str) -> CreateTopic:
    """The request for a topic that keeps what it is given."""
    settings = {Setting.RETENTION_TTL_MS: FOREVER, Setting.CAPACITY: 1_000_000}
    return CreateTopic(1, topic, tuple((int(number), value) for number, value in settings.items()))


def pings(target: Target) -> Never:
    """Pipelined pings, whose replies are read."""
    target.flood(PING)


def reconnecting(target: Target) -> Never:
    """Processes with one connection at a time, a new one every 0.4 s, which floods pings until
    then.
    """
    data = SILENT_PING * 5000
    for _ in range(target.connections - 1):
        if not os.fork():
            signal.alarm(target.seconds)
            break
    else:
        target.ready()
    while True:
        end = time.monotonic() + RECONNECT_SECONDS
        with suppress(OSError), greeted(target.port) as raw:
            while (left := end - time.monotonic()) > 0:
                raw.settimeout(left)
                raw.sendall(data)


def killed(target: Target) -> Never:
    """A process that floods pings is killed after 0.25 s; the next one comes 0.75 s later."""
    target.ready()
    while True:
        if not (child := os.fork()):
            signal.alarm(target.seconds)
            flood(target.port, target.connections, SILENT_PING, lambda: None)
        time.sleep(KILL_AFTER_SECONDS)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        time.sleep(KILL_REST_SECONDS)


def vanishing(target: Target, opening: bytes = b"") -> Never:
    """Connections that are closed at once, as fast as they can be dialled."""
    target.ready()
    while True:
        with suppress(OSError), dial(target.port) as raw:
            if opening:
                raw.sendall(opening)


def vanishing_after_hello(target: Target) -> Never:
    """Connections that say Hello and are closed at once, as fast as they can be dialled."""
    vanishing(target, HELLO)


def describing_subscriptions(target: Target) -> Never:
    """Pages of the description of 100,000 idle subscriptions."""
    requests = b"".join(encode(Subscribe(1 + number, "idle")) for number in range(SUBSCRIPTIONS))
    held = list[socket.socket]()
    with suppress(OSError):  # the broker refuses more of them
        for _ in range(SUBSCRIBERS):
            held.append(greeted(target.port))
            held[-1].settimeout(PREPARE_SECONDS)
            held[-1].sendall(requests)
            exactly(held[-1], SUBSCRIPTIONS * SUBSCRIBED_BYTES)
    target.flood(Describe(3, Kind.SUBSCRIPTIONS, "", "", 500))


def few_bytes(target: Target) -> Never:
    """Subscriptions with a credit of one byte, to batches of 8,192 messages, committed message by
    message.
    """
    batch = Batch.of_columns([b""] * 8192, [b"m"] * 8192)
    target.prepare([lasting("few-bytes"), *[Publish(1, "few-bytes", batch)] * 20])

    def committing() -> Conversation:
        numbers = range(1, 1 + FEW_BYTES_SUBSCRIPTIONS)
        read = dict.fromkeys(numbers, 0)
        buffer = yield b"".join(
            encode(Subscribe(number, "few-bytes", credit=FULL_CREDIT, credit_bytes=1))
            for number in numbers
        )
        while True:
            commits, begin = [], 0
            while len(buffer) - begin >= SUBSCRIBED_BYTES:  # the shortest frame that comes
                end = begin + 4 + int.from_bytes(buffer[begin : begin + 4], "little")
                if end > len(buffer):
                    break
                if end - begin == EVENT_BYTES:
                    number = int.from_bytes(buffer[begin + 8 : begin + 12], "little")
                    read[number] += 1
                    commits.append(encode(Commit(0, number, read[number])))
                begin = end
            buffer = buffer[begin:] + (yield b"".join(commits))

    converse(target.port, target.connections, committing, target.ready)


def deliveries(target: Target) -> Never:
    """A topic of 20,000 batches of one message, read from the beginning again and again."""
    target.prepare([lasting("deliveries"), *[Publish(1, "deliveries", one())] * DELIVERIES])

    def rereading() -> Conversation:
        for number in count(1):
            again = Subscribe(
                number, "deliveries", credit=FULL_CREDIT, credit_bytes=FULL_CREDIT_BYTES
            )
            data = yield (encode(Unsubscribe(0, number - 1)) if number > 1 else b"") + encode(again)
            left = SUBSCRIBED_BYTES + DELIVERIES * EVENT_BYTES - len(data)
            while left > 0:
                left -= len((yield b""))

    converse(target.port, target.connections, rereading, target.ready)


def refused(target: Target) -> Never:
    """Publishes to a name that is not allowed, whose refusals are read."""
    target.flood(Publish(3, "$refused", one()))


def long_answers(target: Target) -> Never:
    """Descriptions of 1,000 topics, 500 a page."""
    target.prepare([CreateTopic(1, f"described-{number}") for number in range(TOPICS)])
    target.flood(Describe(3, Kind.TOPICS, "", "", 500))


def publishes(target: Target) -> Never:
    """Messages published one a frame, not awaited."""
    target.flood(Publish(0, "attack", one()))


def byte_by_byte(target: Target) -> Never:
    """Frames sent one byte every 10 ms."""
    data, raws = encode(Publish(0, "attack", one(bytes(10_000)))), list[socket.socket]()
    with suppress(OSError):
        for _ in range(target.connections):
            raws.append(greeted(target.port, buffer=4096))
    target.ready()
    for position in count():
        begin = time.monotonic()
        byte = data[position % len(data) :][:1]
        for raw in raws:
            with suppress(OSError):  # it has been cut off
                raw.send(byte)
        time.sleep(max(0.0, begin + BYTE_SECONDS - time.monotonic()))
    raise AssertionError("counting has no end")


def never_reading(target: Target) -> Never:
    """Readers of the measured topics, with full sockets, that read nothing."""
    target.prepare(
        [lasting("filling"), *[Publish(1, "filling", one(bytes(MIB - 100)))] * STUCK_MIB]
    )
    subscribe = b"".join(
        encode(Subscribe(number, topic, credit=FULL_CREDIT, credit_bytes=FULL_CREDIT_BYTES))
        for number, topic in enumerate(("filling", AWAITED, STREAMED), 1)
    )
    _stay(target, subscribe)


def never_committing(target: Target) -> Never:
    """Readers of the measured topics with a credit of one message, that never commit it."""
    _stay(target, encode(Subscribe(1, AWAITED)) + encode(Subscribe(2, STREAMED)))


def _stay(target: Target, requests: bytes) -> Never:
    """Make this many connections with these requests, and do nothing more."""
    raws = list[socket.socket]()
    with suppress(OSError):
        for _ in range(target.connections):
            raws.append(greeted(target.port, buffer=4096))
            raws[-1].sendall(requests)
    target.ready()
    while True:
        signal.pause()


def never_reading_replies(target: Target) -> Never:
    """Requests with long answers, which are never read."""
    target.flood(Describe(3, Kind.BROKER, "", "", 1), reads=False)


def honest(target: Target) -> Never:
    """For comparison: one busy client that behaves, and publishes batches of 100 messages."""
    window = (
        encode(Publish(1, "honest", Batch.of_columns([b""] * 100, [bytes(100)] * 100)))
        * HONEST_WINDOW
    )
    answers = HONEST_WINDOW * len(encode(Published(1, 0, 0, 0, 0)))

    def publishing() -> Conversation:
        data = yield window * 2
        left = answers - len(data)
        while True:
            while left > 0:
                left -= len((yield b""))
            data = yield window
            left += answers - len(data)

    converse(target.port, target.connections, publishing, target.ready)


Attack = Callable[[Target], Never]
ATTACKS: dict[Attack, tuple[int, ...]] = {  # with the numbers of connections that make sense
    pings: (1, 30, 1000),
    reconnecting: (1, 30),
    killed: (1, 30),
    vanishing: (1,),
    vanishing_after_hello: (1,),
    describing_subscriptions: (1,),
    few_bytes: (1, 30),
    deliveries: (1, 30),
    refused: (1, 30),
    long_answers: (1, 30),
    publishes: (1, 30, 1000),
    byte_by_byte: (30, 1000),
    never_reading: (30,),
    never_committing: (1000,),
    never_reading_replies: (30,),
    honest: (1,),
}
BY_NAME = {attack.__name__.replace("_", "-"): attack for attack in ATTACKS}


def main() -> None:
    """Attack as told by the command line."""
    name, *numbers = sys.argv[1:]
    signal.alarm(PREPARE_SECONDS)
    BY_NAME[name](Target(*map(int, numbers)))


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # nobody waits for it any more
        main()
