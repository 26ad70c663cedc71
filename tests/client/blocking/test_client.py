"""The blocking client against a real broker in another thread, and against other peers."""

import inspect
import socket
import threading
from datetime import UTC, datetime

import pytest
from blocking_brokers import peer
from embedded import START_US

import zaichik
from zaichik.client import blocking, questions
from zaichik.client.dialer import Dialer
from zaichik_protocol import (
    HEARTBEAT,
    Batch,
    Close,
    EndCode,
    ErrorCode,
    GoAway,
    GoAwayCode,
    Hello,
    Messages,
    Ping,
    Pong,
    Publish,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Welcome,
    encode,
)
from zaichik_protocol import Error as ErrorFrame


def numbered(count, key=b"", size=0):
    return Batch.of((key, b"%d" % number + b"." * size) for number in range(count))


# -- the asynchronous client's mirror ------------------------------------------------------------


@pytest.mark.parametrize(
    ("mirror", "mirrored", "own"),
    [
        (blocking.Client, zaichik.Client, set()),
        (blocking.Subscription, zaichik.Subscription, {"batches", "next"}),
        (blocking.Producer, zaichik.Producer, set()),
        (blocking.WorkSubscription, zaichik.WorkSubscription, set()),
        (blocking.WorkMessage, zaichik.WorkMessage, set()),
    ],
)
def test_names_and_arguments_are_those_of_the_asynchronous_client(mirror, mirrored, own):
    names = {name for name in vars(mirror) if not name.startswith("_")}
    theirs = {name for name in dir(mirrored) if not name.startswith("_")} - NOT_FOR_PROGRAMS
    assert {name for name in names if callable(getattr(mirror, name))} - own - NOT_FOR_PROGRAMS == {
        name for name in theirs if callable(getattr(mirrored, name))
    }
    for name in theirs & names:
        ours, of_mirrored = getattr(mirror, name), getattr(mirrored, name)
        if callable(ours):
            assert not inspect.iscoroutinefunction(ours)
            if inspect.isfunction(of_mirrored):  # a compiled one does not tell its arguments
                assert defaults(ours) == defaults(of_mirrored), name


NOT_FOR_PROGRAMS = {"commit_regularly", "commit_settled", "close", "of", "drain", "inherited"}
# For the subscriptions of patterns.
NOT_FOR_PROGRAMS |= {"fetch_nowait", "settle_fetched", "step_past"}
# For shared names.
NOT_FOR_PROGRAMS |= {"answered", "fail", "leave", "look", "settle"}
# For the blocking client itself, and for tasks that wait later.
NOT_FOR_PROGRAMS |= {"acknowledges", "acknowledgement"}
# For clusters, whose patterns are read at several brokers.
NOT_FOR_PROGRAMS |= {"committing", "following"}


def defaults(function):
    """The arguments and their defaults, but for the credit: more is the default here."""
    return {
        name: item.default
        for name, item in inspect.signature(function).parameters.items()
        if name != "credit"
    }


def test_connecting_takes_the_same_arguments():
    assert defaults(blocking.connect) == defaults(zaichik.connect)


# -- topics and publishing -----------------------------------------------------------------------


def test_a_topic_is_described_and_not_one_with_a_longer_name(broker, client):
    broker.create("orders.eu", capacity=7)
    assert client.topic("orders") is None
    assert client.topic("orders.eu")["settings"]["capacity"] == 7


def test_all_topics_come_whatever_the_page(broker, client, monkeypatch):
    monkeypatch.setattr(questions, "DESCRIBE_PAGE", 2)
    for name in "abcde":
        broker.create(name)
    assert [topic["name"] for topic in client.topics()] == list("abcde")
    assert [topic["name"] for topic in client.topics("c")] == ["c"]


def test_a_topic_is_deleted(broker, client):
    """TOP-6."""
    broker.create("t")
    client.publish_batch("t", numbered(3))
    with pytest.raises(zaichik.NotEmpty):
        client.delete_topic("t", if_empty=True)
    with pytest.raises(zaichik.EpochChanged):
        client.delete_topic("t", epoch=1)
    with client.subscribe("t", start="latest") as subscription:
        client.delete_topic("t", epoch=client.topic("t")["epoch"])
        with pytest.raises(zaichik.SubscriptionLost, match="the topic was deleted"):
            list(subscription)
    assert client.topic("t") is None
    with pytest.raises(zaichik.NoSuchTopic):
        client.delete_topic("t")


def test_why_a_message_did_not_arrive_is_explained(broker, client):
    """As by the asynchronous client, which has the tests of the arguments."""
    broker.create("t", retention_ttl="forever")
    client.publish("t", b"x", key=b"k")
    with client.subscribe("t", credit=1, name="n"):
        answer = client.explain("t", key=b"k", subscription="n")
    assert (answer["offset"], [it["fate"] for it in answer["verdicts"]]) == (
        0,
        ["readable", "in_flight"],
    )
    with pytest.raises(zaichik.NoSuchTopic):
        client.explain("nothing", offset=0)


