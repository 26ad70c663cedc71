"""What was read at once, as records: nothing twice, and no hole that nobody has told of."""

import pytest

from zaichik import Lagged
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.gaps import Gaps
from zaichik.apps.replication.position import Position
from zaichik.apps.replication.record import header_of
from zaichik.apps.replication.round import Round
from zaichik_protocol import Batch, Messages

US = 1_700_000_000_123_456
BEFORE = Position(5, 10, US, Gaps())


def messages(base, count):
    batch = Batch.of([(b"", b"%d" % number) for number in range(base, base + count)])
    return Messages(id=1, base=base, accepted_us=US + base, batch=batch, redelivered=False)


def written(part):
    found = []

    def produce(_topic, value, key, _partition, _callback, _delivered, at, headers):
        found.append((value, key, at, header_of(headers)))

    part.write(produce)
    return found


def test_what_kafka_has_is_left_out():
    part = Round([messages(7, 5), messages(12, 1)], "orders", BEFORE, None)
    assert [value for value, *_ in written(part)] == [b"10", b"11", b"12"]
    assert (part.after.next, part.after.accepted_us) == (13, US + 12)


def test_nothing_new_is_nothing_to_write():
    part = Round([messages(7, 3), Lagged("orders", 2, 10)], "orders", BEFORE, None)
    assert part.after is BEFORE
    assert written(part) == []


def test_a_gap_has_the_time_of_the_message_before():
    part = Round([messages(10, 1), Lagged("orders", 11, 20)], "orders", BEFORE, {"a": 1})
    (*_, message), (value, key, at, gap) = written(part)
    assert (value, key, at) == (b"", None, (US + 10) // 1000)
    assert (gap.offset, gap.end, gap.accepted_us) == (11, 20, US + 10)
    assert part.gaps == [(11, 20)]
    assert (bool(message.settings), bool(gap.settings)) == (True, False)
    assert (bool(message.gaps), bool(gap.gaps)) == (False, True)


def test_it_is_the_same_when_it_is_written_again():
    part = Round([Lagged("orders", 4, 12), messages(12, 3)], "orders", BEFORE, {"a": 1})
    assert written(part) == written(part)
    assert part.gaps == [(10, 12)]


@pytest.mark.parametrize("item", [messages(11, 1), Lagged("orders", 11, 12)])
def test_a_hole_that_nobody_has_told_of_is_refused(item):
    with pytest.raises(CannotReplicate, match="sent offset 11 where 10 comes next"):
        Round([item], "orders", BEFORE, None)
