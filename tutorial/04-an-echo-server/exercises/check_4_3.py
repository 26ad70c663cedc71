"""Questions for exercise 4.3."""

import time
from contextlib import suppress
from functools import cache

from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import HELLO, running

EXERCISE = Exercise(
    "A stranger has two seconds",
    hints=(
        (
            "Give the scope of anyio.move_on_after a name with `as`: its `deadline` can be changed while the block "
            "runs. Once the client has said Hello, it can be math.inf."
        ),
        (
            "Put the block around the whole loop that reads, so that many small reads have two seconds together. "
            "Whether there has been a Hello, the conversation knows: `_is_welcome` deserves a public name."
        ),
    ),
    program="broker.py",
)
TOO_LONG_S, A_WHILE_S, EVERY_S = 6.0, 2.5, 0.2


def _has_ended(client):
    try:
        while client.recv(65_536):
            pass  # perhaps it says why
    except TimeoutError:
        return False
    except OSError:
        pass  # an end is an end
    return True


@cache
def _seconds_later(program):
    """What has come of three clients, each at a broker of its own.

    Returns: whether one that says nothing has been given up; whether one that sends a byte now and then has; and what
    one hears for a Ping that was silent after its Hello.
    """
    with running(program) as first, running(program) as second, running(program) as third:
        quiet, silent, dribbling = third.client(), first.connect(), second.connect()
        began, rest = time.monotonic(), list(HELLO)
        dribbling.settimeout(EVERY_S)
        while not (is_given_up := _has_ended(dribbling)) and time.monotonic() < began + TOO_LONG_S:
            with suppress(OSError):
                dribbling.sendall(bytes([rest.pop(0)]))
        silent.settimeout(max(0.5, began + TOO_LONG_S - time.monotonic()))
        is_silent_given_up = _has_ended(silent)
        time.sleep(max(0.0, began + A_WHILE_S - time.monotonic()))
        try:
            pong = quiet.ask("Ping", value=7)["value"]
        except (Silence, OSError) as error:
            pong = str(error)
        return is_silent_given_up, is_given_up, pong


@EXERCISE.asks("a client that says nothing is given up", hint="How long may the loop in `talk_with` wait for a Hello?")
def silent(program):
    if not _seconds_later(program)[0]:
        raise Wrong(f"a client has said nothing, and its connection is still there after {TOO_LONG_S:g} s")


@EXERCISE.asks(
    "a byte now and then isn't a Hello",
    hint="A limit for each read begins anew with each byte. The two seconds are for all of them together.",
)
def dribbling(program):
    if not _seconds_later(program)[1]:
        raise Wrong(f"a client sends its Hello byte by byte, and its connection is still there after {TOO_LONG_S:g} s")


@EXERCISE.asks(
    "a client that has said Hello may be silent",
    hint="The limit ends with the Hello. A scope has a deadline, and you may move it.",
)
def welcome(program):
    must(_seconds_later(program)[2], 7, f"a Ping, more than {A_WHILE_S:g} s after the Welcome")