def test_a_batch_is_stored_and_dropped_messages_are_reported(broker, client):
    """COM-2: the publisher is told which they were."""
    broker.create("doors", compaction_window=10)
    result = client.publish_batch(
        "doors", Batch.of([(b"front", b"1"), (b"front", b"2"), (b"back", b"3")])
    )
    assert result == zaichik.BatchResult(0, 2, 1, (1,), 0)


def test_a_batch_larger_than_the_broker_accepts_is_refused_and_the_connection_continues(client):
    with pytest.raises(zaichik.BatchTooLarge, match="in pieces"):
        client.publish_batch("t", numbered(client.welcome.max_batch + 1))
    with pytest.raises(zaichik.MessageTooLarge):
        client.publish_batch("t", Batch.of([(b"", bytes(client.welcome.max_message + 1))]))
    assert client.publish_batch("t", numbered(1)).stored == 1


def test_refusals_are_errors_of_their_own_types(client):
    with pytest.raises(zaichik.InvalidField):
        client.publish_batch("$own", numbered(1))


# -- subscribing ---------------------------------------------------------------------------------


def test_messages_come_in_order_and_end_before_until(broker, client):
    """RET-4."""
    broker.create("t")
    client.publish_batch("t", numbered(10, b"k"))
    with client.subscribe("t", start=2, until=7) as subscription:
        messages = list(subscription)
    assert [message.offset for message in messages] == [2, 3, 4, 5, 6]
    assert messages[0] == zaichik.Message("t", 2, START_US / 1e6, b"k", b"2")
    assert (subscription.start, subscription.live, subscription.ended) == (2, 10, True)


def test_batches_are_the_published_ones(broker, client):
    broker.create("t")
    first, second = numbered(3), numbered(4)
    client.publish_batch("t", first)
    client.publish_batch("t", second)
    with client.subscribe("t", until=7) as subscription:
        frames = list(subscription.batches())
    assert [(frame.base, frame.accepted_us, frame.batch) for frame in frames] == [
        (0, START_US, first),
        (3, START_US, second),
    ]


def test_pieces_are_the_messages_as_they_came(broker, client):
    broker.create("t")
    broker.publish("t", [(None, b"0"), ("key", b"1")], [(None, b"2")])
    with client.subscribe("t", until=3) as subscription:
        pieces = list(subscription.pieces())
    assert [
        [(message.offset, message.key, message.payload) for message in piece] for piece in pieces
    ] == [
        [(0, None, b"0"), (1, b"key", b"1")],
        [(2, None, b"2")],
    ]


@pytest.mark.parametrize(
    ("credit", "credit_bytes"),
    [(1, 10**7), (7, 10**7), (10**5, 1), (10**5, 3 * 2**19), (10**5, 10**7)],
)
def test_everything_comes_once_whatever_the_credit(broker, client, credit, credit_bytes):
    """CMT-1: what is waited for is never more than the broker may send, else this would hang."""
    broker.create("t", capacity=1000)
    for _ in range(10):
        client.publish_batch("t", numbered(20, size=12_000))
    with client.subscribe("t", until=200, credit=credit, credit_bytes=credit_bytes) as subscription:
        assert [message.offset for message in subscription] == list(range(200))


def test_a_message_that_does_not_fit_into_the_credit_left_is_not_waited_for(broker, client):
    """CMT-1: two of these exceed the credit, so the second comes when the first is settled."""
    broker.create("t")
    for number in range(3):
        client.publish_batch("t", Batch.of([(b"", b"%d" % number + bytes(600_000))]))
    with client.subscribe("t", until=3, credit_bytes=1_000_000) as subscription:
        assert [message.payload[:1] for message in subscription] == [b"0", b"1", b"2"]


def test_all_that_credit_allows_is_read_while_the_program_works(broker, client):
    """LAG-3: so the broker's output never stands still, however long the program takes."""
    broker.create("t", capacity=1000)
    for _ in range(10):
        client.publish_batch("t", numbered(100))
    with client.subscribe("t", credit=250) as subscription:
        message = next(iter(subscription))
        client.ping()  # what was sent before the answer has come as well
        (state,) = broker.subscriptions()
        assert (state["in_flight"], state["committed"]) == (250, 0)
        assert (message.offset, subscription.next) == (0, 1)
        inner = subscription._inner
        assert inner._inbox.delivered == 250


