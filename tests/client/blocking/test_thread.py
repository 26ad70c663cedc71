"""Calls into the event loop's thread, and how they end."""

import threading
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from background import interrupt_when

from zaichik.client import blocking
from zaichik.client.blocking import thread as thread_module
from zaichik.client.blocking.thread import LoopThread
from zaichik.client.forking import ADVICE

GUARD = 60  # seconds, for what would wait for ever


@pytest.fixture
def thread():
    with LoopThread.running() as thread:
        yield thread


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


def test_an_event_loop_that_cannot_start_is_an_error_and_not_waited_for(monkeypatch):
    """As without descriptors for it."""
    failure = OSError(24, "Too many open files")

    def run(_main, **_options):
        raise failure

    monkeypatch.setattr(thread_module.anyio, "run", run)
    raised = []

    def start():
        try:
            LoopThread()
        except OSError as error:
            raised.append(error)

    # If it hangs, it hangs alone.
    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    starting.join(GUARD)
    assert raised == [failure]


def test_an_event_loop_that_fails_later_says_so(monkeypatch):
    failed = threading.Event()
    seen = []

    def hook(arguments):
        seen.append(arguments.exc_value)
        failed.set()

    monkeypatch.setattr(threading, "excepthook", hook)
    run = anyio.run

    def failing(main, **options):
        run(main, **options)
        raise ZeroDivisionError

    monkeypatch.setattr(thread_module.anyio, "run", failing)
    with LoopThread.running():
        pass
    assert failed.wait(GUARD)
    assert [type(error) for error in seen] == [ZeroDivisionError]


def test_when_the_thread_has_ended_its_number_may_be_that_of_another_one():
    with LoopThread.running() as thread:
        home = thread.baton.home
        assert home
    assert thread.baton.home == 0


def test_a_thread_ends_although_it_is_interrupted_while_it_is_stopped(monkeypatch):
    """Because something in it never ends, perhaps."""
    attempts = []

    def interrupted(self, timeout=None):
        attempts.append(self)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return join(self, timeout)

    join = threading.Thread.join
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt), LoopThread.running() as thread:
        future = thread.start(anyio.sleep_forever)
    assert not thread._thread.is_alive()
    assert future.cancelled()


def test_a_failure_to_enter_is_raised(thread):
    @asynccontextmanager
    async def failing():
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError), thread.entered(failing()):
        pass


def test_ctrl_c_ends_a_wait_and_the_subscription_goes_on_where_it_was(broker):
    broker.create("t")
    with (
        blocking.connect(port=broker.port) as client,
        client.subscribe("t", name="n") as subscription,
    ):
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
    assert [
        thread.name for thread in threading.enumerate() if thread.name == "zaichik client"
    ] == []


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
    assert [
        thread.name for thread in threading.enumerate() if thread.name == "zaichik client"
    ] == []
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


# -- the end of the program, and forks -------------------------------------------------------------


@pytest.fixture
def forsaken():
    """A thread that nobody waits for after the test has."""
    thread = LoopThread()
    yield thread
    thread.problem = ""
    thread.stop(cancels=True)


def test_what_is_open_when_the_interpreter_exits_is_left_in_order_as_if_it_had_failed(forsaken):
    first, second = [], []
    with forsaken.entered(noting(first)), forsaken.entered(noting(second)):
        forsaken.exit()
        for notes in (first, second):
            assert [type(note).__name__ for note in notes] == ["_Exiting", "str"]
        with pytest.raises(RuntimeError, match="the interpreter exits"):
            forsaken.call(anyio.lowlevel.checkpoint)
    forsaken.stop()
    assert len(first) == len(second) == 2


def test_a_generator_that_is_closed_after_the_interpreter_has_begun_to_exit_waits_for_nothing(
    forsaken,
):
    def numbers():
        with forsaken.entered(noting([])):
            yield 1

    generator = numbers()
    assert next(generator) == 1
    forsaken.exit()
    generator.close()


def test_in_a_forked_process_calls_are_errors_and_leaving_does_nothing(forsaken):
    notes = []
    with forsaken.entered(noting(notes)):
        forsaken.inherited()
        with pytest.raises(RuntimeError, match=ADVICE):
            forsaken.call(anyio.lowlevel.checkpoint)
    forsaken.stop()
    assert notes == []


def test_what_has_arrived_is_not_given_out_in_a_forked_process(broker):
    broker.create("t")
    with (
        blocking.connect(port=broker.port) as client,
        client.producer("t") as producer,
        client.subscribe("t", start=0) as subscription,
    ):
        client.publish_batch("t", [(None, b"0"), (None, b"1")])
        messages = iter(subscription)
        assert next(messages).payload == b"0"
        producer._is_due = True
        client._thread.problem = ADVICE
        subscription.inherited()
        producer.inherited()
        with pytest.raises(RuntimeError, match=ADVICE):
            next(messages)
        with pytest.raises(RuntimeError, match=ADVICE):
            producer.send(b"2")
        client._thread.problem = ""
