"""A clock that clients move: what an advance ends, and who may ask for one (TIM-4)."""

import pytest
from conversation import Conversation, batch, broker_with
from fake_log import FakeLogs, durable_broker
from test_rights import Somebody, Talk

from zaichik.base.clock import LAST_US
from zaichik.core.broker import Broker
from zaichik.core.rights import BROKER
from zaichik_protocol import (
    FOREVER,
    AdvanceClock,
    ClockAdvanced,
    CreateTopic,
    Error,
    ErrorCode,
    Lagged,
    Ping,
    Pong,
    Publish,
    Setting,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

HOUR_MS, HOUR_US = 3_600_000, 3_600_000_000
START_US = 1_000  # of `broker_with`


def refusal(talk, to_us):
    (reply,) = talk.ask(AdvanceClock(9, to_us))
    assert isinstance(reply, Error)
    return reply.code, reply.field


@pytest.fixture
def teacher():
    return Conversation(broker_with())


def test_messages_expire_and_their_readers_are_told(teacher):
    """RET-1: readable while accepted ≤ now < accepted + ttl, to the microsecond."""
    teacher.ask(
        CreateTopic(2, "t", ((Setting.RETENTION_TTL_MS, HOUR_MS),)),
        Publish(0, "t", batch(b"1", b"2")),
    )
    reader = Conversation(teacher.broker)
    reader.ask(Subscribe(3, "t", credit=1))
    end_us = START_US + HOUR_US
    assert teacher.ask(AdvanceClock(4, end_us - 1)) == [ClockAdvanced(4)]
    assert teacher.ask(Subscribe(5, "t"))[0].start == 0
    assert teacher.ask(AdvanceClock(6, end_us)) == [ClockAdvanced(6)]
    (topic,) = teacher.broker.registry
    assert topic.retained.ring.bytes == 0  # freed at once, and not by the next sweep
    late = Conversation(teacher.broker).ask(Subscribe(2, "t", start=2, value=0))
    assert [type(frame) for frame in late] == [Subscribed, Lagged]


def test_compaction_windows_end(teacher):
    teacher.ask(
        CreateTopic(
            2, "t", ((Setting.RETENTION_TTL_MS, FOREVER), (Setting.COMPACTION_WINDOW_MS, HOUR_MS))
        ),
        Publish(0, "t", batch((b"k", b"1"))),
        AdvanceClock(3, START_US + HOUR_US - 1),
    )
    (dropped,) = teacher.ask(Publish(4, "t", batch((b"k", b"2"))))
    teacher.ask(AdvanceClock(5, START_US + HOUR_US))
    (stored,) = teacher.ask(Publish(6, "t", batch((b"k", b"3"))))
    assert [(reply.stored, reply.compacted) for reply in (dropped, stored)] == [(0, 1), (1, 0)]


@pytest.mark.parametrize(("seconds", "is_kept"), [(59.999999, True), (60, False)])
def test_a_named_position_is_kept_for_its_time_from_when_its_reader_left(teacher, seconds, is_kept):
    """CMT-3, also if no sweep has seen yet that it left."""
    teacher.ask(Subscribe(2, "t", name="worker"), Unsubscribe(3, 2))
    teacher.ask(AdvanceClock(4, START_US + round(seconds * 1_000_000)))
    assert (len(teacher.broker.named_positions) == 1) is is_kept


def test_unused_topics_and_silent_producers_are_forgotten(teacher):
    """TOP-7, PUB-4."""
    teacher.ask(
        Subscribe(2, "mistyped"), Unsubscribe(3, 2), Publish(0, "t", batch(b"x"), producer=7)
    )
    broker = teacher.broker
    teacher.ask(AdvanceClock(4, START_US + 599_999_999))
    assert (len(broker.registry), len(broker.producers)) == (2, 1)
    teacher.ask(AdvanceClock(5, START_US + 600_000_000))
    assert (len(broker.registry), len(broker.producers)) == (1, 0)


def test_it_stands_still_otherwise_and_what_is_accepted_has_its_time(teacher):
    teacher.ask(
        CreateTopic(2, "t", ((Setting.RETENTION_TTL_MS, FOREVER),)), AdvanceClock(3, 5_000_000)
    )
    teacher.broker.sweep()
    teacher.ask(Publish(0, "t", batch(b"x")))
    _, message = teacher.ask(Subscribe(4, "t"))
    assert message.accepted_us == 5_000_000


def test_the_same_time_again_changes_nothing(teacher):
    """A client that lost its connection before the answer came asks again."""
    assert teacher.ask(AdvanceClock(2, 5_000), AdvanceClock(3, 5_000)) == [
        ClockAdvanced(2),
        ClockAdvanced(3),
    ]
    assert teacher.broker.clock.now_us() == 5_000


@pytest.mark.parametrize("to_us", [0, START_US - 1, LAST_US + 1, 2**63, 2**64 - 1])
def test_it_is_neither_set_back_nor_beyond_what_can_be_written_as_a_date(teacher, to_us):
    assert refusal(teacher, to_us) == (ErrorCode.INVALID_FIELD, "to_us")
    assert teacher.broker.clock.now_us() == START_US
    assert teacher.ask(AdvanceClock(3, LAST_US)) == [ClockAdvanced(3)]


def test_a_time_that_is_refused_is_called_a_time(teacher):
    """`to_us` is the field; a person reads what it means, and by how much it is wrong."""
    (error,) = teacher.ask(AdvanceClock(9, START_US - 1))
    assert error.message.startswith("time is ")
    assert error.message.endswith("; it must be now (it never goes back) to the year 9799")


def test_a_clock_that_moves_by_itself_is_left_alone():
    client = Conversation(Broker())
    assert refusal(client, LAST_US) == (ErrorCode.UNSUPPORTED, "type")
    assert client.ask(Ping(3)) == [Pong(3, 0)]


def test_a_broker_that_may_have_durable_topics_is_never_advanced():
    """DUR-8: what is expired on a disk is gone for good, and a start goes by what was accepted."""
    assert refusal(Conversation(durable_broker(FakeLogs())), LAST_US) == (
        ErrorCode.UNSUPPORTED,
        "type",
    )


@pytest.mark.parametrize(
    ("right", "may"), [("delete", True), ("describe", False), ("publish", False)]
)
def test_where_there_are_users_it_takes_the_right_to_delete_the_broker(right, may):
    """ACC-2."""
    broker = broker_with()
    (reply,) = Talk(broker, Somebody("ana", (right, BROKER))).ask(AdvanceClock(2, 5_000))
    assert (reply == ClockAdvanced(2)) is may
    assert may or reply.code == ErrorCode.FORBIDDEN
    assert broker.clock.now_us() == (5_000 if may else START_US)


def test_a_restricted_connection_is_for_making_room_only(teacher):
    """CLO-5."""
    teacher.manager.is_restricted = True
    assert refusal(teacher, 5_000)[0] == ErrorCode.TOO_MANY_CONNECTIONS
