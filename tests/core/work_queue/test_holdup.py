"""A name that stands still says why (SHR-2)."""

from queues import Bench

from zaichik.core.work_queue.holdup import Holdup, holdup


def test_it_is_said_what_is_waited_for():
    bench = Bench()
    assert holdup(bench.queue) == Holdup.NO_WORKER
    worker = bench.worker(owner=7)
    assert holdup(bench.queue) == Holdup.EMPTY
    bench.publish(2)
    bench.take(worker)
    assert holdup(bench.queue) == Holdup.NO_CREDIT
    other = bench.worker()
    bench.take(other)
    assert holdup(bench.queue) == Holdup.WITH_WORKERS
    bench.settle(other)
    bench.lose(worker)
    assert holdup(bench.queue) == Holdup.ABSENT
