"""Waits that a signal ends, also if it came just before."""

import _thread
import threading
from concurrent.futures import Future

import pytest

from zaichik.client.blocking.waiting import join, result_of


def test_a_result_or_an_exception_is_passed_on():
    future = Future()
    threading.Thread(target=future.set_result, args=[7]).start()
    assert result_of(future) == 7
    failed = Future()
    error = TimeoutError("of the function")
    failed.set_exception(error)
    with pytest.raises(TimeoutError) as caught:
        result_of(failed)
    assert caught.value is error


def test_a_handler_is_called_though_its_signal_interrupted_no_wait():
    """`interrupt_main` only notes the signal, as if it had come just before the wait."""
    future = Future()

    def interrupt():
        while not future._condition._waiters:
            pass
        _thread.interrupt_main()

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        result_of(future)
    interrupter.join()


def test_a_thread_is_waited_for_until_it_has_ended():
    lock = threading.Lock()
    lock.acquire()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    threading.Thread(target=lock.release).start()
    join(thread)
    assert not thread.is_alive()
