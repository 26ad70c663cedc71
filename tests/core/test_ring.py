"""The ring: its bounds, its counts, its waiters."""

import gc
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.ring import BroadcastRing
from zaichik_protocol import Batch


def batch(count=1, size=0):
    return Batch.of([(b"", b"p" * size)] * count)


def ring_of(*counts, capacity=100, max_bytes=10**9):
    """A ring with batches of these many messages, accepted at 10, 20, 30 and so on."""
    ring = BroadcastRing(capacity, max_bytes)
    for number, count in enumerate(counts, start=1):
        ring.append(batch(count), 10 * number)
    return ring


def state(ring):
    return ring.head, ring.next_offset, ring.expired, ring.evicted


def test_offsets_are_dense_and_a_batch_has_consecutive_ones():
    """PUB-2."""
    ring = BroadcastRing(100, 10**9)
    for count in (3, 1, 2):
        ring.append(batch(count), 0)
    assert [ring.entry(offset).base for offset in range(6)] == [0, 0, 0, 3, 4, 4]
    assert state(ring) == (0, 6, 0, 0)


@pytest.mark.parametrize(("stored", "evicted"), [(9, 0), (10, 0), (11, 1)])
def test_capacity_is_exact_one_below_at_and_above(stored, evicted):
    """RET-6."""
    ring = ring_of(*[1] * stored, capacity=10)
    assert state(ring) == (evicted, stored, 0, evicted)


def test_capacity_is_exact_even_when_batches_do_not_fit_evenly():
    """RET-6: the head may stand inside a batch."""
    ring = ring_of(4, 4, 4, capacity=10)
    assert state(ring) == (2, 12, 0, 2)
    assert ring.entry(2).base == 0
    assert ring.entry(3).base == 0
    assert ring.entry(4).base == 4
    ring.append(batch(10), 40)
    assert state(ring) == (12, 22, 0, 12)
    assert ring.bytes == len(batch(10).data)


def test_a_batchs_bytes_are_freed_with_its_last_message():
    """RET-6."""
    ring = ring_of(4, 4, capacity=5)
    assert (ring.head, ring.bytes) == (3, 2 * len(batch(4).data))
    ring.append(batch(1), 30)
    assert (ring.head, ring.bytes) == (4, len(batch(4).data) + len(batch(1).data))


@pytest.mark.parametrize(("room", "evicted"), [(1, 0), (0, 0), (-1, 2)])
def test_bytes_are_bounded_by_whole_batches(room, evicted):
    """RET-6: with a byte to spare, with none, and with one too few."""
    size = len(batch(2, 50).data)
    ring = BroadcastRing(100, 3 * size + room)
    for _ in range(3):
        ring.append(batch(2, 50), 0)
    assert state(ring) == (evicted, 6, 0, evicted)
    assert ring.bytes <= ring.max_bytes


def test_expiry_takes_whole_batches_up_to_and_including_the_limit():
    """RET-7."""
    ring = ring_of(2, 2, 2)
    ring.expire_accepted_until(9)
    assert state(ring) == (0, 6, 0, 0)
    ring.expire_accepted_until(10)
    assert state(ring) == (2, 6, 2, 0)
    ring.expire_accepted_until(29)
    assert state(ring) == (4, 6, 4, 0)
    ring.expire_accepted_until(1000)
    assert state(ring) == (6, 6, 6, 0)
    assert ring.bytes == 0


def test_the_rest_of_a_batch_expires_with_it():
    ring = ring_of(4, 4, capacity=5)
    assert state(ring) == (3, 8, 0, 3)
    ring.expire_accepted_until(10)
    assert state(ring) == (4, 8, 1, 3)


def test_expiring_below_an_offset_never_moves_the_head_back():
    ring = ring_of(4, 4)
    ring.expire_below(5)
    assert state(ring) == (5, 8, 5, 0)
    ring.expire_below(3)
    ring.expire_below(5)
    assert state(ring) == (5, 8, 5, 0)


def test_every_readable_offset_finds_its_entry_whatever_was_dropped():
    ring = BroadcastRing(50, 10**9)
    for number in range(300):
        ring.append(batch(1 + number % 7), number)
        if number % 11 == 0:
            ring.expire_accepted_until(number - 5)
        for offset in range(ring.head, ring.next_offset):
            entry = ring.entry(offset)
            assert entry.base <= offset < entry.base + entry.batch.count
        assert ring.expired + ring.evicted == ring.head


def test_dead_entries_do_not_pile_up():
    """P6: the lists hold at most as many dead entries as live ones."""
    ring = BroadcastRing(10, 10**9)
    for _ in range(1000):
        ring.append(batch(), 0)
        assert len(ring._batches) == len(ring._accepted_us) == len(ring._bases) - 1 <= 20


