"""One client's conversation: every request and its reply, turns, the end."""

import pytest
from conversation import Conversation, batch, broker_with

from zaichik_protocol import (
    DURABLE,
    FOREVER,
    HEARTBEAT,
    OWNER,
    SHARED,
    TABLES,
    Batch,
    Close,
    Closed,
    Commit,
    Committed,
    CreateTopic,
    Describe,
    Disconnect,
    Disconnected,
    Error,
    ErrorCode,
    GoAway,
    GoAwayCode,
    Hello,
    Messages,
    Ping,
    Pong,
    Publish,
    Published,
    Refused,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    TopicCreated,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)


@pytest.fixture
def client():
    return Conversation(broker_with())


def refused(client, request):
    """Code and field of the error that answers a request, which must not be fatal."""
    (error,) = client.ask(request)
    assert isinstance(error, Error)
    assert (error.id, error.request_type, error.fatal) == (request.id, request.TYPE, False)
    assert error.retryable == ErrorCode(error.code).retryable
    assert error.message
    return error.code, error.field


# -- Hello ---------------------------------------------------------------------------------------


def test_welcome_tells_the_limits():
    client = Conversation(
        broker_with(max_credit=9, max_batch=8, max_message=7, max_frame=6000), greeted=False
    )
    (welcome,) = client.ask(
        Hello(3, version_min=0, version_max=9, features=2**64 - 1, client="me", auth=2)
    )
    assert welcome == Welcome(
        3,
        version=1,
        features=HEARTBEAT | OWNER | DURABLE | TABLES | SHARED,
        boot=client.broker.boot,
        max_frame=6000,
        max_batch=8,
        max_message=7,
        max_credit=9,
        idle_ms=90_000,
        broker=client.broker.name,
    )
    assert client.manager.greeted
    assert client.manager.client_name == "me"


def test_a_client_that_promises_no_heartbeat_may_be_silent():
    """TIM-3."""
    client = Conversation(broker_with(), greeted=False)
    (welcome,) = client.ask(Hello(3, features=2**64 - 2))
    assert (welcome.features, welcome.idle_ms, client.manager.heartbeat) == (
        OWNER | DURABLE | TABLES | SHARED,
        0,
        False,
    )


@pytest.mark.parametrize(
    ("hello", "code", "field"),
    [
        (Hello(3, version_min=2, version_max=9), ErrorCode.UNSUPPORTED_VERSION, "version_max"),
        (Hello(3, version_min=0, version_max=0), ErrorCode.UNSUPPORTED_VERSION, "version_max"),
        (Hello(3, auth=3), ErrorCode.INVALID_FIELD, "auth"),
    ],
)
def test_an_error_in_answer_to_a_hello_is_the_end(hello, code, field):
    client = Conversation(broker_with(), greeted=False)
    (error,) = client.ask(hello, Ping(4))
    assert (error.code, error.field, error.fatal) == (code, field, True)
    assert client.manager.closing


@pytest.mark.parametrize(
    "second", [Hello(5), Hello(5, version_min=7, version_max=9), Hello(5, auth=9)]
)
def test_a_second_hello_is_unsupported_and_the_connection_continues(client, second):
    """Whatever it says, and without a field at fault (hello.7)."""
    assert refused(client, second) == (ErrorCode.UNSUPPORTED, "")
    assert client.ask(Ping(6, 1)) == [Pong(6, 1)]


# -- topics and publishing -----------------------------------------------------------------------


def test_create_returns_the_settings_in_force(client):
    """TOP-1, TOP-2."""
    (first,) = client.ask(CreateTopic(2, "t", ((Setting.CAPACITY, 5),)))
    assert first == TopicCreated(
        2, 1, 1_000, ((1, 0), (2, 0), (3, 5), (4, 67_108_864), (5, 100_000), (6, 0), (7, 0))
    )
    client.broker.clock.advance(1)
    other = Conversation(client.broker)
    assert other.ask(CreateTopic(9, "t")) == [TopicCreated(9, 0, first.epoch, first.settings)]
    assert refused(other, CreateTopic(9, "t", ((3, 6),))) == (ErrorCode.TOPIC_EXISTS, "settings")


