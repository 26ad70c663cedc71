"""Where to go on: the last committed record, read backwards."""

import threading

import pytest
from confluent_kafka import KafkaError
from fake_kafka import FakeKafka, Transaction, refusal

from zaichik.apps.replication import position as module
from zaichik.apps.replication import record
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.gaps import Gaps
from zaichik.apps.replication.position import CommittedEnd, Position
from zaichik.apps.replication.servers import Waiting


@pytest.fixture
def kafka():
    return FakeKafka()


def committed_end(kafka, accepted=()):
    waiting = Waiting(threading.Event(), patience=0)
    return CommittedEnd(kafka, "orders", waiting, frozenset(accepted))


def write(kafka, offsets, state="committed", *more):
    transaction = Transaction()
    for offset in offsets:
        fields = [record.epoch_field(5), record.offset_field(offset), record.time_field(9)]
        kafka.append(transaction, b"x", None, 0, [*fields, *more])
    if state != "open":
        kafka.end(transaction, state)


def test_nothing_is_there(kafka):
    assert committed_end(kafka).position() is None


def test_the_last_committed_record(kafka):
    write(kafka, [0, 1])
    write(kafka, [2, 3])
    write(kafka, [4], "aborted")
    assert committed_end(kafka).position() == Position(5, 4, 9, Gaps())


@pytest.mark.parametrize("ends", [10, 63, 64, 65, 3000])
def test_it_is_looked_for_further_back_behind_what_was_never_committed(kafka, ends):
    write(kafka, range(8))
    for _ in range(ends):
        write(kafka, [], "aborted")
    assert committed_end(kafka).position().next == 8


def test_all_of_a_topic_may_be_without_a_committed_record(kafka):
    for _ in range(100):
        write(kafka, [0], "aborted")
    assert committed_end(kafka).position() is None


def test_after_a_gap_comes_its_end(kafka):
    gaps = Gaps(((0, 9),))
    write(kafka, [0], "committed", record.gap_field(9), record.gaps_field(gaps))
    assert committed_end(kafka).position() == Position(5, 9, 9, gaps)


@pytest.mark.parametrize("accepted", ["retention.ms", "retention.bytes", "position"])
def test_a_beginning_that_is_gone_is_refused_and_can_be_put_up_with(kafka, accepted):
    """As if the topic was deleted and made again while nobody looked."""
    write(kafka, [2, 3])
    with pytest.raises(CannotReplicate, match=r"begins with offset 2: .*--accept position"):
        committed_end(kafka).position()
    assert committed_end(kafka, [accepted]).position().next == 4


def test_records_of_others_are_refused_and_can_be_put_up_with(kafka):
    write(kafka, [0, 1])
    other = Transaction()
    kafka.append(other, b"mine", None, 0, None)
    kafka.end(other, "committed")
    with pytest.raises(CannotReplicate, match=r"the one at 3: it has no header.*--accept records"):
        committed_end(kafka).position()
    assert committed_end(kafka, ["records"]).position().next == 2


def test_a_transaction_of_others_is_waited_for(kafka, caplog, monkeypatch):
    """Behind its first record, nothing can be read: not even where to go on."""
    monkeypatch.setattr(module, "OTHERS_SECONDS", 0)
    write(kafka, [0])
    other = Transaction()
    kafka.append(other, b"mine", None, 0, None)
    write(kafka, [1])
    assert committed_end(kafka).position().next == 1
    left = 3

    def before(name):
        nonlocal left
        if name == "offsets":
            left -= 1
            if not left:
                other.state = "aborted"

    kafka.before = before
    committed_end(kafka).wait_for_others()
    assert committed_end(kafka).position().next == 2
    assert "another program has a transaction open in orders" in caplog.text


def test_the_consumer_is_closed_whatever_happens(kafka):
    def before(name):
        if name == "consume":
            raise refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    write(kafka, [0])
    kafka.before = before
    with pytest.raises(CannotReplicate, match="does not let its topic orders be read"):
        committed_end(kafka).position()
    assert kafka.calls[-1] == "close"