def test_a_round_is_settled_by_one_commit_when_all_of_it_was_used(broker, client):
    broker.create("t", capacity=1000)
    client.publish_batch("t", numbered(500))
    with client.subscribe("t", credit=200) as subscription:
        assert len(subscription.fetch()) == 1
        assert len(subscription.fetch()) == 1
        (state,) = broker.subscriptions()
    assert (state["committed"], state["cursor"]) == (200, 400)


def test_a_live_reader_gets_what_is_published_later(broker, client):
    with client.subscribe("t", start="latest") as subscription:
        assert subscription.fetch(timeout=0) == []
        client.publish_batch("t", numbered(3))
        (frame,) = subscription.fetch()
        assert frame.batch.count == 3


def test_a_time_to_start_at(broker, client):
    """RET-4."""
    broker.create("t")
    client.publish_batch("t", numbered(3))
    with client.subscribe(
        "t", start=datetime.fromtimestamp(START_US / 1e6, UTC), until=3
    ) as subscription:
        assert subscription.start == 0
        assert len(list(subscription)) == 3


def test_lag_is_returned_counted_and_logged(broker, client, caplog):
    """LAG-1."""
    broker.create("t", capacity=10)
    client.publish_batch("t", numbered(10))
    client.publish_batch("t", numbered(10))
    with client.subscribe("t", start=5, until=20) as subscription:
        items = subscription.fetch()
    assert items[0] == zaichik.Lagged("t", 5, 10)
    assert (subscription.lagged, subscription.next, subscription.ended) == (5, 20, True)
    assert "5 messages were gone" in caplog.text


def test_a_reader_whose_messages_are_all_gone_ends(broker, client):
    """RET-4: by skipping, without needing credit."""
    broker.create("t", capacity=10)
    for _ in range(3):
        client.publish_batch("t", numbered(10))
    with client.subscribe("t", start=5, until=20) as subscription:
        assert list(subscription) == []
    assert subscription.lagged == 15


def test_another_epoch_is_refused(broker, client, caplog):
    """TOP-5. What was never begun is not ended either: the broker would refuse that, too."""
    broker.create("t")
    with pytest.raises(zaichik.EpochChanged), client.subscribe("t", epoch=1):
        pass
    client.topic("t")
    assert "refused" not in caplog.text


def test_two_subscriptions_of_one_client_do_not_mix(broker, client):
    """UNS-3."""
    broker.create("t")
    client.publish_batch("t", numbered(4))
    with client.subscribe("t", until=2) as one, client.subscribe("t", start=2, until=4) as other:
        assert [message.offset for message in other] == [2, 3]
        assert [message.offset for message in one] == [0, 1]


def test_nothing_is_left_of_a_client_that_left(broker):
    """CLO-3."""
    with blocking.connect(port=broker.port) as client, client.subscribe("t"):
        assert len(broker.subscriptions()) == 1
    assert broker.subscriptions() == []


# -- when it goes wrong --------------------------------------------------------------------------


def test_a_missing_broker():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(zaichik.ConnectFailed, match="zaichik serve"), blocking.connect(port=port):
        pass


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b"", None])
def test_a_peer_that_is_not_a_broker(monkeypatch, answer):
    monkeypatch.setattr(Dialer, "greeting_seconds", lambda *_: 1)
    with (
        peer({Hello: lambda _: answer}) as server,
        pytest.raises(zaichik.ConnectFailed, match="does not answer as a zaichik broker"),
        blocking.connect(port=server.port, timeout=60),
    ):
        pass


def test_a_broker_that_is_full_says_so():
    def full(_):
        return ErrorFrame(
            0, ErrorCode.TOO_MANY_CONNECTIONS, 0, "", 0, "full", retryable=True, fatal=True
        )

    with (
        peer({Hello: full}) as server,
        pytest.raises(zaichik.TooManyConnections, match="full"),
        blocking.connect(port=server.port),
    ):
        pass


PATIENCE = {"timeout": 5.0, "reconnect": 0, "silence_timeout": 0.1}


def test_a_broker_that_owes_a_reply_and_is_silent_is_given_up():
    with (
        peer({Close: lambda _: b"", Subscribe: lambda _: b""}) as server,
        pytest.raises(zaichik.ConnectionLost, match=r"silent for 0\.1 s"),
        blocking.connect(port=server.port, **PATIENCE) as client,
        client.subscribe("t"),
    ):
        pass


def poll(subscription, timeout):
    while True:
        assert subscription.fetch(timeout) == []


def with_heartbeat(frame):
    return Welcome(frame.id, 1, HEARTBEAT, 7, 2**21, 8192, 2**20, 10**6, 100, "peer")