def test_published_reports_what_became_of_the_batch(client):
    client.ask(CreateTopic(2, "t", ((2, 1),)), Subscribe(3, "t"), Subscribe(4, "t"))
    Conversation(client.broker).ask(Subscribe(2, "t"))
    published = client.ask(Publish(5, "t", batch((b"k", b"1"), (b"k", b"2"))))[0]
    assert published == Published(5, 0, 1, 1, 3, b"\x02")


@pytest.mark.parametrize(("size", "fits"), [(9, True), (10, True), (11, False)])
@pytest.mark.parametrize(
    ("key", "code"), [(b"kk", ErrorCode.MESSAGE_TOO_LARGE), (None, ErrorCode.BATCH_TOO_LARGE)]
)
def test_bytes_of_keys_and_payloads_are_limited(size, fits, key, code):
    """One below the limit, at the limit, beyond; for a single message and for a batch."""
    client = Conversation(broker_with(max_message=10))
    messages = batch((key, b"p" * (size - 2))) if key else batch(b"p", b"p" * (size - 1))
    if fits:
        assert client.ask(Publish(2, "t", messages)) == [Published(2, 0, messages.count, 0, 0)]
    else:
        assert refused(client, Publish(2, "t", messages)) == (code, "batch")


@pytest.mark.parametrize(("count", "fits"), [(2, True), (3, True), (4, False)])
def test_messages_in_a_batch_are_limited(count, fits):
    client = Conversation(broker_with(max_batch=3))
    request = Publish(2, "t", batch(*[b""] * count))
    if fits:
        assert client.ask(request) == [Published(2, 0, count, 0, 0)]
    else:
        assert refused(client, request) == (ErrorCode.BATCH_TOO_LARGE, "batch")


@pytest.mark.parametrize(("size", "fits"), [(1023, True), (1024, True), (1025, False)])
def test_bytes_of_a_key_are_limited(client, size, fits):
    request = Publish(2, "t", batch((b"k" * size, b""), (b"k" * 1024, b"")))
    if fits:
        assert client.ask(request) == [Published(2, 0, 2, 0, 0)]
    else:
        assert refused(client, request) == (ErrorCode.INVALID_FIELD, "batch")


# -- subscriptions -------------------------------------------------------------------------------


def test_subscribed_says_where_history_ends(client):
    """RET-3, RET-2: replay and live without a seam."""
    client.ask(CreateTopic(2, "t", ((1, FOREVER),)), Publish(0, "t", batch(b"old")))
    subscribed, old = client.ask(Subscribe(3, "t", credit=9))
    assert subscribed == Subscribed(3, 1_000, 0, 1, 0)
    assert old == Messages(3, 0, 1_000, batch(b"old"))
    client.broker.clock.advance(1)
    assert client.ask(Publish(0, "t", batch(b"new"))) == [Messages(3, 1, 1_001_000, batch(b"new"))]


@pytest.mark.parametrize("table", [0, 1])
def test_subscribed_says_whether_the_topic_is_a_table(table):
    """TAB-3."""
    client = Conversation(broker_with(), greeted=False)
    client.ask(Hello(1, features=TABLES), CreateTopic(2, "t", ((Setting.TABLE, table),)))
    (subscribed,) = client.ask(Subscribe(3, "t", credit=9))
    assert subscribed.table == bool(table)


