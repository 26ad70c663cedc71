"""Signals in the midst of a call: a handler may raise anything, and nothing is half done."""

import os
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path

import pytest
from background import GUARD, in_the_background, interrupt_when
from blocking_brokers import peer, silent
from embedded import embedded_broker

import zaichik
from zaichik.client import blocking
from zaichik.client.blocking import driver as driver_module
from zaichik.client.blocking import interrupts as interrupts_module
from zaichik.client.blocking.interrupts import Interrupts
from zaichik_protocol import Ping, Pong, Publish, Published

NEVER = 3600  # seconds
FOLDER = str(Path(zaichik.__file__).parent)
# Here it could strike between any two instructions; elsewhere, between two lines is enough.
DRIVING = (str(Path(blocking.__file__).parent), driver_module.__file__)


class Timeout(Exception):
    """What a handler of the program raises."""


def time_out(*_):
    raise Timeout


@pytest.fixture(autouse=True)
def of_python():
    """Python's own handler of Ctrl-C. A test before may have left another one, as Spark does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        broker.create("t", capacity=100_000)
        yield broker


@pytest.fixture(params=["Ctrl-C", "a handler of the program"])
def strikes(request):
    """The signal, and what comes of it."""
    if request.param == "Ctrl-C":
        yield signal.SIGINT, KeyboardInterrupt
        return
    before = signal.signal(signal.SIGUSR1, time_out)
    yield signal.SIGUSR1, Timeout
    assert signal.getsignal(signal.SIGUSR1) is time_out, "it was not put back"
    signal.signal(signal.SIGUSR1, before)


@contextmanager
def striking(number, at):
    """Send this process a signal at that point of what runs in the block, counted from 1.

    Yields a list that gets the points there were.
    """
    points = [0]

    def trace(frame, event, _argument):
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_opcodes = frame.f_code.co_filename.startswith(DRIVING)
        if event in {"line", "opcode"}:
            points[0] += 1
            if points[0] == at:
                signal.raise_signal(number)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield points
    finally:
        sys.settrace(before)


def struck(client, payload, number, at):
    """Publish, and be struck there; returns how many points there were, and the exception."""
    error = None
    points = [0]
    try:
        with striking(number, at) as points:
            client.publish("t", payload)
    except (KeyboardInterrupt, Timeout) as raised:
        error = raised
    return points[0], error


@pytest.mark.unmeasured
@pytest.mark.parametrize("first", [False, True])
def test_wherever_a_signal_strikes_each_message_is_stored_once_or_not_at_all(
    broker, strikes, first, monkeypatch
):
    """And the next call has the right answer, for a batch that took the number of another one would
    be answered as that.

    The first call takes the socket out of the event loop; the others do not.
    """
    number, kind = strikes
    attended = 0.0 if first else NEVER
    monkeypatch.setattr(driver_module, "ATTENDED_SECONDS", attended)
    with blocking.connect(port=broker.port) as client:
        client.publish("t", b"")
        at, raised, last = 0, 0, 0
        answered = {}
        while at <= last + 20:
            at += 1 + 6 * first
            points, error = struck(client, b"%d" % at, number, at)
            if error is None:
                assert points < at, "it was swallowed"
            else:
                assert type(error) is kind
                raised += 1
                last = at
            answered[client.publish("t", b"after %d" % at).offset] = b"after %d" % at
        end = client.topic("t")["next_offset"]
        with client.subscribe("t", start=0, until=end) as subscription:
            payloads = [message.payload for message in subscription]
    assert raised > 100
    assert len(set(payloads)) == len(payloads)
    assert {offset: payloads[offset] for offset in answered} == answered
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.unmeasured
def test_wherever_a_signal_strikes_while_the_client_is_left_the_block_ends(broker):
    raised = 0
    for at in range(1, 200, 5):
        with blocking.connect(port=broker.port) as client:
            client.publish("t", b"x")
            try:
                with striking(signal.SIGINT, at):
                    client._driver.close()
            except KeyboardInterrupt:
                raised += 1
    assert raised > 10


def worked_off(work, number, at):
    """Do one message, and be struck there; returns how many points there were, and if it was."""
    points = [0]
    try:
        with striking(number, at) as points, next(work):
            pass
    except (KeyboardInterrupt, Timeout):
        return points[0], True
    return points[0], False


@pytest.mark.unmeasured
def test_wherever_a_signal_strikes_a_worker_each_message_is_done_or_still_open(
    broker, strikes, monkeypatch
):
    """What is open comes again once the worker has left, and nothing else does."""
    number, _ = strikes
    monkeypatch.setattr(driver_module, "ATTENDED_SECONDS", NEVER)
    count = 1000
    broker.publish("t", [(None, b"%d" % offset) for offset in range(count)])
    terms = {"name": "n", "shared": True, "credit": count, "max_deliveries": 0}
    with blocking.connect(port=broker.port) as client:
        with client.subscribe("t", **terms) as work:
            at, raised, last = 0, 0, 0
            while at <= last + 20:
                at += 7
                _, was_struck = worked_off(work, number, at)
                if was_struck:
                    raised, last = raised + 1, at
            settling = work._inner._settling
            first_waiting = next(work).offset
            left = {message.offset for message in settling.unsettled}
        assert raised > 50
        with client.subscribe("t", **terms) as work:
            client.advance_clock(10)
            again = {next(work).offset for _ in range(count - first_waiting + len(left) - 1)}
    assert again == left | set(range(first_waiting, count))


def test_a_call_that_waits_is_cancelled_and_its_reply_ignored(strikes):
    number, kind = strikes
    replies = []

    def ponged(frame):
        published = [frame for frame in server.received if isinstance(frame, Publish)]
        replies.extend(Published(frame.id, 7, 1, 0, 0) for frame in published)
        server.send(*replies)
        return Pong(frame.id, frame.value)

    with (
        peer({Publish: silent, Ping: ponged}) as server,
        blocking.connect(port=server.port) as client,
    ):
        interrupter = interrupt_when(lambda: server.count(Publish), number)
        with pytest.raises(kind):
            client.publish("t", b"x")
        interrupter.join()
        client.ping()
        assert replies
        pending = client._inner.connection._pending.values()
        assert not [request for request, _ in pending if isinstance(request, Publish)]


def interrupted_beside_another(server, client, strikes):
    """Publish, and be interrupted when two threads wait; returns what both have published."""
    number, kind = strikes
    waiters = client._thread.baton.waiters
    interrupter = interrupt_when(lambda: server.count(Publish) == len(waiters) == 2, number)
    with pytest.raises(kind):
        client.publish("t", b"x")
    interrupter.join()
    return [frame for frame in server.received if isinstance(frame, Publish)]


def test_the_thread_that_reads_is_interrupted_and_another_one_reads_on(strikes):
    with (
        peer({Publish: silent}) as server,
        blocking.connect(port=server.port) as client,
    ):

        def publish():
            while not server.count(Publish):
                pass
            return client.publish("t", b"other").offset

        finished = in_the_background(publish)
        _, second = interrupted_beside_another(server, client, strikes)
        server.send(Published(second.id, 7, 1, 0, 0))
        assert finished() == 7


def test_a_thread_that_another_one_reads_for_is_interrupted_and_that_one_goes_on(strikes):
    with (
        peer({Publish: silent}) as server,
        blocking.connect(port=server.port) as client,
    ):
        finished = in_the_background(lambda: client.publish("t", b"other").offset)
        while not client._thread.baton.waiters:
            pass
        first, _ = interrupted_beside_another(server, client, strikes)
        server.send(Published(first.id, 7, 1, 0, 0))
        assert finished() == 7


def outcomes_of(call):
    """What a call of the client returns, made by a handler while a Publish waits for its reply,
    which comes after that of a Ping.
    """
    outcomes = []

    def ponged(frame):
        (published,) = [frame for frame in server.received if isinstance(frame, Publish)]
        server.send(Pong(frame.id, frame.value))
        return Published(published.id, 7, 1, 0, 0)

    with (
        peer({Publish: silent, Ping: ponged}) as server,
        blocking.connect(port=server.port) as client,
    ):
        before = signal.signal(signal.SIGUSR1, lambda *_: outcomes.append(call(client)))
        try:
            interrupter = interrupt_when(lambda: server.count(Publish), signal.SIGUSR1)
            assert client.publish("t", b"x").offset == 7
            interrupter.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
    return outcomes


def test_a_handler_may_call_the_client_itself():
    """While the call that it interrupts waits for its reply."""
    assert outcomes_of(lambda client: client.ping()) == [None]


def test_while_a_handler_takes_its_time_calls_of_other_threads_have_their_replies():
    """It may even wait for them: the thread that it runs in reads no more."""
    assert outcomes_of(lambda client: in_the_background(client.ping)()) == [None]


@pytest.mark.unmeasured
def test_wherever_a_signal_strikes_a_block_it_is_left(broker):
    raised = 0
    with blocking.connect(port=broker.port) as client:
        for at in range(1, 500, 4):
            try:
                with striking(signal.SIGINT, at), client.subscribe("t"):
                    pass
            except KeyboardInterrupt:
                raised += 1
            client.ping()
            (connection, *blocks) = client._thread._entered
            assert not connection.done()
            assert all(block.done() for block in blocks)
        while client.topic("t")["subscriptions"]:
            pass
    assert raised > 50


@pytest.mark.unmeasured
def test_wherever_a_signal_strikes_a_fetch_the_next_one_has_the_message(broker):
    raised = 0
    with (
        blocking.connect(port=broker.port) as client,
        client.subscribe("t") as subscription,
    ):
        for at in range(1, 150, 2):
            try:
                with striking(signal.SIGINT, at):
                    subscription.fetch(0)
            except KeyboardInterrupt:
                raised += 1
            client.publish("t", b"%d" % at)
            (frame,) = subscription.fetch()
            assert [*frame.batch.each_payload()] == [b"%d" % at]
    assert raised > 20


def test_in_a_process_forked_meanwhile_handlers_are_the_programs_own():
    with (
        peer({Publish: silent}) as server,
        blocking.connect(port=server.port) as client,
    ):
        codes = []

        def fork():
            while not server.count(Publish):
                pass
            child = os.fork()
            if not child:
                os._exit(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            (published,) = [frame for frame in server.received if isinstance(frame, Publish)]
            server.send(Published(published.id, 7, 1, 0, 0))

        forking = threading.Thread(target=fork, daemon=True)
        forking.start()
        assert client.publish("t", b"x").offset == 7
        forking.join()
    assert codes == [1]


FORKING = """
import os, signal, sys
from zaichik import blocking

