"""A worker in threads: each call is driven by the thread that makes it (SHR-2 to SHR-4b)."""

import threading
from contextlib import contextmanager

import pytest
from anyio.from_thread import start_blocking_portal
from background import in_the_background, interrupt_when
from brokers import SHARED_GRANTED, fake_broker
from embedded import embedded_broker

import zaichik
from zaichik.client import blocking
from zaichik_protocol import Outcome, Settle, Settled, Subscribe, Unsubscribe


class Own(Exception):
    pass


class Panic(BaseException):
    """A failure that is no `Exception`."""


class Scripted:
    """A broker that a test scripts, in a thread of its own."""

    def __init__(self, portal, broker):
        self._portal = portal
        self._broker = broker
        self.port = broker.port
        self.answers = broker.answers

    def hand_out(self, ticket, *payloads, **said):
        async def hand_out():
            await self._broker.hand_out(ticket, *payloads, **said)

        self._portal.call(hand_out)

    def hang_up(self):
        self._portal.call(self._broker.hang_up)

    def of(self, kind):
        return self._broker.of(kind)

    @property
    def settled(self):
        return [(request.outcome, request.tickets) for request in self.of(Settle)]


@pytest.fixture
def broker():
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_broker(dict(SHARED_GRANTED))) as broker,
    ):
        yield Scripted(portal, broker)


@contextmanager
def worker(broker, **options):
    options = {"name": "n", "shared": True, "credit": 10, **options}
    with (
        blocking.connect(port=broker.port, reconnect=0) as client,
        client.subscribe("t", **options) as work,
    ):
        yield client, work


def test_it_asks_for_what_the_asynchronous_client_would(broker):
    with worker(broker, credit=None, timeout=5, by_key=True) as (_, work):
        assert (work.topic, work.name, work.timeout, work.epoch) == ("t", "n", 5, 1)
        assert (work.lagged, work.failure, work.is_draining) == (0, None, False)
    request = broker.of(Subscribe)[0]
    assert (request.credit, request.timeout_ms, request.by_key) == (1, 5000, True)


def test_what_does_not_fit_together_is_refused(broker):
    with blocking.connect(port=broker.port) as client:
        with pytest.raises(ValueError, match="needs a name"):
            client.subscribe("t", shared=True)
        with pytest.raises(ValueError, match="add shared=True"):
            client.subscribe("t", name="n", timeout=5)


def test_messages_are_settled_by_calls(broker):
    with worker(broker) as (_, work):
        broker.hand_out(70, b"a", b"b", b"c", b"d", b"e", base=5, number=2, again=True)
        first = next(work)
        assert (first.topic, first.offset, first.payload, first.key) == ("t", 5, b"a", None)
        assert (first.ticket, first.delivery, first.redelivered) == (70, 2, True)
        assert not first.is_tombstone
        assert first.due > 0
        assert first.timestamp == 1000
        assert repr(first) == "<WorkMessage t:5, delivery 2>"
        assert first.extend(60)
        assert first.done()
        assert first.is_settled
        assert next(work).retry(after=30, reason="busy")
        assert next(work).reject("no image")
        assert next(work).give_back()
        broker.answers[Settle] = lambda frame: Settled(frame.id, frame.tickets)
        assert not next(work).done()
    outcomes = [outcome for outcome, _ in broker.settled]
    assert outcomes == [6, 0, 1, 2, 4, 0]


def test_blocks_settle(broker):
    with worker(broker) as (_, work):
        broker.hand_out(70, b"a", b"b", b"c")
        with next(work):
            pass
        with pytest.raises(Own), next(work):
            raise Own("no such image")
        with next(work) as message:
            message.reject()
    assert broker.settled == [
        (Outcome.DONE, (70,)),
        (Outcome.RETRY, (71,)),
        (Outcome.REJECT, (72,)),
    ]
    assert broker.of(Settle)[1].reason == "Own: no such image"


def test_a_loop_that_waits_is_ended_by_draining(broker):
    with worker(broker) as (_, work):
        finished = in_the_background(lambda: list(work))
        broker.hand_out(70, b"a")
        while not work._inner._settling.opened:
            pass
        work.drain()
        (message,) = finished()
        assert message.offset == 0
        assert work.is_draining
        assert message.done()


