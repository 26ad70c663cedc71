"""One topic: retention, compaction, create again, where a reader begins."""

import pytest
from conversation import batch

from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.reader import Reader
from zaichik.core.settings import TopicSettings
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER, ErrorCode, Published, Refused, Start, Subscribe


def woken(_):
    pytest.fail("woken")


def reader_of(topic, cursor=0):
    """A reader that stands at that offset, and must not be woken."""
    position = ExclusivePosition(0)
    reader = Reader(Subscribe(1, "t"), topic, position, woken, "a test", 1)
    position.reader = reader
    reader.cursor = cursor
    return reader


def topic_with(*, explicit=True, **settings):
    return TopicController("t", TopicSettings(**settings), 1, explicit=explicit)


def publish(topic, *messages, at=0):
    return topic.publish(batch(*messages), at)


def readable(topic):
    return range(topic.retained.ring.head, topic.retained.ring.next_offset)


# -- publish -------------------------------------------------------------------------------------


def test_without_compaction_everything_is_stored():
    topic = topic_with()
    assert publish(topic, (b"k", b"1"), (b"k", b"2")) == Published(0, 0, 2, 0, 0, b"")
    assert publish(topic, b"3") == Published(0, 2, 1, 0, 0, b"")
    assert (topic.published, topic.compacted) == (3, 0)


def test_the_publisher_is_told_which_messages_were_dropped():
    """COM-2: dropped messages take no offset; the lowest bit of each byte is the first message."""
    topic = topic_with(compaction_window_ms=1)
    pairs = [
        (b"k", b"0"),
        (b"k", b"1"),
        (b"", b"2"),
        (b"l", b"3"),
        (b"k", b"4"),
        *[(b"", b"x")] * 3,
        (b"l", b"8"),
    ]
    assert publish(topic, *pairs) == Published(0, 0, 6, 3, 0, bytes([0b0001_0010, 0b1]))
    assert topic.retained.ring.entry(0).batch.payloads() == [b"0", b"2", b"3", b"x", b"x", b"x"]
    assert (topic.published, topic.compacted) == (9, 3)


def test_a_batch_of_which_nothing_is_stored_names_the_next_offset():
    """COM-2."""
    topic = topic_with(compaction_window_ms=1)
    publish(topic, (b"k", b"1"), b"2")
    assert publish(topic, (b"k", b"3"), at=999) == Published(0, 2, 0, 1, 0, b"\x01")
    assert publish(topic, (b"k", b"4"), at=1000) == Published(0, 2, 1, 0, 0, b"")


def test_an_endless_window_lets_a_key_in_once():
    """COM-1."""
    topic = topic_with(compaction_window_ms=FOREVER)
    assert publish(topic, (b"k", b"")).stored == 1
    assert publish(topic, (b"k", b""), at=2**60).stored == 0


def test_a_window_outlives_its_evicted_first_message():
    """COM-6: a window does not depend on the ring."""
    topic = topic_with(compaction_window_ms=10, retention_ttl_ms=1, capacity=1)
    publish(topic, (b"k", b"1"))
    publish(topic, b"2")
    topic.sweep(1_000)
    assert len(readable(topic)) == 0
    assert publish(topic, (b"k", b"3"), at=9_999).stored == 0
    assert publish(topic, (b"k", b"4"), at=10_000).stored == 1


@pytest.mark.parametrize(("count", "fits"), [(2, True), (3, True), (4, False)])
def test_a_batch_may_fill_the_capacity_and_not_exceed_it(count, fits):
    """RET-6."""
    topic = topic_with(capacity=3)
    assert_stored(topic, batch(*[b""] * count), fits)


@pytest.mark.parametrize(("size", "fits"), [(-1, True), (0, True), (1, False)])
def test_a_batch_may_fill_the_bytes_and_not_exceed_them(size, fits):
    """RET-6."""
    limit = len(batch(b"p" * 100).data)
    topic = topic_with(max_bytes=limit)
    assert_stored(topic, batch(b"p" * (100 + size)), fits)