def fork(*_):
    child = os.fork()
    if child == 0:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)

signal.signal(signal.SIGALRM, fork)
with blocking.connect(port=int(sys.argv[1])) as client:
    client.ping()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    client.publish("t", b"x")
"""


def test_a_process_that_a_handler_forks_may_exit():
    """It has neither the event loop nor the socket of the call that the handler has interrupted."""
    for _ in range(5):
        with peer({Publish: silent, Ping: lambda frame: Pong(frame.id, frame.value)}) as server:
            command = [sys.executable, "-c", FORKING, str(server.port)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD)
        assert done.stdout == "7\n", done.stderr


# -- what holds them back --------------------------------------------------------------------------


@pytest.fixture
def calls():
    """What was called by the handlers of two signals."""
    called = []

    def called_by(number, _frame):
        called.append(number)

    def raising(number, _frame):
        called.append(number)
        raise Timeout

    first = signal.signal(signal.SIGUSR1, raising)
    second = signal.signal(signal.SIGUSR2, called_by)
    yield called
    assert signal.getsignal(signal.SIGUSR1) is raising
    assert signal.getsignal(signal.SIGUSR2) is called_by
    signal.signal(signal.SIGUSR1, first)
    signal.signal(signal.SIGUSR2, second)


def test_signals_are_handled_at_the_end_even_if_the_first_handler_raises(calls):
    held = Interrupts()
    held.hold()
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR2)
    assert calls == []
    with pytest.raises(Timeout):
        held.release()
    assert calls == [signal.SIGUSR1, signal.SIGUSR2]


def test_signals_are_handled_while_they_are_admitted(calls):
    held = Interrupts()
    held.hold()
    signal.raise_signal(signal.SIGUSR2)
    held.admit(lambda: None)
    assert calls == [signal.SIGUSR2]
    signal.raise_signal(signal.SIGUSR2)
    assert calls == [signal.SIGUSR2] * 2
    held.refuse()
    signal.raise_signal(signal.SIGUSR2)
    assert calls == [signal.SIGUSR2] * 2
    held.release()
    assert calls == [signal.SIGUSR2] * 3


def test_who_has_admitted_handlers_is_not_kept_alive(calls):
    class Caller:
        def before(self):
            calls.append("before")

    caller = Caller()
    held = Interrupts()
    held.hold()
    held.admit(caller.before)
    held.refuse()
    held.release()
    reference = weakref.ref(caller)
    del caller
    assert reference() is None
    assert calls == []


def test_once_a_handler_has_raised_the_others_wait(calls):
    held = Interrupts()
    held.hold()
    held.admit(lambda: None)
    with pytest.raises(Timeout):
        signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR2)
    assert calls == [signal.SIGUSR1]
    held.release()
    assert calls == [signal.SIGUSR1, signal.SIGUSR2]


def test_before_each_handler_something_is_done_and_others_wait_for_that(calls):
    def before():
        calls.append("before")
        if len(calls) == 1:
            signal.raise_signal(signal.SIGUSR2)

    held = Interrupts()
    held.hold()
    held.admit(before)
    signal.raise_signal(signal.SIGUSR2)
    assert calls == ["before", signal.SIGUSR2] * 2
    held.release()
    assert calls == ["before", signal.SIGUSR2] * 2


def test_wherever_a_handler_raises_while_they_are_put_back_all_are(calls):
    raised = 0
    for at in range(1, 60):
        held = Interrupts()
        held.hold()
        try:
            with striking(signal.SIGINT, at):
                held.release()
        except KeyboardInterrupt:
            raised += 1
        # The fixture looks at the others.
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert not isinstance(signal.getsignal(signal.SIGUSR2), interrupts_module._Replacement)
    assert raised > 10


def test_a_handler_is_told_from_another_one_that_is_equal(calls):
    class Handler:
        def __init__(self):
            self.calls = 0

        def __call__(self, *_):
            self.calls += 1

        def __eq__(self, other):
            return isinstance(other, Handler)

        __hash__ = None

    first, second = Handler(), Handler()
    held = Interrupts()
    before = signal.getsignal(signal.SIGUSR2)
    for handler in (first, second):
        signal.signal(signal.SIGUSR2, handler)
        held.hold()
        signal.raise_signal(signal.SIGUSR2)
        held.release()
        assert signal.getsignal(signal.SIGUSR2) is handler
    signal.signal(signal.SIGUSR2, before)
    assert (first.calls, second.calls) == (1, 1)


def test_what_a_handler_has_replaced_may_be_put_back_later(calls):
    """It is what stood for the program's own handler while that was held back."""
    held = Interrupts()
    held.hold()
    found = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    held.release()
    held.hold()
    held.release()
    signal.signal(signal.SIGUSR2, found)
    held.hold()
    signal.raise_signal(signal.SIGUSR2)
    assert calls == []
    held.release()
    assert calls == [signal.SIGUSR2]


def test_a_handler_that_was_not_put_back_is_called_all_the_same(calls):
    """As if another one had raised in `release`."""
    held = Interrupts()
    held.hold()
    noting = signal.getsignal(signal.SIGUSR2)
    held.release()
    signal.signal(signal.SIGUSR2, noting)
    signal.raise_signal(signal.SIGUSR2)
    assert calls == [signal.SIGUSR2]
    held.hold()
    held.release()


def test_a_handler_that_was_replaced_meanwhile_stays(calls):
    held = Interrupts()
    before = signal.getsignal(signal.SIGUSR2)
    held.hold()
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    held.release()
    assert signal.signal(signal.SIGUSR2, before) is signal.SIG_IGN
    assert calls == []


def test_where_python_runs_no_handlers_none_is_held_back(calls, monkeypatch):
    """As in an interpreter that is not the main one."""

    def refused(_number, _handler):
        raise ValueError

    monkeypatch.setattr(interrupts_module, "signal", refused)
    held = Interrupts()
    held.hold()
    held.release()
    assert calls == []