def test_threads_share_its_messages(broker):
    """One reads the socket for all of them."""
    count = 40
    answers = []

    def loop(work):
        for message in work:
            with message:
                answers.append(message.offset)

    with worker(broker, credit=count) as (_, work):
        finished = [in_the_background(lambda: loop(work)) for _ in range(4)]
        for number in range(count):
            broker.hand_out(70 + number, b"x", base=number)
        while sum(len(tickets) for _, tickets in broker.settled) < count:
            pass
        work.drain()
        for wait in finished:
            assert wait() is None
    assert sorted(answers) == list(range(count))
    assert {outcome for outcome, _ in broker.settled} == {Outcome.DONE}


def test_threads_empty_a_queue_and_the_dead_are_listed():
    """At a real broker."""
    count = 100
    done = []

    def loop(work):
        for message in work:
            if message.offset == 7:
                message.reject("it is seven")
            else:
                with message:
                    done.append(message.offset)
            if len(done) == count - 1:
                work.drain()

    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        broker.create("t")
        broker.publish("t", [(None, b"%d" % number) for number in range(count)])
        with client.subscribe("t", name="n", shared=True, credit=4) as work:
            for wait in [in_the_background(lambda: loop(work)) for _ in range(4)]:
                assert wait() is None
        assert sorted(done) == [number for number in range(count) if number != 7]
        (dead,) = client.dead("t", "n")
        assert (dead.offset, dead.reason) == (7, "it is seven")
        assert client.revive("t", "n") == 1
        with client.subscribe("t", name="n", shared=True) as work:
            assert next(work).done()
        client.forget_name("t", "n")


# -- interrupted ---------------------------------------------------------------------------------


def test_ctrl_c_while_it_waits_loses_no_message(broker):
    with worker(broker) as (client, work):
        interrupt_when(lambda: client._thread.baton.waiters)
        with pytest.raises(KeyboardInterrupt):
            next(work)
        broker.hand_out(70, b"a")
        assert next(work).offset == 0


def test_ctrl_c_in_a_block_gives_the_message_back(broker):
    with worker(broker) as (client, work):
        broker.hand_out(70, b"a")
        with pytest.raises(KeyboardInterrupt), next(work):  # noqa: PT012
            interrupt_when(lambda: True).join()
            threading.Event().wait(60)
        client.ping()
    assert broker.settled == [(Outcome.GIVE_BACK, (70,))]


def left_by(broker, error, count):
    """What is settled when a program with so many open messages leaves by that exception."""
    with blocking.connect(port=broker.port, reconnect=0) as client:
        subscribing = client.subscribe("t", name="n", shared=True, credit=10)
        work = subscribing.__enter__()
        broker.hand_out(70, b"a", b"b", b"c")
        for _ in range(count):
            next(work)
        kind = None if error is None else type(error)
        assert not subscribing.__exit__(kind, error, None)
        while not broker.of(Unsubscribe):
            pass
    return [(frame.outcome, frame.tickets, frame.reason) for frame in broker.of(Settle)]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), SystemExit()], ids=repr)
def test_leaving_gives_back_what_is_open(broker, error):
    assert left_by(broker, error, 2) == [(Outcome.GIVE_BACK, (70, 71), "")]


@pytest.mark.parametrize("error", [Own("x"), SystemExit(3), Panic("x")], ids=repr)
def test_leaving_by_a_failure_is_one_of_what_is_open(broker, error):
    """Also by one that the event loop would take for its own end."""
    reason = f"{type(error).__name__}: {error}"
    assert left_by(broker, error, 1) == [(Outcome.RETRY, (70,), reason)]


def test_leaving_by_a_failure_with_several_open_is_a_loss_in_company(broker):
    assert left_by(broker, SystemExit(3), 2) == [(Outcome.LOSE, (70, 71), "")]


# -- without a broker ----------------------------------------------------------------------------


def test_without_a_connection_calls_and_loops_fail_and_the_exception_of_a_block_counts(broker):
    with worker(broker) as (_, work):
        broker.hand_out(70, b"a", b"b", b"c")
        first, second, third = next(work), next(work), next(work)
        broker.hang_up()
        with pytest.raises(zaichik.ConnectionLost):
            next(work)
        with pytest.raises(zaichik.ConnectionLost):
            first.done()
        with pytest.raises(zaichik.ConnectionLost), second:
            pass
        with pytest.raises(Own), third:
            raise Own
        assert isinstance(work.failure, zaichik.ConnectionLost)


def test_after_its_client_has_ended_the_exception_of_a_block_counts(broker):
    with worker(broker) as (_, work):
        broker.hand_out(70, b"a")
        message = next(work)
    with pytest.raises(RuntimeError):
        message.extend(60)
    with pytest.raises(Own), message:
        raise Own
