import threading

import anyio
import pytest

from zaichik.net.loop_calls import LoopCalls

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("from_thread", [False, True])
async def test_the_event_loop_calls_a_function_soon_in_its_own_thread(from_thread):
    calls, called, threads = LoopCalls(), anyio.Event(), []

    def note():
        threads.append(threading.current_thread())
        called.set()

    if from_thread:
        other = threading.Thread(target=calls.from_thread, args=(note,))
        other.start()
        other.join()
    else:
        calls.soon(note)
    assert threads == [], "the event loop has not polled since"
    with anyio.fail_after(20):
        await called.wait()
    assert threads == [threading.current_thread()]


def test_an_event_loop_that_has_ended_calls_nothing(anyio_backend):
    async def main():
        return LoopCalls()

    calls = anyio.run(main, backend=anyio_backend)
    with pytest.raises(RuntimeError):
        calls.from_thread(lambda: None)