def test_a_batch_that_no_ring_of_one_can_hold_is_refused_in_good_english():
    """RET-6."""
    topic = topic_with(capacity=1)
    with pytest.raises(Refused, match=r"a batch of 2 messages and .* holds \(1 message, "):
        topic.publish(batch(b"a", b"b"), 0)


def assert_stored(topic, messages, fits):
    if fits:
        assert topic.publish(messages, 0).stored == messages.count
        assert topic.retained.ring.next_offset == messages.count
    else:
        with pytest.raises(Refused, match="Send smaller batches") as error:
            topic.publish(messages, 0)
        assert (error.value.code, error.value.field) == (ErrorCode.BATCH_TOO_LARGE, "batch")
        assert (topic.retained.ring.next_offset, topic.published) == (0, 0)


def test_a_batch_too_large_for_its_ring_opens_no_window():
    """PUB-2: all or nothing."""
    topic = topic_with(capacity=1, compaction_window_ms=10)
    with pytest.raises(Refused):
        publish(topic, (b"k", b""), (b"l", b""))
    assert publish(topic, (b"k", b"")).stored == 1


# -- retention -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "count"), [(5, 1), (1_004, 1), (1_005, 0), (1_006, 0)])
def test_a_message_is_readable_until_just_before_its_retention_ends(now, count):
    """RET-1: accepted <= now < accepted + ttl."""
    topic = topic_with(retention_ttl_ms=1)
    publish(topic, b"", at=5)
    topic.expire(now)
    assert len(readable(topic)) == count
    assert topic.retained.ring.expired == 1 - count


def test_forever_is_until_the_ring_evicts():
    """RET-1."""
    topic = topic_with(retention_ttl_ms=FOREVER, capacity=2)
    publish(topic, b"")
    topic.sweep(2**62)
    assert len(readable(topic)) == 1
    publish(topic, b"", b"", at=2**62)
    assert (topic.retained.ring.expired, topic.retained.ring.evicted) == (0, 1)


def test_expired_messages_are_not_counted_as_evicted():
    """RET-6: expired messages go first, as expired."""
    topic = topic_with(retention_ttl_ms=1, capacity=2)
    publish(topic, b"", b"")
    publish(topic, b"", at=1_000)
    assert (topic.retained.ring.expired, topic.retained.ring.evicted) == (2, 0)


def test_without_retention_the_sweep_frees_messages_below_every_cursor():
    """RET-1."""
    topic = topic_with()
    readers = [reader_of(topic, 3), reader_of(topic, 1)]
    publish(topic, b"0", b"1", b"2", b"3")
    for reader in readers:
        topic.attach(reader)
    topic.sweep(0)
    assert readable(topic) == range(1, 4)
    readers[1].cursor = 4
    topic.sweep(0)
    assert readable(topic) == range(3, 4)
    topic.detach(readers[0])
    topic.sweep(0)
    assert readable(topic) == range(4, 4)
    assert topic.retained.ring.expired == 4


def test_without_retention_and_readers_the_sweep_frees_everything_and_nothing_before_it():
    """RET-1."""
    topic = topic_with()
    publish(topic, b"", at=0)
    topic.expire(2**62)
    assert len(readable(topic)) == 1
    topic.sweep(0)
    assert len(readable(topic)) == 0


def test_the_sweep_closes_windows():
    """COM-6."""
    topic = topic_with(compaction_window_ms=1)
    publish(topic, (b"k", b""))
    topic.sweep(999)
    assert len(topic.window) == 1
    topic.sweep(1_000)
    assert len(topic.window) == 0


# -- create again --------------------------------------------------------------------------------


def test_creating_again_with_equal_settings_succeeds():
    """TOP-2: those not named are not compared."""
    topic = topic_with(capacity=5, retention_ttl_ms=9)
    topic.create_again(())
    topic.create_again(((3, 5),))
    assert topic.settings == TopicSettings(capacity=5, retention_ttl_ms=9)