def test_a_time_finds_the_first_message_accepted_then_or_later():
    """RET-4."""
    ring = ring_of(2, 2, 2)
    found = {time: ring.first_accepted_since(time) for time in (0, 10, 11, 20, 30, 31, 2**64 - 1)}
    assert found == {0: 0, 10: 0, 11: 2, 20: 2, 30: 4, 31: 6, 2**64 - 1: 6}


def test_a_time_does_not_find_dropped_messages():
    """RET-4: neither whole batches nor the gone part of one."""
    ring = ring_of(4, 4, 4, capacity=5)
    assert ring.head == 7
    assert [ring.first_accepted_since(time) for time in (0, 10, 20, 21)] == [7, 7, 7, 8]


def test_the_first_of_several_batches_with_the_same_time_is_found():
    ring = BroadcastRing(100, 10**9)
    for time in (5, 5, 5, 6):
        ring.append(batch(), time)
    assert ring.first_accepted_since(5) == 0
    assert ring.first_accepted_since(6) == 3


def test_an_empty_ring_starts_at_its_next_offset():
    assert BroadcastRing(5, 100).first_accepted_since(0) == 0
    ring = ring_of(3)
    ring.expire_below(3)
    assert ring.first_accepted_since(0) == 3


def test_a_waiter_is_woken_once_in_order_after_the_batch_is_readable():
    """PUB-1."""
    ring = ring_of(1)
    woken = []
    for name in "abc":
        ring.wait(name, lambda name=name: woken.append((name, ring.next_offset)))
    ring.append(batch(2), 20)
    ring.append(batch(2), 20)
    assert woken == [("a", 3), ("b", 3), ("c", 3)]


def test_a_waiter_may_wait_again_while_it_is_woken():
    ring = ring_of()
    woken = []

    def wake():
        woken.append(ring.next_offset)
        ring.wait("a", wake)

    ring.wait("a", wake)
    ring.append(batch(), 1)
    ring.append(batch(), 1)
    assert woken == [1, 2]


def test_a_waiter_that_stopped_waiting_is_not_woken():
    ring = ring_of()
    ring.wait("a", lambda: pytest.fail("woken"))
    ring.stop_waiting("a")
    ring.stop_waiting("never waited")
    ring.append(batch(), 1)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40), st.integers(0, 9)), max_size=60),
    st.integers(5, 12),
    st.integers(400, 900),
)
def test_head_after_predicts_the_head(appends, capacity, max_bytes):
    """RET-9: otherwise a topic that may lose nothing would lose something, or refuse without a
    reason.
    """
    ring = BroadcastRing(capacity, max_bytes)
    for count, size, expired in appends:
        expected = ring.head_after(batch(count, size))
        ring.append(batch(count, size), 0)
        assert ring.head == expected
        ring.expire_below(min(ring.next_offset, ring.head + expired // 7))


def test_what_a_ring_stores_is_no_work_for_the_garbage_collector():
    """It visits every object that can refer to others: with a full ring, that took a tenth of a
    second.
    """
    ring = BroadcastRing(10_000, 10**9)
    gc.collect()
    before = len(gc.get_objects())
    for number in range(5_000):
        ring.append(batch(), number)
    gc.collect()
    assert len(gc.get_objects()) - before < 10


def test_a_dead_entry_is_not_held_because_it_was_the_last_one_read():
    """P4."""
    ring = ring_of(1, 1)
    data = ring.entry(0).batch.data
    held = sys.getrefcount(data)
    ring.expire_below(1)
    assert sys.getrefcount(data) == held - 2  # the ring's, and that of its entry


def test_each_message_has_the_time_of_its_batch():
    ring = ring_of(3, 1, 2, capacity=4)
    assert [ring.accepted_us(offset) for offset in range(8)] == [
        None,
        None,
        10,
        20,
        30,
        30,
        None,
        None,
    ]
    assert ring_of().accepted_us(0) is None
    assert ring_of().accepted_us(-1) is None


def test_marks_are_spread_evenly_and_the_oldest_and_the_newest_batch_are_among_them():
    ring = ring_of(*[2] * 100, capacity=1_000)
    ring.expire_below(21)  # the first batch that is left is left in part
    every = [(21, 110), *((2 * batch, 10 * (batch + 1)) for batch in range(11, 100))]
    assert ring.marks(1_000) == ring.marks(90) == every
    for most in (2, 3, 17, 89):
        some = ring.marks(most)
        assert len(some) == most
        assert (some[0], some[-1]) == (every[0], every[-1])
        steps = [every.index(later) - every.index(mark) for mark, later in pairwise(some)]
        assert max(steps) - min(steps) <= 1
    assert ring.marks(1) == every[:1]


def test_an_empty_ring_has_no_marks():
    ring = ring_of(1, 1)
    ring.expire_below(2)
    assert ring.marks(9) == ring_of().marks(9) == []
