"""A shared name, rule by rule: who gets what, and what becomes of it (SHR)."""

import pytest
from queues import SECOND, Bench

from zaichik.core.work_queue.holdup import Holdup, holdup
from zaichik.core.work_queue.retries import GIVEN_BACK
from zaichik.core.work_queue.work_queue import LOST, MESSAGE_BYTES, OVERDUE_BYTES, TIMED_OUT
from zaichik.core.work_queue.worker import Hand
from zaichik_protocol import ErrorCode, Outcome, Refused

# -- SHR-1: what the workers of a name agree in --------------------------------------------------


def test_later_workers_agree_with_the_first():
    bench = Bench(max_deliveries=3)
    bench.worker()
    bench.queue.agree(3, by_key=False)
    for wanted, field in (((4, False), "max_deliveries"), ((3, True), "by_key")):
        with pytest.raises(Refused) as refused:
            bench.queue.check_agreed(wanted[0], by_key=wanted[1])
        assert (refused.value.code, refused.value.field) == (ErrorCode.INVALID_FIELD, field)


def test_while_nobody_reads_the_next_worker_decides():
    bench = Bench(end=1, max_deliveries=3)
    worker = bench.worker()
    bench.take(worker)
    bench.queue.leave(worker, bench.now)
    bench.queue.agree(4, by_key=False)
    assert bench.queue.settings.max_deliveries == 4
    # A message is open: two of its key may be.
    with pytest.raises(Refused):
        bench.queue.check_agreed(4, by_key=True)


def test_the_order_may_change_if_nothing_is_open():
    bench = Bench(max_deliveries=3)
    bench.queue.agree(3, by_key=True)
    assert bench.queue.settings.by_key


# -- SHR-2: one worker at a time, in turns, within bounds ----------------------------------------


def test_each_message_goes_to_one_worker():
    bench = Bench(end=4)
    one, two = bench.worker(credit=2), bench.worker(credit=9)
    assert bench.take_all(one) == [0, 1]
    assert bench.take_all(two) == [2, 3]


def test_the_worker_that_waits_longest_is_called():
    bench = Bench()
    one, two, three = bench.worker(), bench.worker(), bench.worker()
    for worker in (two, one, three):
        bench.take(worker)
    bench.calls.clear()
    bench.publish()
    assert bench.calls == {one: 1}
    bench.publish()
    assert bench.calls == {one: 1, two: 1}
    # The one that was not called cannot push in.
    assert bench.take(three) == []
    assert bench.take(two) == [0]
    assert bench.take(one) == [1]


def test_while_nobody_waits_nobody_need_be_told_of_messages():
    bench = Bench(end=1)
    worker = bench.worker()
    bench.take(worker)
    assert not bench.queue.is_waited_for
    bench.settle(worker)
    assert bench.take(worker) == []
    assert bench.queue.is_waited_for


def test_a_worker_that_settles_waits_behind_those_that_wait():
    bench = Bench(end=1)
    one, two = bench.worker(), bench.worker()
    bench.take(one)
    bench.take(two)
    bench.settle(one)
    bench.calls.clear()
    bench.publish()
    assert bench.calls == {two: 1}


def test_with_max_open_nothing_new_is_handed_out():
    bench = Bench(end=9, max_open=3)
    worker = bench.worker(credit=9)
    assert bench.take_all(worker) == [0, 1, 2]
    assert holdup(bench.queue) == Holdup.TOO_MANY_OPEN
    bench.settle(worker, 1)
    assert bench.take_all(worker) == [3]


def test_what_waits_for_its_time_has_a_bound_of_its_own():
    bench = Bench(end=99, max_open=2, max_deliveries=0)
    worker = bench.worker(credit=9)
    handed_out = 0
    while offsets := bench.take_all(worker):
        handed_out += len(offsets)
        bench.settle(worker, outcome=Outcome.RETRY, delay=600)
    assert handed_out == 20
    assert holdup(bench.queue) == Holdup.TOO_MANY_DELAYED
    # When all of it is due at once, it is more than max_open; nothing is forgotten.
    bench.seconds(600)
    assert len(bench.ready) == 20
    assert bench.queue.new == 0


def test_what_comes_again_goes_before_what_is_new_and_in_its_order():
    bench = Bench(end=9)
    worker = bench.worker(credit=3)
    bench.take_all(worker)
    bench.settle(worker, 2, outcome=Outcome.RELEASE)
    bench.settle(worker, 0, outcome=Outcome.RETRY, delay=0)
    assert bench.take_all(worker) == [2, 0]