def test_subscribed_comes_before_messages_and_published_before_the_echo(client):
    """PUB-1, and the order of what a connection is sent."""
    client.tell(
        Subscribe(2, "t", credit=9),
        Publish(3, "t", batch(b"")),
        Unsubscribe(4, 2),
        Publish(5, "t", batch(b"")),
    )
    assert [type(frame) for frame in client.heard()] == [
        Subscribed,
        Published,
        Unsubscribed,
        Published,
    ]
    client.tell(Subscribe(6, "t", credit=9, start=Start.OFFSET), Publish(7, "t", batch(b"")))
    assert [type(frame) for frame in client.heard()] == [
        Subscribed,
        Published,
        Messages,
        Messages,
        Messages,
    ]


@pytest.mark.parametrize(
    ("credit", "fits"), [(0, False), (1, True), (6, True), (7, True), (8, False)]
)
def test_credit_is_limited(credit, fits):
    client = Conversation(broker_with(max_credit=7))
    if fits:
        assert client.ask(Subscribe(2, "t", credit=credit)) == [Subscribed(2, 1_000, 0, 0, 0)]
    else:
        assert refused(client, Subscribe(2, "t", credit=credit)) == (
            ErrorCode.INVALID_FIELD,
            "credit",
        )


@pytest.mark.parametrize(
    ("credit_bytes", "fits"), [(0, False), (1, True), (2, True), (2**32 - 1, True)]
)
def test_credit_in_bytes_is_at_least_1(client, credit_bytes, fits):
    if fits:
        assert client.ask(Subscribe(2, "t", credit_bytes=credit_bytes)) == [
            Subscribed(2, 1_000, 0, 0, 0)
        ]
    else:
        assert refused(client, Subscribe(2, "t", credit_bytes=0)) == (
            ErrorCode.INVALID_FIELD,
            "credit_bytes",
        )


def test_the_id_of_a_subscribe_must_be_new_and_greater(client):
    assert refused(client, Subscribe(0, "t")) == (ErrorCode.INVALID_FIELD, "id")
    client.ask(Subscribe(5, "t"), Unsubscribe(0, 5))
    assert refused(client, Subscribe(5, "t")) == (ErrorCode.INVALID_FIELD, "id")
    assert refused(client, Subscribe(4, "t")) == (ErrorCode.INVALID_FIELD, "id")
    assert isinstance(client.ask(Subscribe(6, "t"))[0], Subscribed)


def test_another_epoch_is_refused():
    """TOP-5."""
    client = Conversation(broker_with())
    client.ask(CreateTopic(2, "t"))
    assert refused(client, Subscribe(3, "t", epoch=999)) == (ErrorCode.EPOCH_CHANGED, "epoch")
    assert refused(client, Subscribe(3, "gone", epoch=1_000)) == (ErrorCode.EPOCH_CHANGED, "epoch")
    assert refused(client, Subscribe(3, "$", epoch=1_000)) == (ErrorCode.INVALID_FIELD, "topic")
    assert len(client.broker.registry) == 1, "who knows an epoch does not want a new topic"
    assert isinstance(client.ask(Subscribe(4, "t", epoch=1_000))[0], Subscribed)


def test_an_impossible_start_leaves_no_subscription(client):
    """RET-4."""
    assert refused(client, Subscribe(2, "t", start=Start.OFFSET, value=1)) == (
        ErrorCode.OFFSET_AHEAD,
        "value",
    )
    assert refused(client, Subscribe(3, "t", start=4)) == (ErrorCode.INVALID_FIELD, "start")
    assert not client.manager.readers
    assert not client.broker.registry.get_or_create("t", 0).readers


def test_subscriptions_of_a_connection_are_limited():
    """One below the limit, at the limit, beyond; other connections have their own."""
    client = Conversation(broker_with(max_subscriptions=2))
    client.ask(Subscribe(2, "t"), Subscribe(3, "t"))
    assert refused(client, Subscribe(4, "t")) == (ErrorCode.TOO_MANY_SUBSCRIPTIONS, "")
    assert isinstance(Conversation(client.broker).ask(Subscribe(4, "t"))[0], Subscribed)
    client.ask(Unsubscribe(5, 2))
    assert isinstance(client.ask(Subscribe(6, "t"))[0], Subscribed)


