"""Calls that are driven by the thread that makes them, and who reads the socket meanwhile."""

import asyncio
import concurrent.futures
import os
import threading

import over_tls
import pytest
from anyio.from_thread import start_blocking_portal
from background import GUARD, in_the_background
from blocking_brokers import peer, restartable_broker, silent

import zaichik
from zaichik.client import blocking
from zaichik.client import connection as connection_module
from zaichik.client import transport as transport_module
from zaichik.client.blocking import driver as driver_module
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import Batch, Messages, Ping, Pong, Publish, Published, Subscribe, Subscribed

NEVER = 3600  # seconds


@pytest.fixture
def attended(monkeypatch):
    """The event loop does not read again by itself."""
    monkeypatch.setattr(driver_module, "ATTENDED_SECONDS", NEVER)


def until(condition):
    """Wait for a thread; the guard of all these tests ends what never comes."""
    while not condition():
        pass


def is_attended(client):
    """Whether threads read the socket, and not the event loop."""
    reader = client._driver._attendant.reader
    return reader is not None and reader.is_detached


def waiting(client):
    """How many threads wait for something, without the baton."""
    return len(client._thread.baton.waiters)


def stored(request):
    """The answer to a Publish: each message has the offset that its payload says."""
    (payload,) = request.batch.each_payload()
    return Published(request.id, int(payload), 1, 0, 0)


def requests(server):
    return [frame for frame in server.received if isinstance(frame, Publish)]


# -- one thread ----------------------------------------------------------------------------------


def test_a_call_does_not_wake_the_event_loop(client, attended, monkeypatch):
    client.publish("t", b"first")
    woken = []
    monkeypatch.setattr(
        client._thread.loop, "call_soon_threadsafe", lambda *call, **_: woken.append(call)
    )
    for _ in range(10):
        client.publish("t", b"x")
        client.publish_batch("t", [(None, b"x")])
        client.ping()
        client.topic("t")
    assert woken == []
    monkeypatch.undo()
    assert is_attended(client)


def test_errors_and_refusals_are_raised(client, broker):
    broker.create("t", capacity=10)
    with pytest.raises(TypeError):
        client.publish("t", 7)
    with pytest.raises(zaichik.MessageTooLarge):
        client.publish("t", bytes(client.welcome.max_message + 1))
    with pytest.raises(zaichik.InvalidField):
        client.publish("$own", b"x")
    with pytest.raises(zaichik.TopicExists):
        client.create_topic("t", capacity=7)
    with pytest.raises(zaichik.BatchTooLarge):
        client.publish_batch("t", [(None, b"x")] * 11)
    assert client.publish("t", b"x").offset == 0


def test_a_message_as_large_as_they_come_is_sent_although_the_socket_is_full(client):
    payload = os.urandom(client.welcome.max_message)
    client.create_topic("t", max_bytes=4 * len(payload), retention_ttl="forever")
    client.publish("t", payload)
    with client.subscribe("t", start=0, until=1) as subscription:
        assert [message.payload for message in subscription] == [payload]


def test_a_program_keeps_the_event_loop_of_its_own(client):
    async def main():
        client.publish("t", b"x")
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    with asyncio.Runner() as runner:
        assert runner.run(main()) is runner.get_loop()


def test_a_batch_that_is_made_while_it_is_published_may_call_the_client(client):
    pairs = ((None, b"%d" % client.publish("a", b"x").offset) for _ in range(2))
    assert client.publish_batch("b", pairs).stored == 2


def test_a_call_in_the_midst_of_another_one_is_an_error_and_not_waited_for(client, monkeypatch):
    """As of a logging handler that publishes what the client logs."""
    raised = []
    take = client._inner.connection.transport._take_frame

    def taking(frame):
        with pytest.raises(RuntimeError, match="in the midst of another call") as error:
            client.ping()
        raised.append(error.value)
        take(frame)

    monkeypatch.setattr(client._inner.connection.transport, "_take_frame", taking)
    client.publish("t", b"x")
    assert raised


def test_after_the_end_a_call_is_an_error_and_nothing_is_left(broker):
    def descriptors():
        return sorted(os.listdir("/dev/fd"))  # noqa: PTH208 (names only)

    before = descriptors()
    with blocking.connect(port=broker.port) as client:
        client.publish("t", b"x")
        assert len(descriptors()) > len(before)
    assert descriptors() == before
    with pytest.raises(RuntimeError):
        client.publish("t", b"x")


