"""Questions for exercise 12.1."""

import os
import socket
import struct
import time
from contextlib import contextmanager
from functools import cache

from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "Say why",
    hints=(
        (
            "`anyio.fail_after` raises TimeoutError, and Python's TimeoutError is an OSError. So the line in `serve` "
            "that is there for everyday crashes catches it, and passes over it in silence."
        ),
        (
            "A try may have several except*, and the first that fits gets the exception: TimeoutError must come before "
            "OSError. The environment's values are strings; os.environ.get takes a second argument for when there's "
            "none; and float makes a number of either."
        ),
    ),
    program="broker.py",
)
PATIENCE, LONGEST_S, EVERY_S, TURNS = "PATIENCE", 6.0, 0.05, 100
LARGE, MANY = bytes(1_000_000), 16  # more bytes than the system takes for a client that doesn't read
RESET = struct.pack("ii", 1, 0)  # no farewell: the connection breaks when it's closed


@contextmanager
def _patient(program, seconds):
    """A broker with that much patience; None says nothing about it."""
    before = os.environ.pop(PATIENCE, None)
    try:
        if seconds:
            os.environ[PATIENCE] = seconds
        with running(program) as broker:
            os.environ.pop(PATIENCE, None)
            yield broker
    finally:
        if before is not None:
            os.environ[PATIENCE] = before


def _stuck(broker, topic):
    """A client that takes nothing of what it's sent, and a publisher."""
    stuck, publisher = broker.client(), broker.client()
    stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    stuck.subscribe(topic, credit=1000, credit_bytes=1 << 30)
    for _ in range(MANY):
        publisher.publish(topic, LARGE)
    return stuck, publisher


def _is_given_up(publisher, topic):
    """Whether the topic's only reader is gone within a few seconds."""
    until = time.monotonic() + LONGEST_S
    while publisher.publish(topic, b"and you?")["subscribers"]:
        if time.monotonic() > until:
            return False
        time.sleep(EVERY_S)
    return True


def _called_slow(broker, client):
    """The lines of output with the word slow. A connection ends a little later than its subscriptions."""
    for _ in range(TURNS):
        client.ask("Ping")
        lines = [line for line in broker.output() if "slow" in line.lower()]
        if lines:
            break
    return lines


@cache
def _given_up(program):
    """What has come of two brokers, the first of which has 1 second of patience.

    Returns: whether it has given up a client that takes nothing; whether one that was sent nothing still gets its
    answers; what the broker wrote about the first one; and how many readers the other broker has, whose client takes
    nothing either.
    """
    with _patient(program, "1") as short, _patient(program, None) as default:
        quiet = short.client()
        _other, other_publisher = _stuck(default, "news")
        _stuck_one, publisher = _stuck(short, "news")
        is_given_up = _is_given_up(publisher, "news")
        is_there = quiet.ask("Ping", value=7)["value"] == 7
        called = _called_slow(short, publisher)
        return is_given_up, is_there, called, other_publisher.publish("news", b"and you?")["subscribers"]


@EXERCISE.asks(
    "PATIENCE says how long a client may take nothing",
    hint="Where does your program know its PORT from? Patience can come from the same place.",
)
def set_by_environment(program):
    is_given_up, is_there, _, _ = _given_up(program)
    if not is_given_up:
        raise Wrong(f"PATIENCE=1, and a client that takes nothing is still a reader {LONGEST_S:g} s later")
    must(is_there, True, "whether a client that there was nothing to send to is still served")


@EXERCISE.asks("without it, it's 10 seconds", hint="A setting that nobody has set has a default: the number it was.")
def default(program):
    must(
        _given_up(program)[3], 1, "readers of a broker without PATIENCE, when its client has taken nothing for 1 s or 2"
    )


@EXERCISE.asks(
    "the broker writes why it gave up a client",
    hint="What does `fail_after` raise when the time is over? And who catches it?",
)
def written(program):
    if not _given_up(program)[2]:
        raise Wrong("a client has been given up: expected a line of output with the word slow, and there is none")


@EXERCISE.asks(
    "a client that has crashed isn't called slow",
    hint="A broken connection is an OSError, too, and an everyday one. Which except* gets which exception?",
)
def not_slow(program):
    with _patient(program, None) as broker:
        crashes, publisher = _stuck(broker, "news")
        crashes.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        crashes.socket.close()
        must(_is_given_up(publisher, "news"), True, "whether a client whose connection broke is no reader any more")
        must(_called_slow(broker, publisher), [], "lines of output with the word slow, when a connection has broken")