def test_two_subscriptions_to_one_topic_are_independent(client):
    """UNS-3."""
    client.ask(Subscribe(2, "t", credit=1), Subscribe(3, "t", credit=9))
    client.ask(Publish(0, "t", batch(b"a")))
    assert client.ask(Publish(0, "t", batch(b"b"))) == [Messages(3, 1, 1_000, batch(b"b"))]
    client.ask(Unsubscribe(0, 3))
    assert client.ask(Commit(4, 2, 1)) == [Committed(4, 1), Messages(2, 1, 1_000, batch(b"b"))]


def test_nothing_is_delivered_after_unsubscribed(client):
    """UNS-1: also if messages, and a turn for them, are waiting already."""
    client.ask(Subscribe(2, "t", credit=9))
    client.tell(Publish(0, "t", batch(b"")), Unsubscribe(3, 2))
    assert client.heard() == [Unsubscribed(3)]
    assert client.ask(Publish(0, "t", batch(b""))) == []


@pytest.mark.parametrize("request_of", [lambda n: Unsubscribe(9, n), lambda n: Commit(9, n, 0)])
def test_an_unknown_or_closed_subscription_does_not_exist(client, request_of):
    """UNS-2."""
    client.ask(Subscribe(2, "t"), Unsubscribe(3, 2))
    for number in (2, 3, 0, 2**32 - 1):
        assert refused(client, request_of(number)) == (
            ErrorCode.NO_SUCH_SUBSCRIPTION,
            "subscription",
        )


def test_subscribing_again_around_a_commit_starts_with_fresh_credit(client):
    """CMT-1: in the original, the old subscription's late commit granted the new one a message."""
    client.ask(CreateTopic(2, "t", ((1, FOREVER),)), Publish(0, "t", batch(*[b""] * 9)))
    assert client.ask(Subscribe(3, "t", credit=2))[1].batch.count == 2
    client.ask(Unsubscribe(0, 3))
    assert client.ask(Subscribe(4, "t", credit=2))[1].batch.count == 2
    assert refused(client, Commit(5, 3, 2)) == (ErrorCode.NO_SUCH_SUBSCRIPTION, "subscription")
    assert client.heard() == []
    assert client.manager.readers[4].in_flight == 2


def test_a_commit_beyond_what_was_delivered_is_refused(client):
    """CMT-2."""
    client.ask(Subscribe(2, "t"))
    assert refused(client, Commit(3, 2, 1)) == (ErrorCode.NOT_IN_FLIGHT, "next")
    assert client.ask(Commit(4, 2, 0)) == [Committed(4, 0)]


def test_an_ended_subscription_accepts_commits_until_it_is_unsubscribed(client):
    """RET-4."""
    frames = client.ask(Subscribe(2, "t", credit=1, until=1), Publish(0, "t", batch(b"")))
    assert [type(frame) for frame in frames] == [Subscribed, Messages, SubscriptionEnded]
    assert client.ask(Commit(3, 2, 1)) == [Committed(3, 1)]
    assert client.ask(Publish(4, "t", batch(b"")))[0].subscribers == 0
    assert client.ask(Unsubscribe(5, 2)) == [Unsubscribed(5)]


# -- silence and order ---------------------------------------------------------------------------


def test_id_0_asks_for_no_reply_but_a_failure_is_reported(client):
    for request in (Ping(0, 5), CreateTopic(0, "t"), Publish(0, "t", batch(b"")), Describe(0, 0)):
        assert client.ask(request) == []
    assert refused(client, Commit(0, 99, 0)) == (ErrorCode.NO_SUCH_SUBSCRIPTION, "subscription")


def test_replies_come_in_the_order_of_requests(client):
    """P1."""
    client.tell(Ping(2, 1), Commit(3, 9, 9), Ping(4, 2), CreateTopic(5, ""), Ping(6, 3))
    assert [frame.id for frame in client.heard()] == [2, 3, 4, 5, 6]