# -- who reads -----------------------------------------------------------------------------------


def test_soon_after_the_last_call_the_event_loop_reads_again(broker, monkeypatch):
    """LAG-3: however long a program works on a message."""
    monkeypatch.setattr(driver_module, "ATTENDED_SECONDS", 0.01)
    broker.create("t", capacity=1000)
    with (
        blocking.connect(port=broker.port) as client,
        client.subscribe("t", credit=100) as subscription,
    ):
        client.publish("t", b"0")
        assert next(iter(subscription)).payload == b"0"
        client.publish("u", b"x")
        assert is_attended(client)
        until(lambda: not is_attended(client))
        broker.publish("t", [(None, b"x")] * 99)
        until(lambda: subscription._inner._inbox.delivered == 100)
        client.publish("u", b"x")
        assert is_attended(client)


def test_what_waits_in_the_event_loop_has_it_read(client, attended):
    """A subscription is read at once, whatever was published just before."""
    with client.subscribe("t", start="latest") as subscription:
        messages = iter(subscription)
        for number in range(20):
            client.publish("t", b"%d" % number)
            assert next(messages).payload == b"%d" % number
        assert not is_attended(client)


def test_a_reader_a_producer_and_lone_publishes_do_not_disturb_each_other(broker, client):
    for topic in ("read", "streamed", "lone"):
        broker.create(topic, capacity=10_000)

    def read():
        with client.subscribe("read", start=0, until=300) as subscription:
            return [message.offset for message in subscription]

    def stream():
        with client.producer("streamed", max_batch=7) as producer:
            for _ in range(3000):
                producer.send(b"x")
        return producer.stored

    reading, streaming = in_the_background(read), in_the_background(stream)
    for offset in range(300):
        assert client.publish("lone", b"x").offset == offset
        assert client.publish("read", b"x").offset == offset
    assert reading() == list(range(300))
    assert streaming() == 3000


def test_while_a_call_waits_messages_are_read_and_commits_sent(attended):
    """The thread that waits reads for the whole client."""
    made = lambda frame: Subscribed(frame.id, 1, 0, 0, 0)  # noqa: E731
    with (
        peer({Publish: silent, Subscribe: made}) as server,
        blocking.connect(port=server.port) as client,
        client.subscribe("t") as subscription,
    ):
        finished = in_the_background(lambda: client.publish("t", b"5"))
        until(lambda: server.count(Publish))
        server.send(Messages(1, 0, 0, Batch.of([(b"", b"x")])))
        assert next(iter(subscription)).offset == 0
        server.send(stored(requests(server)[0]))
        assert finished().offset == 5


def test_a_call_waits_for_the_readers_of_a_full_topic(client, attended):
    """RET-9: the event loop schedules the retries, and the thread that waits reads the replies."""
    client.create_topic("t", capacity=2, overflow="reject")
    with client.subscribe("t", start=0, credit=1, name="n") as subscription:
        messages = iter(subscription)
        client.publish("t", b"0")
        client.publish("t", b"1")
        finished = in_the_background(lambda: client.publish("t", b"2"))
        sequencer = client._inner._publishing._sequencers["t"]
        until(lambda: sequencer._window == 1)
        received = [next(messages).payload for _ in range(3)]
    assert received == [b"0", b"1", b"2"]
    assert finished().offset == 2


# -- several threads -----------------------------------------------------------------------------


def test_the_thread_that_reads_wakes_those_whose_replies_have_come(attended):
    with (
        peer({Publish: silent}) as server,
        blocking.connect(port=server.port) as client,
    ):
        finished = []
        for number in range(3):
            payload = b"%d" % number
            finished.append(in_the_background(lambda payload=payload: client.publish("t", payload)))
            until(lambda number=number: server.count(Publish) == number + 1)
        until(lambda: waiting(client) == 3)
        first, second, third = requests(server)
        server.send(stored(third), stored(second))
        assert [finished[2]().offset, finished[1]().offset] == [2, 1]
        until(lambda: waiting(client) == 1)
        server.send(stored(first))
        assert finished[0]().offset == 0