def test_memory_is_what_is_open_however_much_is_done():
    """The heaps of the usual design grow with what was settled before its time."""
    bench = Bench(max_open=20)
    worker = bench.worker(credit=20)
    for _ in range(50):
        bench.publish(20)
        bench.take_all(worker)
        bench.settle(worker)
    queue = bench.queue
    assert queue.ledger.done == 1000
    assert (queue.ledger.open, len(worker.timeouts), queue.cost) == (0, 0, 0)
    assert not worker.timeouts._slots
    bench.publish(3)
    bench.take_all(worker)
    assert queue.cost == 3 * MESSAGE_BYTES


# -- SHR-3: tickets ------------------------------------------------------------------------------


def test_a_ticket_that_is_not_open_is_late_and_changes_nothing():
    bench = Bench(end=2)
    one, two = bench.worker(), bench.worker()
    bench.take(one)
    bench.take(two)
    (mine,), (theirs,) = one.held, two.held
    settle = bench.queue.settle
    assert settle(one, [mine, theirs, 5], Outcome.DONE, bench.now) == [theirs, 5]
    assert settle(one, [mine], Outcome.DONE, bench.now) == [mine]
    assert bench.queue.ledger.done == 1
    assert list(two.held) == [theirs]


def test_the_same_message_has_another_ticket_the_next_time():
    bench = Bench(end=1)
    worker = bench.worker()
    bench.take(worker)
    (old,) = worker.held
    bench.settle(worker, outcome=Outcome.RELEASE)
    bench.take(worker)
    assert bench.queue.settle(worker, [old], Outcome.DONE, bench.now) == [old]
    assert len(worker.held) == 1


def test_a_batch_has_tickets_that_follow_each_other():
    bench = Bench(end=3)
    worker = bench.worker(credit=3)
    delivery = bench.queue.hand_out_next(worker, [0, 1, 2], [1, 1, 1], bench.now)
    assert list(worker.held) == [delivery.ticket, delivery.ticket + 1, delivery.ticket + 2]
    assert (delivery.number, delivery.is_again) == (1, False)


def test_without_tickets_nothing_is_handed_out():
    bench = Bench(end=3)
    worker = bench.worker()
    bench.tickets.note_saved(bench.tickets.next - (1 << 20))
    assert bench.take(worker) == []
    assert holdup(bench.queue) == Holdup.TICKETS
    bench.tickets.note_saved(bench.tickets.next)
    bench.seconds()
    assert bench.take(worker) == [0]


def test_extending_what_is_late_changes_nothing():
    bench = Bench(end=1)
    worker = bench.worker(timeout=5)
    bench.take(worker)
    (ticket,) = worker.held
    bench.seconds(5)
    settle = bench.queue.settle
    assert settle(worker, [ticket], Outcome.EXTEND, bench.now, SECOND) == [ticket]
    assert not worker.has_credit


# -- SHR-4: time ---------------------------------------------------------------------------------


def test_what_times_out_comes_again_and_uses_credit_until_it_is_settled():
    bench = Bench(end=9)
    worker, other = bench.worker(timeout=5), bench.worker()
    bench.take(worker)
    bench.take(other)
    (ticket,) = worker.held
    bench.seconds(4)
    assert worker.held
    bench.seconds()
    assert not worker.held
    assert bench.take(worker) == []
    bench.settle(other)
    assert bench.take(other) == [0]
    # Late, and still of use.
    assert bench.queue.settle(worker, [ticket], Outcome.DONE, bench.now) == [ticket]
    assert bench.take(worker) == [2]


def test_a_stall_takes_no_work_away():
    bench = Bench(end=1)
    worker = bench.worker(timeout=5)
    bench.take(worker)
    bench.now += 1000 * SECOND
    bench.seconds(2)
    assert worker.held
    bench.seconds(2)
    assert not worker.held


def test_extending_gives_time_from_now_on():
    bench = Bench(end=1)
    worker = bench.worker(timeout=5)
    bench.take(worker)
    bench.seconds(4)
    bench.settle(worker, outcome=Outcome.EXTEND, delay=3)
    bench.seconds(2)
    assert worker.held
    bench.seconds()
    assert not worker.held


def test_without_a_time_out_a_message_may_take_for_ever():
    bench = Bench(end=1)
    worker = bench.worker(timeout=0)
    bench.take(worker)
    bench.settle(worker, outcome=Outcome.EXTEND, delay=1)
    bench.seconds(200)
    assert worker.held


