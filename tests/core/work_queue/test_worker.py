"""A hand is what all workers of a connection have; a worker's credit is its own (SHR-6)."""

from queues import Bench

from zaichik.core.work_queue.worker import Hand


def test_all_names_of_a_connection_have_one_hand():
    hand = Hand()
    first, second = Bench(end=5), Bench(end=5)
    one, two = first.worker(hand, credit=2), second.worker(hand)
    first.take(one)
    second.take(two)
    assert hand.size == 3
    second.settle(two)
    assert hand.size == 2


def test_a_hand_with_a_suspect_takes_nothing_more():
    hand = Hand()
    worker = Bench().worker(hand)
    hand.add(1, 1)
    assert not hand.takes_more(worker)
    hand.remove(was_suspect=True)
    assert hand.takes_more(worker)


def test_a_hand_that_drains_is_for_one_worker_when_it_is_empty():
    hand = Hand()
    bench = Bench()
    one, two = bench.worker(hand), bench.worker(hand)
    hand.add(1, 0)
    hand.drain(one)
    assert not hand.takes_more(one)
    assert not hand.takes_more(two)
    hand.remove(was_suspect=False)
    assert hand.takes_more(one)
    assert not hand.takes_more(two)


def test_a_hand_that_may_never_be_empty_does_not_drain():
    hand = Hand()
    assert hand.can_drain
    hand.add_overdue()
    assert not hand.can_drain
    hand.remove_overdue()
    assert hand.can_drain


def test_it_is_known_whether_a_lost_hand_had_one_message():
    hand = Hand()
    hand.add(2, 0)
    hand.lose()
    hand.remove(was_suspect=False)
    # The next worker of the same connection.
    hand.lose()
    assert not hand.was_alone


def test_one_message_of_any_size_may_go():
    """CMT-1."""
    bench = Bench(end=5)
    worker = bench.worker(credit=5, credit_bytes=2)
    assert worker.has_credit
    bench.take(worker)
    assert not worker.has_credit
