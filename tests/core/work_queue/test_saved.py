"""What a log keeps of a name, and what a start makes of it (SHR-9)."""

import json
from dataclasses import asdict

import pytest
from queues import SECOND, Bench

from zaichik.core.work_queue.message import Place
from zaichik.core.work_queue.saved import restore_queue, save_queue
from zaichik.core.work_queue.work_queue import QueueSettings
from zaichik_protocol import Outcome


def all_of(queue):
    return save_queue(queue, queue.ledger.unsettled)


def restarted(bench, saved=None):
    """The same bench, with what is read after a start."""
    saved = saved or all_of(bench.queue)
    bench.queue = restore_queue(
        saved, QueueSettings(), bench.tickets, bench.patience, bench.end, bench.now
    )
    return bench


def places(bench):
    return {message.offset: message.place for message in bench.queue.ledger.open_messages()}


@pytest.fixture
def bench():
    """One message of each kind: 0 is dead, 1 delayed, 2 suspect, 3 ready, 4 done, 5 held."""
    bench = Bench(end=8, max_deliveries=5)
    worker = bench.worker(credit=6, owner=7)
    bench.take_all(worker)
    bench.settle(worker, 0, outcome=Outcome.REJECT, reason="no such image")
    bench.settle(worker, 1, outcome=Outcome.RETRY, delay=60)
    bench.settle(worker, 2, outcome=Outcome.LOSE)
    bench.settle(worker, 3, outcome=Outcome.RELEASE)
    bench.settle(worker, 4)
    return bench


def test_all_of_it_is_numbers_bytes_and_text(bench):
    fields = asdict(all_of(bench.queue))
    assert fields["keys"] == []
    fields["dead_keys"] = [key.hex() for key in fields["dead_keys"]]
    assert json.loads(json.dumps(fields))["reasons"] == ["no such image"]


def test_what_was_saved_is_saved_again_as_it_was(bench):
    """But what was held is absent, and has no time-out."""
    before = asdict(all_of(bench.queue))
    after = asdict(all_of(restarted(bench).queue))
    *waiting_before, held = before.pop("opened")
    *waiting_after, absent = after.pop("opened")
    assert (before, waiting_before) == (after, waiting_after)
    assert held[0] == absent[0] == 5
    assert held[-3:] == absent[-3:]


def test_everything_is_where_it_was(bench):
    restarted(bench)
    assert places(bench) == {
        1: Place.DELAYED,
        2: Place.READY,
        3: Place.READY,
        5: Place.ABSENT,
    }
    assert (bench.suspects, bench.ready) == ([2], [3])
    assert [each.reason for each in bench.dead] == ["no such image"]
    assert bench.queue.ledger.needed == 0


def test_an_owner_that_comes_in_ten_seconds_keeps_what_it_names(bench):
    """SHR-4a."""
    (worker,) = bench.queue.workers
    (ticket,) = worker.held
    restarted(bench)
    bench.seconds(9)
    again = bench.worker(owner=7, tickets=[ticket], credit=6)
    assert [message.offset for message in again.held.values()] == [5]
    assert bench.settle(again) == []
    assert bench.queue.ledger.done == 2


def test_what_no_owner_claims_is_released_and_not_suspect(bench):
    restarted(bench)
    bench.seconds(10)
    assert bench.ready == [3, 5]
    assert [m.count for m in bench.queue.ledger.open_messages() if m.offset == 5] == [0]


def test_without_an_owner_it_is_released_at_once():
    bench = Bench(end=1)
    bench.take(bench.worker())
    assert restarted(bench).ready == [0]


def test_what_was_settled_since_comes_again():
    bench = Bench(end=2)
    worker = bench.worker(credit=2, owner=7)
    saved = all_of(bench.queue)
    bench.take(worker)
    bench.settle(worker)
    restarted(bench, saved)
    worker = bench.worker()
    offer = bench.queue.offer(worker, bench.end)
    assert bench.queue.hand_out_next(worker, [offer.first], [1], bench.now).is_again


def test_new_messages_and_redelivered_ones_are_in_different_frames():
    """SHR-4c."""
    bench = Bench(end=3)
    restarted(bench)
    worker = bench.worker(credit=9)
    bench.end = 6
    assert bench.take(worker) == [0, 1, 2]
    assert bench.take(worker) == [3, 4, 5]


def test_keys_stay_in_order():
    """SHR-8."""
    bench = Bench(keys=[b"k", b"k", b"k"])
    worker = bench.worker(credit=3)
    assert bench.take_all(worker) == [0]
    restarted(bench)
    worker = bench.worker()
    for offset in range(3):
        assert bench.take_all(worker) == [offset]
        bench.settle(worker)


def test_a_delay_goes_on():
    bench = Bench(end=1)
    worker = bench.worker()
    bench.take(worker)
    bench.settle(worker, outcome=Outcome.RETRY, delay=5)
    restarted(bench)
    bench.seconds(4)
    assert bench.ready == []
    bench.seconds()
    assert bench.ready == [0]
    assert bench.now % SECOND == 0


def test_only_what_has_changed_may_be_saved(bench):
    """What is settled, and what was never handed out, is not there."""
    saved = save_queue(bench.queue, [7, 5, 4, 0])
    assert [offset for offset, *_ in saved.opened] == [5]
    assert [offset for offset, *_ in saved.dead] == [0]
    assert saved.done == 1
