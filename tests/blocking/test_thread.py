"""Calls into the event loop's thread, and how they end."""

import os
import signal
import threading
from contextlib import asynccontextmanager

import anyio
import pytest
from embedded import embedded_broker

from zaichik import blocking
from zaichik.blocking.thread import LoopThread


@pytest.fixture
def thread():
    with LoopThread.running() as thread:
        yield thread


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


@asynccontextmanager
async def noting(notes):
    try:
        yield "value"
    except anyio.get_cancelled_exc_class():
        notes.append("cancelled")
        raise
    except Exception as error:
        notes.append(error)
        raise
    finally:
        notes.append("left")


def leave_with(thread, notes, error):
    with thread.entered(noting(notes)) as value:
        assert value == "value"
        raise error


def test_a_context_manager_is_left_in_the_loop(thread):
    notes = []
    with thread.entered(noting(notes)):
        assert notes == []
    assert notes == ["left"]


def test_a_context_manager_sees_the_exception_of_the_block(thread):
    notes, error = [], ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        leave_with(thread, notes, error)
    assert notes == [error, "left"]


def test_an_interrupted_block_is_a_cancelled_one():
    notes = []
    with pytest.raises(KeyboardInterrupt), LoopThread.running() as thread:
        leave_with(thread, notes, KeyboardInterrupt())
    assert notes == ["cancelled", "left"]


def test_a_failure_to_enter_is_raised(thread):
    @asynccontextmanager
    async def failing():
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError), thread.entered(failing()):
        pass


def interrupt_when(condition):
    """Send this process a Ctrl-C as soon as the condition holds."""

    def wait():
        while not condition():
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_ctrl_c_ends_a_wait_and_the_subscription_goes_on_where_it_was(broker):
    broker.create("t")
    with blocking.connect(port=broker.port) as client, client.subscribe("t", name="n") as subscription:
        client.publish_batch("t", [(None, b"0"), (None, b"1")])
        messages = iter(subscription)
        assert [next(messages).offset, next(messages).offset] == [0, 1]
        is_waiting = lambda: subscription._inner._inbox._arrived.is_set() is False  # noqa: E731
        interrupter = interrupt_when(is_waiting)
        with pytest.raises(KeyboardInterrupt):
            next(messages)
        interrupter.join()
        client.publish("t", b"2")
        assert next(iter(subscription)).offset == 2
    assert [thread.name for thread in threading.enumerate() if thread.name == "zaichik client"] == []


def test_ctrl_c_leaves_all_blocks_and_nothing_behind(broker):
    interrupter = interrupt_when(lambda: broker.subscriptions() != [])
    with (
        pytest.raises(KeyboardInterrupt),
        blocking.connect(port=broker.port) as client,
        client.producer("t"),
        client.subscribe("t") as subscription,
    ):
        subscription.fetch()
    interrupter.join()
    assert [thread.name for thread in threading.enumerate() if thread.name == "zaichik client"] == []
    assert broker.subscriptions() == []


def test_many_threads_may_call(broker):
    broker.create("t")
    with blocking.connect(port=broker.port) as client:
        publish = lambda: [client.publish("t", b"a") for _ in range(20)]  # noqa: E731
        threads = [threading.Thread(target=publish, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.topic("t")["next_offset"] == 160


def test_a_call_after_the_end_is_an_error(broker):
    with blocking.connect(port=broker.port) as client:
        pass
    with pytest.raises(RuntimeError):
        client.ping()