def test_when_the_thread_that_reads_has_its_reply_another_one_reads_on(attended):
    with (
        peer({Publish: silent}) as server,
        blocking.connect(port=server.port) as client,
    ):
        one = in_the_background(lambda: client.publish("t", b"1"))
        until(lambda: server.count(Publish) == 1)
        other = in_the_background(lambda: client.publish("t", b"2"))
        until(lambda: server.count(Publish) == 2)
        first, second = requests(server)
        server.send(stored(first))
        assert one().offset == 1
        server.send(stored(second))
        assert other().offset == 2


def test_threads_publish_at_once_and_all_is_stored(broker, client):
    broker.create("t", capacity=10_000)
    calls = [
        in_the_background(lambda: [client.publish("t", b"x").offset for _ in range(200)])
        for _ in range(6)
    ]
    offsets = [offset for finished in calls for offset in finished()]
    assert sorted(offsets) == list(range(1200))


def test_threads_that_wait_when_the_client_is_left_are_told(attended, monkeypatch):
    """And the reply to the last request of all is read, as ever."""
    monkeypatch.setattr(connection_module, "CLOSE_SECONDS", NEVER)

    def publish_beside(server):
        with blocking.connect(port=server.port) as client:
            client.ping()
            calls = []
            for number in range(3):
                calls.append(in_the_background(lambda: client.publish("t", b"1")))
                until(lambda number=number: server.count(Publish) == number + 1)
            return calls

    answers = {Publish: silent, Ping: lambda frame: Pong(frame.id, frame.value)}
    with peer(answers) as server:
        for finished in publish_beside(server):
            assert isinstance(finished(), zaichik.ConnectionLost)


def test_a_call_that_nothing_ends_is_cancelled_with_the_event_loop(broker):
    """As one that crosses is."""
    cancelled = []

    async def wait():
        try:
            await Wakeup().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    with blocking.connect(port=broker.port) as client:
        thread = threading.Thread(target=lambda: _note(outcomes, client._driver, wait))
        outcomes = []
        thread.start()
        until(lambda: waiting(client))
    thread.join(GUARD)
    assert [type(outcome) for outcome in outcomes] == [concurrent.futures.CancelledError]
    assert cancelled


def _note(outcomes, driver, function):
    try:
        driver.call(function)
    except BaseException as error:
        outcomes.append(error)


def test_what_has_happened_already_is_not_waited_for(client):
    async def wait():
        wakeup = Wakeup()
        wakeup.set()
        await wakeup.wait()
        return 7

    assert client._driver.call(wait) == 7


# -- sockets that are lost -----------------------------------------------------------------------


def test_a_broker_that_was_restarted_between_two_calls_is_connected_to(attended, monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(transport_module, "LONGEST_PAUSE_SECONDS", 0.01)
    with (
        restartable_broker() as broker,
        blocking.connect(port=broker.port, reconnect=GUARD) as client,
    ):
        for _ in range(3):
            assert client.publish("t", b"a").offset == 0
            client.ping()
            assert is_attended(client)
            broker.stop()
            broker.start()


def test_a_broker_that_is_silent_is_given_up_while_threads_wait(attended):
    with (
        peer({Publish: silent}) as server,
        blocking.connect(port=server.port, reconnect=0, silence_timeout=0.1) as client,
    ):
        calls = [in_the_background(lambda: client.publish("t", b"1")) for _ in range(3)]
        for finished in calls:
            outcome = finished()
            assert isinstance(outcome, zaichik.ConnectionLost)
            assert "silent for 0.1 s" in str(outcome)


def test_over_tls_calls_are_driven_as_well(attended):
    _, tls = over_tls.ends(over_tls.ECDSA)
    clock = zaichik.ManualClock(1_000_000_000)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(over_tls.running_broker(clock)) as broker,
        blocking.connect(f"zaichiks://localhost:{broker.port}", tls=tls) as client,
    ):
        client.create_topic("t", max_bytes=2**23, retention_ttl="forever")
        payload = os.urandom(2**20)
        for number in range(5):
            assert client.publish("t", payload).offset == number
            assert client.publish("u", b"x").offset == number
        assert is_attended(client)
        calls = [
            in_the_background(lambda: [client.publish("u", b"x") for _ in range(50)])
            for _ in range(4)
        ]
        for finished in calls:
            assert len(finished()) == 50
        with client.subscribe("t", start=0, until=5) as subscription:
            assert [message.payload for message in subscription] == [payload] * 5
        assert client.publish("u", b"x").offset == 205