def test_a_frame_that_is_not_a_request_is_unsupported(client):
    assert refused(client, Pong(2, 1)) == (ErrorCode.UNSUPPORTED, "type")


# -- turns ---------------------------------------------------------------------------------------


def test_turns_are_fair():
    """LAG-4: one hot topic does not starve 99 cold ones."""
    client = Conversation(broker_with())
    for number in range(100):
        client.ask(Subscribe(2 + number, f"t{number}", credit=1000))
    client.tell(*[Publish(0, "t0", batch(b"hot"))] * 500)
    client.tell(*[Publish(0, f"t{number}", batch(b"cold")) for number in range(1, 100)])
    assert [frame.id for frame in client.heard()][:100] == list(range(2, 102))


def test_a_turn_ends_at_the_soft_mark_and_leaves_the_rest_in_the_ring():
    """LAG-3."""
    client = Conversation(broker_with(soft_output=1000))
    client.ask(Subscribe(2, "t", credit=1000))
    client.tell(*[Publish(0, "t", batch(b"p" * 200))] * 10)
    assert [len(client.turn()) for _ in range(3)] == [
        5,
        5,
        0,
    ]  # the one that reaches the mark is still sent


def test_replies_alone_may_fill_a_turn():
    client = Conversation(broker_with(soft_output=10))
    client.ask(Subscribe(2, "t"))
    client.tell(Publish(3, "t", batch(b"")), Ping(4), Ping(5))
    assert [type(frame) for frame in client.turn()] == [Published, Pong, Pong]
    assert client.manager.replies.bytes == 0
    assert [type(frame) for frame in client.turn()] == [Messages]


def test_reply_bytes_count_what_waits(client):
    client.tell(Ping(2))
    assert client.manager.replies.bytes == 20
    client.tell(Ping(3), Ping(0))
    assert client.manager.replies.bytes == 40
    client.heard()
    assert client.manager.replies.bytes == 0


def test_output_is_announced(client):
    client.ask(Subscribe(2, "t"))
    before = client.outputs
    Conversation(client.broker).ask(Publish(0, "t", batch(b"")))
    assert client.outputs == before + 1
    client.tell(Ping(3))
    assert client.outputs == before + 2


# -- the end -------------------------------------------------------------------------------------


def test_close_ends_everything_and_closed_is_the_last_frame(client):
    """CLO-1: what came before is answered, what comes after is ignored."""
    client.ask(Subscribe(2, "t", credit=9))
    client.tell(
        Publish(3, "t", batch(b"")), Ping(4), Close(5), Ping(6), Publish(0, "t", batch(b""))
    )
    assert [type(frame) for frame in client.heard()] == [Published, Pong, Closed]
    topic = client.broker.registry.get_or_create("t", 0)
    assert (topic.retained.ring.next_offset, len(topic.readers)) == (1, 0)
    assert client.manager.closing


def test_go_away_tells_the_client_once_and_closes(client):
    """CLO-2."""
    client.tell(Ping(2))
    client.manager.go_away(GoAwayCode.STOPPING, "STOPPED")
    client.manager.go_away(GoAwayCode.DISCONNECTED, "DISCONNECTED")
    client.tell(Ping(3))
    pong, go_away = client.heard()
    assert (pong.id, go_away) == (2, GoAway(0, GoAwayCode.STOPPING, GoAwayCode.STOPPING.meaning))
    assert (client.manager.closing, client.manager.reason) == (True, "STOPPED")


