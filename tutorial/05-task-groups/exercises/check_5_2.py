"""Questions for exercise 5.2."""

from itertools import pairwise

import anyio

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "Accept forever",
    hints=(
        "The try stands inside the loop, around accept and nothing else. After an OSError sleep, and go on.",
        (
            "An endless loop around a try with three parts: the try accepts, the except pauses (with anyio's sleep, "
            "not time's), and the else, which is only reached if all went well, welcomes the client."
        ),
    ),
)
FULL = OSError(24, "Too many open files")


def _welcomed(answer, *happens):
    """What comes of it if accept brings these clients and raises these exceptions, and then waits.

    Returns: who was welcomed; and after each call of accept, the seconds until the next one, and how often another task
    had its turn meanwhile.
    """
    welcomed, calls, turns, left = [], [], [], list(happens)

    async def another_task():
        turns.append("mine")

    async def main():
        async def accept():
            calls.append((anyio.current_time(), len(turns)))
            tasks.start_soon(another_task)
            if not left:
                tasks.cancel_scope.cancel()
                await anyio.sleep_forever()
            result = left.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(5):
                await answer.accept_for_ever(accept, welcomed.append)
            raise Wrong(f"it has ended, and {len(left)} clients and failures were still to come")

    anyio.run(main)
    return welcomed, [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(calls)]


@EXERCISE.asks("one client after the other", hint="A loop: await accept(), then welcome what it returns.")
def clients(answer):
    must(_welcomed(answer, "one", "two")[0], ["one", "two"], "two clients")


@EXERCISE.asks(
    "after an OSError it goes on",
    hint="Where is your try? Around the loop, the first OSError ends it. Inside the loop, it ends one turn.",
)
def goes_on(answer):
    must(_welcomed(answer, "one", FULL, FULL, "two")[0], ["one", "two"], "a client, two failures, a client")


@EXERCISE.asks("it does not spin", hint="Await anyio.sleep(PAUSE_S) after an OSError: nothing changes in no time.")
def pauses(answer):
    _, pauses = _welcomed(answer, FULL, FULL, "one")
    shortest = min(seconds for seconds, _ in pauses[:2])
    if shortest < answer.PAUSE_S * 0.9:
        raise Wrong(f"after an OSError the next accept came {shortest * 1000:.1f} ms later, without a pause")


@EXERCISE.asks(
    "others go on during the pause",
    hint="time.sleep stops the whole program, with all its clients. anyio.sleep suspends this one task.",
)
def others_go_on(answer):
    _, pauses = _welcomed(answer, FULL, FULL, "one")
    if not all(turns for _, turns in pauses[:2]):
        raise Wrong("accept raised an OSError, and until it was called again no other task had a turn")


@EXERCISE.asks("other exceptions are not hidden", hint="Catch OSError and nothing else: a bug must come to light.")
def bugs(answer):
    noticed = False
    try:
        _welcomed(answer, ValueError("a bug"))
    except* ValueError:
        noticed = True
    if not noticed:
        raise Wrong("accept raised a ValueError: expected that it passes through, and it was caught")
