"""Questions for exercise 2.3."""

import time
from functools import cache

from zaichik.learn import wire
from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import HELLO, running

EXERCISE = Exercise(
    "Half a frame, and then nothing",
    hints=(
        (
            "`settimeout(seconds)` lets each read that follows wait for so long at most. When the time is over, recv "
            "raises a TimeoutError, and somebody has to catch it."
        ),
        (
            "Before each read, ask the FrameBuffer whether it has the beginning of a frame (a property of one line). "
            "If it has, the read may take two seconds; if not, None, which means as long as it takes. In `main`, a "
            "TimeoutError is one more way for a conversation to end."
        ),
    ),
    program="broker.py",
)
TOO_LONG_S, A_WHILE_S = 6.0, 2.5


@cache
def _seconds_later(program):
    """What has come of two brokers, after a while.

    Returns: what the next client hears at the one whose client fell silent in the middle of a frame; whether this
    broker still runs; and what a client of the other hears that was silent between two frames.
    """
    with running(program) as broker, running(program) as another:
        quiet, began = another.client(), time.monotonic()
        broker.connect().sendall(HELLO[:6])
        following = broker.connect()
        following.settimeout(TOO_LONG_S)
        following.sendall(HELLO)
        try:
            heard = following.recv(65_536)
        except OSError:  # the time is over, too
            heard = b""
        time.sleep(max(0.0, began + A_WHILE_S - time.monotonic()))
        try:
            pong = quiet.ask("Ping", value=7)["value"]
        except (Silence, OSError) as error:
            pong = str(error)
        return heard, broker.is_running, pong


@EXERCISE.asks(
    "a client that falls silent in the middle of a frame is given up",
    hint="recv waits forever. How do you tell a socket how long a read may take?",
)
def given_up(program):
    heard, is_running, _ = _seconds_later(program)
    if is_running and not heard:
        raise Wrong(f"a client sent 6 bytes and fell silent; {TOO_LONG_S:g} s later the next one wasn't answered")


@EXERCISE.asks(
    "the next client is served",
    hint="A TimeoutError is an OSError, but no ConnectionError. What does `main` let pass, and what ends your broker?",
)
def served(program):
    heard, is_running, _ = _seconds_later(program)
    must(is_running, True, "whether the broker still runs, after a client that fell silent")
    must(wire.parse(heard).name, "Welcome", "what the next client gets for its Hello")


@EXERCISE.asks(
    "between two frames a client may be silent",
    hint="Only a frame that has begun must be finished. Is there anything in the buffer when you start to wait?",
)
def silent_between(program):
    must(_seconds_later(program)[2], 7, f"a Ping, more than {A_WHILE_S:g} s after the frame before it")


@EXERCISE.asks(
    "a frame that comes in pieces is answered",
    hint="The limit is for a client that sends nothing at all, not for one whose frame takes three reads.",
)
def in_pieces(program):
    with running(program) as broker:
        client = broker.client()
        frame = wire.encode("Ping", frame_id=9, value=5)
        for piece in (frame[:3], frame[3:13], frame[13:]):
            client.socket.sendall(piece)
            time.sleep(0.05)  # so that it comes in reads of their own; if it doesn't, no harm is done
        must(client.frame()["value"], 5, "a Ping in three pieces")