def test_a_retry_waits_longer_each_time():
    """SHR-4b."""
    bench = Bench(end=1, max_deliveries=0)
    worker = bench.worker()
    waits = []
    for _ in range(4):
        bench.take(worker)
        bench.settle(worker, outcome=Outcome.RETRY)
        before = bench.now
        while not bench.ready:
            bench.seconds()
        waits.append((bench.now - before) // SECOND)
    assert waits == [1, 2, 4, 8]


def test_what_is_given_back_opened_waits_and_does_not_count_ten_times():
    """SHR-4b."""
    bench = Bench(end=1, max_deliveries=1)
    worker = bench.worker()
    for _ in range(9):
        bench.take(worker)
        bench.settle(worker, outcome=Outcome.GIVE_BACK)
        assert bench.ready == []
        bench.seconds(60)
        assert (bench.ready, bench.suspects) == ([0], [])
    bench.take(worker)
    bench.settle(worker, outcome=Outcome.GIVE_BACK)
    assert [each.reason for each in bench.dead] == [GIVEN_BACK]


def test_a_tenth_give_back_in_company_makes_suspect_and_does_not_count():
    bench = Bench(end=2, max_deliveries=1)
    worker = bench.worker(credit=2, timeout=0)
    for _ in range(10):
        bench.take_all(worker)
        bench.settle(worker, 0, outcome=Outcome.GIVE_BACK)
        bench.seconds(60)
    assert (bench.dead, bench.suspects) == ([], [0])


# -- SHR-4a: leaving -----------------------------------------------------------------------------


def test_who_leaves_releases():
    bench = Bench(end=2, max_deliveries=1)
    worker = bench.worker(credit=2)
    bench.take(worker)
    bench.queue.leave(worker, bench.now)
    assert (bench.ready, bench.suspects, bench.dead) == ([0, 1], [], [])


def test_a_blink_takes_nothing_away_but_what_never_arrived():
    bench = Bench(end=2, max_deliveries=1)
    worker = bench.worker(credit=2, owner=7)
    bench.take(worker)
    first, _ = worker.held
    bench.lose(worker)
    bench.seconds()
    back = bench.worker(credit=2, owner=7, attempt=2, tickets=[first])
    assert list(back.held) == [first]
    assert (bench.ready, bench.suspects) == ([1], [])


def test_a_worker_that_is_back_has_a_new_time_out():
    bench = Bench(end=1)
    worker = bench.worker(owner=7, timeout=5)
    bench.take(worker)
    tickets = list(worker.held)
    bench.seconds(4)
    bench.lose(worker)
    back = bench.worker(owner=7, attempt=2, tickets=tickets, timeout=5)
    bench.seconds(4)
    assert back.held
    bench.seconds()
    assert not back.held


def test_after_two_seconds_what_it_had_is_lost():
    bench = Bench(end=1)
    worker = bench.worker(owner=7)
    bench.take(worker)
    bench.lose(worker)
    assert holdup(bench.queue) == Holdup.NO_WORKER
    bench.seconds()
    assert bench.suspects == []
    bench.seconds()
    assert bench.suspects == [0]


def test_an_owner_takes_the_place_of_its_earlier_worker():
    """Its client knew of the loss before the broker did."""
    bench = Bench(end=1)
    old = bench.worker(owner=7)
    bench.take(old)
    tickets = list(old.held)
    new = bench.worker(owner=7, attempt=2, tickets=tickets)
    assert list(bench.queue.workers) == [new]
    assert list(new.held) == tickets
    with pytest.raises(Refused) as refused:
        bench.worker(owner=7, attempt=2)
    assert refused.value.code == ErrorCode.TAKEN_OVER


def test_what_it_names_and_is_not_open_uses_credit_until_it_is_settled():
    bench = Bench(end=1)
    worker = bench.worker(owner=7, tickets=[5])
    assert bench.take(worker) == []
    assert bench.queue.settle(worker, [5], Outcome.DONE, bench.now) == [5]
    assert bench.take(worker) == [0]


def test_it_cannot_name_more_than_its_credit():
    """A client may name whatever it likes."""
    bench = Bench(end=1)
    worker = bench.worker(owner=7, credit=2, tickets=range(1000))
    assert worker.in_flight == 2


def test_who_leaves_takes_what_timed_out_along():
    hand = Hand()
    bench = Bench(end=2, max_deliveries=1)
    worker, other = bench.worker(hand, timeout=5), bench.worker(hand)
    bench.take(worker)
    bench.take(other)
    bench.seconds(5)
    assert hand.overdue == 1
    bench.queue.leave(worker, bench.now)
    assert (hand.size, hand.overdue) == (1, 0)
    bench.lose(other)
    assert [each.offset for each in bench.dead] == [1]


# -- SHR-5: the dead -----------------------------------------------------------------------------


def test_a_message_that_fails_too_often_is_dead():
    bench = Bench(end=1, max_deliveries=3)
    worker = bench.worker()
    for number in range(3):
        assert bench.take(worker) == [0]
        bench.settle(worker, outcome=Outcome.RETRY, delay=0, reason=f"failure {number}")
    (dead,) = bench.dead
    assert (dead.offset, dead.count, dead.reason) == (0, 3, "failure 2")
    assert dead.died_us == bench.now


def test_a_message_that_is_rejected_is_dead_at_once():
    bench = Bench(end=1, max_deliveries=0)
    worker = bench.worker()
    bench.take(worker)
    bench.settle(worker, outcome=Outcome.REJECT, reason="no such image")
    assert [(each.count, each.reason) for each in bench.dead] == [(1, "no such image")]


def test_with_max_dead_nothing_at_all_is_handed_out():
    bench = Bench(end=9, max_dead=1)
    worker, other = bench.worker(credit=2), bench.worker()
    bench.take(worker)
    bench.take(other)
    bench.settle(worker, 1, outcome=Outcome.RELEASE)
    bench.settle(worker, 0, outcome=Outcome.REJECT)
    bench.settle(other)
    assert bench.take(worker) == bench.take(other) == []
    assert holdup(bench.queue) == Holdup.TOO_MANY_DEAD
    assert bench.queue.forget([0]) == 1
    assert bench.take(worker) == [1]


def test_a_revived_message_counts_from_zero():
    bench = Bench(end=1, max_deliveries=2)
    worker = bench.worker()
    for _ in range(2):
        for _ in range(2):
            assert bench.take(worker) == [0]
            bench.settle(worker, outcome=Outcome.RETRY, delay=0)
        assert bench.queue.revive([0, 5]) == 1
    assert bench.take(worker) == [0]


def test_no_more_are_revived_than_may_be_open():
    bench = Bench(end=4, max_open=2)
    worker = bench.worker(credit=2)
    for _ in range(2):
        bench.take_all(worker)
        bench.settle(worker, outcome=Outcome.REJECT)
    assert bench.queue.revive(range(4)) == 2
    assert [each.offset for each in bench.dead] == [2, 3]


def test_what_delays_end_for_does_not_keep_the_dead_from_being_revived():
    """SHR-5: nothing is handed out, so nothing that is open would ever be settled."""
    bench = Bench(end=1000, max_open=3, max_dead=2)
    worker = bench.worker(credit=6)
    for _ in range(3):
        bench.take_all(worker)
        bench.settle(worker, outcome=Outcome.RETRY, delay=5)
    first, second, _ = bench.take_all(worker)
    bench.settle(worker, first, second, outcome=Outcome.REJECT)
    bench.settle(worker)
    bench.seconds(10)
    assert bench.take_all(worker) == []
    assert bench.queue.revive([first, second]) == 1
    assert bench.take_all(worker) != []


def test_what_is_overdue_is_paid_for():
    """SHR-10: so that nobody names tickets for nothing."""
    bench = Bench(end=1, max_open=20)
    worker = bench.worker(timeout=1)
    bench.take(worker)
    before = bench.queue.cost
    bench.seconds(3)
    assert bench.queue.cost == before + OVERDUE_BYTES
    naming = bench.worker(credit=10_000, tickets=range(5))
    assert bench.queue.cost == before + 6 * OVERDUE_BYTES
    bench.queue.settle(naming, [3], Outcome.DONE, bench.now)
    assert bench.queue.cost == before + 5 * OVERDUE_BYTES
    bench.worker(credit=10_000, tickets=range(5, 1000))
    assert bench.queue.cost == before + 20 * OVERDUE_BYTES
    for each in list(bench.queue.workers):
        bench.queue.leave(each, bench.now)
    assert bench.queue.cost == before


# -- SHR-6: hands and suspects -------------------------------------------------------------------


def test_what_was_alone_in_the_hand_is_charged():
    bench = Bench(end=1, max_deliveries=1)
    worker = bench.worker()
    bench.take(worker)
    bench.lose(worker)
    assert [each.reason for each in bench.dead] == [LOST]


def test_what_was_in_company_is_suspect_and_not_charged():
    bench = Bench(end=2, max_deliveries=1)
    worker = bench.worker(credit=2)
    bench.take(worker)
    bench.lose(worker)
    assert (bench.suspects, bench.dead) == ([0, 1], [])


def test_workers_of_one_connection_are_company():
    """They are lost one after another, and all had what the first one had."""
    hand = Hand()
    bench = Bench(end=2, max_deliveries=1)
    workers = [bench.worker(hand), bench.worker(hand)]
    for worker in workers:
        bench.take(worker)
    bench.lose(*workers)
    assert (bench.suspects, bench.dead) == ([0, 1], [])


def test_a_suspect_has_a_hand_of_its_own():
    bench = Bench(end=9)
    lost = bench.worker(credit=2)
    bench.take(lost)
    bench.lose(lost)
    worker = bench.worker(credit=9)
    assert bench.take_all(worker) == [0]
    bench.settle(worker)
    assert bench.take_all(worker) == [1]
    bench.settle(worker)
    assert bench.take_all(worker) == [2, 3, 4, 5, 6, 7, 8]


def test_one_deadly_message_kills_no_innocent():
    """Without hands, with credit 10 and max_deliveries 1: five innocents dead."""
    bench = Bench(end=10, max_deliveries=1)
    hand = Hand()
    worker = bench.worker(hand, credit=10)
    done = []
    for _ in range(12):
        offsets = bench.take_all(worker)
        # It works in order, and 3 kills it.
        for offset in offsets:
            if offset == 3:
                break
            bench.settle(worker, offset)
            done.append(offset)
        bench.lose(worker)
        worker = bench.worker(credit=10)
    assert sorted(done) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [each.offset for each in bench.dead] == [3]


def test_a_connection_drains_if_no_hand_is_empty():
    bench = Bench(end=99)
    one, two = bench.worker(credit=2), bench.worker(credit=2)
    lost = bench.worker()
    bench.take(lost)
    bench.take_all(one)
    bench.take_all(two)
    bench.lose(lost)
    bench.settle(one, 1)
    assert bench.take(one) == []
    # One of them is enough.
    bench.settle(two, 3)
    assert bench.take(two) == [5]
    bench.settle(one)
    assert bench.take_all(one) == [0]
    assert bench.suspects == []


def test_a_suspect_that_times_out_lets_its_hand_take_more():
    hand = Hand()
    bench, other = Bench(end=1), Bench(end=1)
    lost = bench.worker()
    bench.take(lost)
    bench.lose(lost)
    bench.take(bench.worker(hand, timeout=5))
    elsewhere = other.worker(hand)
    assert other.take(elsewhere) == []
    other.calls.clear()
    bench.seconds(5)
    assert other.calls == {elsewhere: 1}
    assert other.take(elsewhere) == [0]


def test_another_one_drains_if_that_takes_too_long():
    bench = Bench(end=99)
    one, two = bench.worker(credit=2), bench.worker(credit=2)
    lost = bench.worker()
    bench.take(lost)
    bench.take_all(one)
    bench.take_all(two)
    bench.lose(lost)
    bench.settle(one, 1)
    bench.take(one)
    bench.seconds()
    bench.settle(two, 3)
    assert bench.take(two) == []
    bench.settle(two)
    assert bench.take(two) == [0]
    # So the first one need not be empty any more.
    assert bench.take(one) == [5]


def test_a_hand_that_hangs_stops_draining():
    bench = Bench(end=99)
    one = bench.worker(credit=2, timeout=5)
    lost = bench.worker()
    bench.take(lost)
    bench.take_all(one)
    bench.lose(lost)
    bench.settle(one, 1)
    assert bench.take(one) == []
    bench.seconds(5)
    assert bench.suspects == [0, 2]
    assert bench.take(one) == [3]
    assert holdup(bench.queue) == Holdup.SUSPECT


def test_a_drained_hand_is_kept_from_other_names_too():
    hand = Hand()
    bench, other = Bench(end=9), Bench(end=9)
    worker, elsewhere = bench.worker(hand, credit=2), other.worker(hand)
    lost = bench.worker()
    bench.take(lost)
    bench.take_all(worker)
    bench.lose(lost)
    bench.settle(worker, 1)
    bench.take(worker)
    assert other.take(elsewhere) == []
    bench.settle(worker)
    assert bench.take(worker) == [0]
    assert other.take(elsewhere) == []
    other.calls.clear()
    bench.settle(worker)
    assert other.calls == {elsewhere: 1}
    assert other.take(elsewhere) == [0]


def test_a_suspect_is_passed_on_if_the_hand_it_was_meant_for_is_not_empty_any_more():
    hand = Hand()
    bench, other = Bench(), Bench(end=1)
    lost, one, two = bench.worker(), bench.worker(hand, credit=2), bench.worker()
    bench.publish()
    bench.take(lost)
    elsewhere = other.worker(hand)
    bench.lose(lost)
    bench.calls.clear()
    other.take(elsewhere)
    assert bench.take(one) == []
    assert bench.calls == {two: 1}
    assert bench.take(two) == [0]


@pytest.mark.parametrize(
    ("outcome", "is_suspect"),
    [(Outcome.RETRY, False), (Outcome.RELEASE, True), (Outcome.GIVE_BACK, True)],
)
def test_a_program_that_lives_to_say_so_ends_suspicion(outcome, is_suspect):
    bench = Bench(end=1)
    lost = bench.worker()
    bench.take(lost)
    bench.lose(lost)
    worker = bench.worker()
    bench.take(worker)
    bench.settle(worker, outcome=outcome, delay=0)
    bench.seconds()
    assert (bench.suspects == [0]) == is_suspect
    assert (bench.ready == [0]) != is_suspect


def test_what_times_out_is_company():
    """A program that hangs is not charged with what it gets meanwhile."""
    bench = Bench(end=2, max_deliveries=1)
    worker = bench.worker(credit=2, timeout=5)
    bench.take(worker)
    bench.seconds(5)
    assert (bench.suspects, bench.dead) == ([0, 1], [])


def test_what_times_out_alone_is_charged():
    bench = Bench(end=1, max_deliveries=1)
    bench.take(bench.worker(timeout=5))
    bench.seconds(5)
    assert [each.reason for each in bench.dead] == [TIMED_OUT]


# -- SHR-7: what is gone -------------------------------------------------------------------------


def test_what_is_gone_is_told_once_and_what_is_a_hole_is_passed():
    bench = Bench(end=9)
    worker = bench.worker(credit=9)
    queue = bench.queue
    assert queue.offer(worker, 9).first == 0
    queue.skip(0, 3)
    assert queue.offer(worker, 9).first == 3
    queue.pass_over(3, 5)
    bench.take(worker)
    bench.settle(worker, 5, 6, outcome=Outcome.RELEASE)
    assert queue.offer(worker, 9).first == 5
    queue.skip(5, 6)
    queue.pass_over(6, 7)
    ledger = queue.ledger
    assert (ledger.skipped, ledger.passed, ledger.open) == (4, 3, 2)


# -- SHR-8: order by key -------------------------------------------------------------------------


def test_one_message_of_a_key_is_out_at_a_time():
    bench = Bench(keys=[b"a", b"a", b"b", b"", b"", b"a"])
    one, two = bench.worker(credit=9), bench.worker(credit=9)
    assert bench.take_all(one) == [0, 2, 3, 4]
    assert bench.take_all(two) == []
    bench.settle(one, 0)
    assert bench.take_all(two) == [1]


def test_the_key_waits_across_retries():
    bench = Bench(keys=[b"a", b"a"])
    worker = bench.worker(credit=9)
    bench.take_all(worker)
    bench.settle(worker, outcome=Outcome.RETRY, delay=60)
    assert bench.take_all(worker) == []
    assert holdup(bench.queue) == Holdup.DELAYED
    bench.seconds(60)
    assert bench.take_all(worker) == [0]


def test_a_hot_key_is_named():
    bench = Bench(keys=[b"a"] * 9, max_open=4)
    worker = bench.worker(credit=9)
    bench.take_all(worker)
    assert holdup(bench.queue) == Holdup.HOT_KEY
    assert bench.queue.ledger.keys.busiest() == (b"a", 3)


def test_a_worker_that_has_no_bytes_for_its_offer_leaves_it_to_the_next():
    bench = Bench()
    one, two = bench.worker(credit=9), bench.worker(credit=9)
    bench.publish()
    assert bench.calls == {one: 1}
    bench.queue.offer(one, bench.end)
    bench.queue.decline(one)
    assert bench.calls == {one: 1, two: 1}
    assert bench.take(two) == [0]
