"""Questions for exercise 4.1."""

import anyio

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "No longer than that",
    hints=(
        (
            "anyio.move_on_after begins a block that is left when its time is over, without an exception. Read inside "
            'of it. What follows the block is then the answer for "nothing came".'
        ),
        (
            "Three ways out: return what was read from inside the block; catch EndOfStream around the read, inside the "
            "block, too, and nothing else; and what is left after the block is the answer for a silent stream."
        ),
    ),
)


class Stream:
    """A stream whose next read is what we say: bytes, the end, or nothing forever."""

    def __init__(self, brings: bytes | None) -> None:
        self.brings = brings

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Bytes, EndOfStream for b"", or no return at all for None."""
        if self.brings is None:
            await anyio.sleep_forever()
        if self.brings == b"":
            raise anyio.EndOfStream
        return self.brings


def _ask(answer, brings, seconds):
    async def main():
        with anyio.move_on_after(5):
            return await answer.next_bytes(Stream(brings), seconds)
        raise Wrong("5 seconds later it was still waiting")

    return anyio.run(main)


@EXERCISE.asks("bytes that are there", hint="Await stream.receive(), and return what it brings.")
def there(answer):
    must(_ask(answer, b"hello", 5), b"hello", "a stream that brings hello")


@EXERCISE.asks("a stream that has ended", hint="anyio's streams raise EndOfStream where recv of a socket returns b''.")
def ended(answer):
    must(_ask(answer, b"", 5), b"", "a stream that has ended")


@EXERCISE.asks("nothing comes", hint="A time limit is a block around what may take long: anyio.move_on_after.")
def nothing(answer):
    must(_ask(answer, None, 0.05), None, "a silent stream, and 0.05 seconds")


@EXERCISE.asks(
    "somebody else's cancellation is not yours to stop",
    hint="Do you catch more than EndOfStream? A task that is cancelled from outside must end, not return None.",
)
def cancelled(answer):
    async def main():
        with anyio.CancelScope() as outer:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_all_wait, outer)
                came = await answer.next_bytes(Stream(None), 1.0)
                raise Wrong(f"cancelled from outside: expected that it ends, and it returned {came!r}")

    anyio.run(main)


async def _cancel_when_all_wait(scope):
    await anyio.wait_all_tasks_blocked()
    scope.cancel()