@pytest.mark.parametrize("timeout", [None, 0.01])
@pytest.mark.parametrize("live", [0, 10])
def test_a_silent_broker_is_pinged_and_given_up(timeout, live):
    """TIM-3: also one that owes messages and no reply."""
    subscribed = lambda frame: Subscribed(frame.id, 1, 0, live, 0)  # noqa: E731
    with (
        peer({Hello: with_heartbeat, Subscribe: subscribed, Ping: lambda _: b""}) as server,
        pytest.raises(zaichik.ConnectionLost, match=r"silent for 0\.1 s"),
        blocking.connect(port=server.port, **PATIENCE) as client,
        client.subscribe("t") as subscription,
    ):
        poll(subscription, timeout)


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_a_broker_that_answers_is_waited_for(timeout):
    asked, pings = [], []

    def subscribed(frame):
        asked.append(frame)
        pings.clear()
        return Subscribed(frame.id, 1, 0, 0, 0)

    def pong(frame):
        pings.append(frame)
        news = (
            encode(Messages(asked[0].id, 0, START_US, numbered(1)))
            if asked and len(pings) == 3
            else b""
        )
        return encode(Pong(frame.id, frame.value)) + news

    with (
        peer({Hello: with_heartbeat, Subscribe: subscribed, Ping: pong}) as server,
        blocking.connect(port=server.port, **PATIENCE | {"silence_timeout": 5.0}) as client,
        client.subscribe("t") as subscription,
    ):
        while not (items := subscription.fetch(timeout)):
            pass
    assert len(items) == 1
    assert len(pings) >= 3


def flood(producer):
    while True:
        producer.send(bytes(2**20))


def test_a_broker_that_stops_reading_is_given_up():
    is_over = threading.Event()
    with (
        peer({Publish: lambda _: None if is_over.wait() else b""}) as server,
        blocking.connect(port=server.port, **PATIENCE) as client,
    ):
        with (
            pytest.raises(zaichik.ConnectionLost, match=r"silent for 0\.1 s"),
            client.producer("t") as producer,
        ):
            flood(producer)
        is_over.set()


def test_the_brokers_last_words_are_the_reason():
    def subscribed(frame):
        return encode(Subscribed(frame.id, 1, 0, 10, 0)) + encode(
            GoAway(0, GoAwayCode.STOPPING, "it is stopping")
        )

    with (
        peer({Subscribe: subscribed, Ping: lambda _: None}) as server,
        blocking.connect(port=server.port, reconnect=0) as client,
        client.subscribe("t") as subscription,
    ):
        with pytest.raises(zaichik.ConnectionLost, match="it is stopping"):
            client.ping()
        with pytest.raises(zaichik.ConnectionLost, match="it is stopping"):
            subscription.fetch()


def test_a_fatal_error_is_the_reason():
    fatal = lambda _: ErrorFrame(0, 10, 0, "", 0, "you do not read", fatal=True)  # noqa: E731
    with peer({Subscribe: fatal}) as server, blocking.connect(port=server.port) as client:
        with pytest.raises(zaichik.ConnectionLost, match="you do not read"):
            client.subscribe("t").__enter__()
        with pytest.raises(zaichik.ConnectionLost, match="you do not read"):
            client.ping()


def test_a_subscription_the_broker_ended_is_an_error():
    def subscribed(frame):
        return encode(Subscribed(frame.id, 1, 0, 10, 0)) + encode(
            SubscriptionEnded(frame.id, EndCode.FORBIDDEN, 0, "not yours any more")
        )

    with (
        peer({Subscribe: subscribed}) as server,
        blocking.connect(port=server.port) as client,
        client.subscribe("t") as subscription,
        pytest.raises(zaichik.SubscriptionLost, match="not yours any more"),
    ):
        subscription.fetch()


@pytest.mark.parametrize("producer", [0, 7])
def test_a_payload_of_none_deletes_its_key(client, producer):
    """TAB-5."""
    client.create_topic("table", table=True)
    assert client.publish("table", b"1", key="a").offset == 0
    client.publish_batch("table", [("b", b"2"), ("a", None)], producer=producer)
    copied = Batch.of([(b"b", b"")])
    client.publish_batch("table", copied, producer=producer, number=1, tombstones=True)
    client.publish("table", None, key="a")
    state = client.topic("table")
    assert (state["keys"], state["tombstones"], state["stored"]) == (0, 2, 5)


def test_messages_with_holes_keep_their_offsets():
    def subscribed(frame):
        batch = numbered(2)
        holes = Messages(frame.id, 5, START_US, batch, deltas=(0, 3), holes=True)
        end = SubscriptionEnded(frame.id, EndCode.UNTIL, 9, "")
        return encode(Subscribed(frame.id, 1, 5, 9, 0)) + encode(holes) + encode(end)

    with (
        peer({Subscribe: subscribed}) as server,
        blocking.connect(port=server.port) as client,
        client.subscribe("t", start=5, until=9) as subscription,
    ):
        assert [message.offset for message in subscription] == [5, 8]
