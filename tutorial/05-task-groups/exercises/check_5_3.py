"""Questions for exercise 5.3."""

from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import HELLO, running

EXERCISE = Exercise(
    "Full, and still there",
    hints=(
        (
            "`door.accept()` raises an OSError when the operating system has no more file descriptors for your "
            "program. Nobody catches it, so it ends the task group, and with it everybody's conversation."
        ),
        (
            "Exercise 5.2 has the loop. Catch the OSError around accept alone, inside the endless loop; pause for a "
            "tenth of a second with anyio's sleep; and go on. Somebody will leave."
        ),
    ),
    program="broker.py",
)
FEW = ["-n", "16"]  # file descriptors; the program itself takes about half of them
CROWD = 20
SURELY_S, AT_LAST_S = 0.5, 5.0


def _is_welcomed(client, seconds):
    """Whether an answer to its Hello comes within so many seconds.

    Raises:
        Wrong: its connection has ended.
    """
    client.settimeout(seconds)
    try:
        came = client.recv(65_536)
    except TimeoutError:
        return False
    except ConnectionError as error:
        raise Wrong(f"more clients came than there are sockets for, and then: {error}") from None
    if not came:
        raise Wrong("more clients came than there are sockets for, and then a connection was ended")
    return True


def _crowd(broker):
    """More clients than it can have, who all say Hello: those that are served, and those that have to wait."""
    served, waiting = [], []
    for _ in range(CROWD):
        try:
            client = broker.connect()
            client.sendall(HELLO)
        except OSError as error:
            raise Wrong(f"{len(served)} clients are served, and one more cannot connect: {error}") from None
        if waiting or not _is_welcomed(client, SURELY_S):
            waiting.append(client)
        else:
            served.append(client)
    return served, waiting


@EXERCISE.asks(
    "it survives more clients than it can have",
    hint="What does accept raise when there are no more file descriptors? Who catches it?",
)
def survives(program):
    with running(program, limits=FEW) as broker:
        _crowd(broker)
        must(broker.is_running, True, f"whether the broker still runs, after {CROWD} clients have come")


@EXERCISE.asks("the clients it has are served", hint="Let the exception pass no further than the loop that accepts.")
def serves(program):
    with running(program, limits=FEW) as broker:
        client = broker.client()
        _crowd(broker)
        try:
            must(client.ask("Ping", value=7)["value"], 7, "a Ping of a client that came before the crowd")
        except (Silence, ConnectionError) as error:
            raise Wrong(f"a Ping of a client that came before the crowd: {error}") from None


@EXERCISE.asks(
    "a newcomer is served as soon as somebody leaves",
    hint="Does your loop still run after the first OSError, or has it ended? It must try again, after a short pause.",
)
def newcomer(program):
    with running(program, limits=FEW) as broker:
        served, waiting = _crowd(broker)
        served[0].close()
        asked = f"whether the first that had to wait is welcomed within {AT_LAST_S:g} s of somebody's leaving"
        must(_is_welcomed(waiting[0], AT_LAST_S), True, asked)
