"""Questions for exercise 5.1."""

import anyio

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "Let nobody else hear of it",
    hints=(
        (
            "try, await, except. The question is what to name after except: in Python a cancellation is an exception, "
            "too, but not an Exception."
        ),
        (
            "Name the class that all everyday failures have in common, and that a cancellation isn't one of. Keep the "
            "exception itself, not its text, and don't raise it again."
        ),
    ),
)


def _run(answer, conversation):
    failures = []
    anyio.run(answer.guarded, conversation, failures)
    return failures


@EXERCISE.asks("a conversation that goes well", hint="Await what conversation() returns.")
def well(answer):
    said = []

    async def conversation():
        said.append("hello")

    must(_run(answer, conversation), [], "failures of a conversation that goes well")
    must(said, ["hello"], "what was said in it")


@EXERCISE.asks("a conversation that fails", hint="Catch the exception, and append it to failures.")
def fails(answer):
    for error in (ValueError("a bad field"), anyio.BrokenResourceError()):

        async def conversation(error=error):
            raise error

        must(_run(answer, conversation), [error], f"failures of a conversation that raises {type(error).__name__}")


@EXERCISE.asks(
    "a cancellation goes on its way",
    hint="`except BaseException` and a bare `except:` catch cancellations, too. Then nobody can end this task.",
)
def cancelled(answer):
    async def main():
        failures = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            await answer.guarded(anyio.sleep_forever, failures)
        if not scope.cancelled_caught or failures:
            raise Wrong("cancelled from outside: expected that it passes through, and it was caught inside")

    anyio.run(main)