def test_creating_again_with_other_settings_reports_the_difference():
    """TOP-2."""
    topic = topic_with(capacity=5, retention_ttl_ms=FOREVER, max_keys=3)
    with pytest.raises(Refused) as error:
        topic.create_again(((3, 6), (1, 0), (5, 3)))
    assert (error.value.code, error.value.field) == (ErrorCode.TOPIC_EXISTS, "settings")
    assert (
        "retention_ttl is forever, asked for 0ms, capacity is 5, asked for 6."
        in error.value.message
    )
    assert "max_keys" not in error.value.message
    assert topic.settings.capacity == 5


def test_an_automatic_topic_takes_the_settings_of_its_first_create():
    """TOP-3: while nothing has been stored in it."""
    topic = topic_with(explicit=False)
    topic.create_again(((2, 7), (3, 2), (4, 500)))
    assert topic.explicit
    assert (topic.retained.ring.capacity, topic.retained.ring.max_bytes) == (2, 500)
    assert topic.window is not None
    with pytest.raises(Refused):
        topic.create_again(((3, 3),))


def test_an_automatic_topic_in_use_is_as_it_is():
    """TOP-3."""
    topic = topic_with(explicit=False)
    publish(topic, b"")
    with pytest.raises(Refused) as error:
        topic.create_again(((3, 2),))
    assert error.value.code == ErrorCode.TOPIC_EXISTS
    topic.create_again(((3, 10_000),))


def test_bad_settings_change_nothing():
    topic = topic_with(explicit=False)
    with pytest.raises(Refused):
        topic.create_again(((3, 2), (3, 2)))
    assert not topic.explicit


# -- where a reader begins -----------------------------------------------------------------------


def test_where_a_reader_begins_with_retention():
    """RET-4."""
    topic = topic_with(retention_ttl_ms=1, capacity=4)
    publish(topic, b"", b"", at=0)
    publish(topic, b"", b"", b"", at=500)
    assert topic.position(Start.EARLIEST, 0, 500) == 1
    assert topic.position(Start.LATEST, 0, 500) == 5
    assert topic.position(Start.TIME, 1, 500) == 2
    assert topic.position(Start.EARLIEST, 0, 1_000) == 2  # the first batch expires just now


def test_without_retention_earliest_is_latest():
    """RET-1: an offset or a time reads whatever the ring still holds."""
    topic = topic_with()
    publish(topic, b"", b"", at=5)
    assert topic.position(Start.EARLIEST, 0, 5) == 2
    assert topic.position(Start.LATEST, 0, 5) == 2
    assert topic.position(Start.OFFSET, 0, 5) == 0
    assert topic.position(Start.TIME, 0, 5) == 0


@pytest.mark.parametrize("value", [0, 1, 2])
def test_an_offset_up_to_the_end_is_a_start(value):
    """RET-4: also one below the head."""
    topic = topic_with(capacity=1)
    publish(topic, b"")
    publish(topic, b"")
    assert topic.position(Start.OFFSET, value, 0) == value


@pytest.mark.parametrize("value", [3, FOREVER])
def test_an_offset_beyond_the_end_is_ahead(value):
    """RET-4."""
    topic = topic_with()
    publish(topic, b"", b"")
    with pytest.raises(Refused) as error:
        topic.position(Start.OFFSET, value, 0)
    assert (error.value.code, error.value.field) == (ErrorCode.OFFSET_AHEAD, "value")


def test_an_unknown_start_is_refused():
    with pytest.raises(Refused) as error:
        topic_with().position(4, 0, 0)
    assert (error.value.code, error.value.field) == (ErrorCode.INVALID_FIELD, "start")


def test_a_reader_can_be_counted_out_twice():
    """CLO-3."""
    topic = topic_with()
    reader = reader_of(topic)
    topic.attach(reader)
    topic.retained.wait(reader, reader.make_ready)
    topic.detach(reader)
    topic.detach(reader)
    publish(topic, b"")
    assert not topic.readers