def test_another_connection_is_ended_and_its_client_is_told_why(client):
    """CLO-4: what was on its way to it comes first, and nothing more of it is carried out."""
    other = Conversation(client.broker)
    other.tell(Ping(2))
    assert client.ask(Disconnect(2, other.manager.number)) == [Disconnected(2)]
    other.tell(Ping(3))
    pong, go_away = other.heard()
    assert (pong.id, go_away) == (
        2,
        GoAway(0, GoAwayCode.DISCONNECTED, "an operator ended this connection"),
    )
    assert (other.manager.closing, other.manager.reason) == (True, "DISCONNECTED")
    assert client.ask(Disconnect(3, other.manager.number), Ping(4)) == [Disconnected(3), Pong(4, 0)]
    assert other.heard() == [], "it is told once"


def test_only_another_existing_connection_can_be_ended(client):
    """CLO-4: one's own has Close."""
    invalid = ErrorCode.INVALID_FIELD, "connection"
    for number in (0, client.manager.number, client.manager.number + 1, 2**64 - 1):
        assert refused(client, Disconnect(2, number)) == invalid
    assert client.ask(Ping(3)) == [Pong(3, 0)]


def test_a_fatal_error_is_the_last_frame(client):
    client.manager.refuse(Refused(ErrorCode.INTERNAL, "a bug"), 7, 3)
    client.tell(Ping(2))
    (error,) = client.heard()
    assert (error.id, error.request_type, error.code, error.fatal) == (
        7,
        3,
        ErrorCode.INTERNAL,
        True,
    )


def test_nothing_of_a_connection_is_left():
    """CLO-3: whether readers are caught up, have messages to come, lack credit or have ended."""
    broker = broker_with()
    client, other = Conversation(broker), Conversation(broker)
    client.ask(
        Subscribe(2, "t", credit=9),
        Subscribe(3, "u", credit=9),
        Subscribe(4, "u"),
        Subscribe(5, "u", until=1),
    )
    other.ask(Publish(0, "u", batch(b"", b"")))
    client.turn()
    other.ask(Publish(0, "u", batch(b"")))
    broker.disconnect(client.manager, "GONE")
    assert list(broker.managers.values()) == [other.manager]
    for topic in broker.registry:
        assert not topic.readers
        assert not topic.retained.ring._waiting
    assert client.heard() == []
    broker.sweep()
    assert broker.registry.get_or_create("u", 0).retained.ring.bytes == 0


def test_connections_have_numbers_and_each_run_of_a_broker_its_own_boot():
    broker = broker_with()
    numbers = [Conversation(broker).manager.number for _ in range(3)]
    assert numbers == [1, 2, 3]
    assert 1 <= broker.boot < 2**64
    assert broker.boot != broker_with().boot
    assert broker.name.startswith("zaichik ")


def test_a_batch_of_the_largest_kind_goes_through(client):
    big = Batch.of([(b"", b"p" * (1024 * 1024))])
    frames = client.ask(Subscribe(2, "t"), Publish(3, "t", big))
    assert frames[2].batch == big


def test_after_its_replies_are_dropped_nothing_is_unsent(client):
    client.manager.note_unsent(100)
    client.tell(Ping(2))
    client.manager.drop_replies()
    assert (client.manager.unsent, client.manager.replies.bytes) == (0, 0)
    assert client.heard() == []


# -- a stop --------------------------------------------------------------------------------------


def test_when_the_broker_is_about_to_stop_no_more_requests_are_carried_out(client):
    """CLO-2: what the client has credit for is delivered, then it is sent away."""
    client.ask(Subscribe(2, "t", credit=1))
    client.manager.accept_no_more()
    requests = client.manager.requests
    assert client.ask(Publish(3, "t", batch(b"late"))) == []
    assert client.manager.requests == requests
    Conversation(client.broker).ask(Publish(0, "t", batch(b"x")))
    (messages,) = client.heard()
    assert messages.batch.payloads() == [b"x"]
    client.manager.stop()
    assert client.turn() == [], "nothing is left to deliver"
    assert client.heard() == [GoAway(0, GoAwayCode.STOPPING, GoAwayCode.STOPPING.meaning)]
    client.manager.accept_no_more()
    assert client.manager.closing, "there is no way back"
