"""What is remembered of idempotent producers."""

import pytest

from zaichik.apps.kafka import producers as producers_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.compression import BadBatch
from zaichik.apps.kafka.producers import REMEMBERED, SEQUENCES, Producer, Producers, Remembered
from zaichik.apps.kafka.records import Produced


def produced(sequence: int, count: int = 1, epoch: int = 0) -> Produced:
    return Produced(7, epoch, sequence, count * [(None, b"1")], 0)


def store(producer: Producer, batch: Produced, offset: int) -> None:
    assert producer.answer_of(batch) is None
    count = len(batch.rows)
    producer.store_done(batch, Remembered(batch.sequence, count, offset, offset + count))


def refused(producer: Producer, batch: Produced) -> Code:
    with pytest.raises(BadBatch) as caught:
        producer.answer_of(batch)
    return caught.value.code


def test_a_repeat_of_one_of_the_last_five_gets_its_first_answer():
    producer = Producer()
    for number in range(REMEMBERED):
        store(producer, produced(2 * number, 2), 100 + number)
    assert [
        producer.answer_of(produced(2 * number, 2)).first_offset for number in range(REMEMBERED)
    ] == [100, 101, 102, 103, 104]


def test_an_older_repeat_is_out_of_order():
    producer = Producer()
    for number in range(REMEMBERED + 1):
        store(producer, produced(number), number)
    assert refused(producer, produced(0)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.answer_of(produced(1)).first_offset == 1


def test_a_gap_is_out_of_order():
    producer = Producer()
    store(producer, produced(0, 3), 0)
    assert refused(producer, produced(4)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(producer, produced(2)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.answer_of(produced(3)) is None


def test_a_producer_that_is_not_known_may_begin_anywhere():
    """Its former batches were forgotten with the gateway that had stored them."""
    assert Producer().answer_of(produced(1000)) is None


def test_a_batch_that_has_failed_is_the_next_one_all_the_same():
    producer = Producer()
    producer.store_failed(produced(3))
    assert refused(producer, produced(4)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    store(producer, produced(3), 0)
    store(producer, produced(4), 1)
    producer.store_failed(produced(0, epoch=1))
    assert refused(producer, produced(5)) is Code.INVALID_PRODUCER_EPOCH
    store(producer, produced(0, epoch=1), 2)


def test_after_the_last_number_comes_zero():
    producer = Producer()
    store(producer, produced(SEQUENCES - 1), 0)
    store(producer, produced(0), 1)
    other = Producer()
    store(other, produced(SEQUENCES - 2, 5), 0)
    store(other, produced(3), 5)


def test_a_newer_epoch_begins_at_zero_and_ends_the_older_one():
    producer = Producer()
    store(producer, produced(0, 4), 0)
    assert refused(producer, produced(4, epoch=1)) is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    store(producer, produced(0, epoch=1), 4)
    assert refused(producer, produced(0, 4)) is Code.INVALID_PRODUCER_EPOCH
    assert refused(producer, produced(4)) is Code.INVALID_PRODUCER_EPOCH
    assert producer.answer_of(produced(0, epoch=1)).first_offset == 4


def test_a_batch_stored_in_part_is_known_until_it_is_stored_as_a_whole():
    producer = Producer()
    batch = produced(0, 10)
    producer.store_begun(batch, 4, 50)
    assert producer.answer_of(batch) is None
    begun = producer.stored_of(batch)
    assert (begun.count, begun.first_offset) == (4, 50)
    assert producer.stored_of(produced(10)) is None
    assert producer.stored_of(produced(0, 10, epoch=1)) is None
    producer.store_done(batch, Remembered(0, 10, 50, 60))
    assert producer.stored_of(batch) is None
    assert producer.answer_of(batch).first_offset == 50


def test_each_user_and_topic_has_its_own():
    known = Producers()
    one = known.of("ana", 7, "a")
    assert known.of("ana", 7, "a") is one
    others = [known.of("bob", 7, "a"), known.of("ana", 8, "a"), known.of("ana", 7, "b")]
    assert one not in others


def test_a_deleted_topic_is_forgotten():
    known = Producers()
    one, other = known.of("", 7, "a"), known.of("", 7, "b")
    known.forget_topic("a")
    assert known.of("", 7, "a") is not one
    assert known.of("", 7, "b") is other


@pytest.mark.anyio
async def test_the_one_used_least_lately_is_forgotten_unless_it_is_storing(monkeypatch):
    monkeypatch.setattr(producers_module, "MAX_PRODUCERS", 3)
    known = Producers()
    first, second, third = (known.of("", number, "a") for number in range(3))
    assert known.of("", 1, "a") is second
    async with first.lock:
        known.of("", 3, "a")
        assert known.of("", 0, "a") is first
    assert known.of("", 1, "a") is second
    assert known.of("", 2, "a") is not third
