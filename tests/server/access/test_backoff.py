"""What a stranger may cost. Time passes when a test says so."""

import threading

import anyio
import pytest
from anyio.lowlevel import checkpoint

from zaichik.base.clock import SECOND_US, ManualClock
from zaichik.server.access import backoff
from zaichik.server.access.backoff import (
    FAILURES,
    MOST_ADDRESSES,
    MOST_WAITING,
    UNKNOWN_FAILURES,
    Bucket,
    Failures,
    OneByOne,
)
from zaichik_protocol import ErrorCode, Refused

ONE, OTHER = "10.0.0.1", "10.0.0.2"


class Time:
    """A clock, and a sleep that lets it pass; what was slept is noted."""

    def __init__(self):
        self.clock = ManualClock(1_000_000_000)
        self.slept = []

    async def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.clock.advance(seconds)
        await checkpoint()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def failures(time):
    return Failures(time.clock, time.sleep)


def test_a_bucket_gives_its_tokens_and_then_one_a_second():
    bucket = Bucket(3, 1)
    for _ in range(3):
        assert bucket.wait_us(0) == 0
        bucket.take(0)
    assert bucket.wait_us(0) == SECOND_US
    assert bucket.wait_us(SECOND_US - 1) == 1
    assert bucket.wait_us(SECOND_US) == 0
    bucket.take(SECOND_US)
    assert bucket.wait_us(SECOND_US) == SECOND_US
    assert [
        bucket.wait_us(100 * SECOND_US) for _ in range(3) if bucket.take(100 * SECOND_US) is None
    ][-1] > 0


@pytest.mark.anyio
async def test_an_address_waits_after_its_failures_and_others_do_not(failures, time):
    for _ in range(FAILURES):
        assert await failures.wait(ONE)
        failures.failed(ONE)
    assert time.slept == []
    assert await failures.wait(OTHER)
    assert time.slept == []
    assert await failures.wait(ONE)
    assert time.slept == [1.0]


@pytest.mark.anyio
async def test_failures_that_come_at_once_keep_a_neighbour_out_for_a_minute_at_most(failures, time):
    """Connections that were let in together fail together: no token is taken before that."""
    assert all([await failures.wait(ONE) for _ in range(3000)])
    for _ in range(3000):
        failures.failed(ONE)
    failures.succeeded(ONE)
    assert await failures.wait(ONE)
    assert time.slept == [60]
    failures.failed(ONE)
    assert await failures.wait(ONE)
    assert time.slept == [60, 1]


@pytest.mark.anyio
async def test_without_failures_nobody_waits(failures, time):
    for _ in range(1000):
        assert await failures.wait(ONE)
        failures.succeeded(ONE)
    assert time.slept == []


@pytest.mark.anyio
async def test_those_who_wait_have_their_turns_one_after_the_other_and_more_are_turned_away(
    failures, time
):
    for _ in range(FAILURES):
        failures.failed(ONE)
    asked, may_wake = [], anyio.Event()

    async def sleep(seconds):
        asked.append(seconds)
        await may_wake.wait()

    failures._sleep = sleep
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_WAITING):
            tasks.start_soon(failures.wait, ONE)
        await anyio.wait_all_tasks_blocked()
        assert asked == [float(second) for second in range(1, MOST_WAITING + 1)]
        assert not await failures.wait(ONE)
        may_wake.set()
    time.clock.advance(1)
    assert await failures.wait(ONE)


@pytest.mark.anyio
async def test_one_who_leaves_while_it_waits_makes_room(failures):
    for _ in range(FAILURES):
        failures.failed(ONE)
    failures._sleep = lambda _: anyio.sleep_forever()
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_WAITING):
            tasks.start_soon(failures.wait, ONE)
        await anyio.wait_all_tasks_blocked()
        assert not await failures.wait(ONE)
        tasks.cancel_scope.cancel()
    assert failures._buckets[ONE].waiting == 0


@pytest.mark.anyio
async def test_unknown_addresses_share_a_bucket_and_those_with_a_recent_login_do_not(
    failures, time
):
    failures.succeeded(ONE)
    for number in range(UNKNOWN_FAILURES):
        failures.failed(f"192.0.2.{number}")
    assert await failures.wait(ONE)
    assert time.slept == []
    assert await failures.wait(OTHER)
    assert time.slept == [1 / UNKNOWN_FAILURES]
    for number in range(UNKNOWN_FAILURES):
        failures.failed(f"192.0.2.{number}")
    time.slept.clear()
    time.clock.advance(601)
    for number in range(UNKNOWN_FAILURES):
        failures.failed(f"198.51.100.{number}")
    assert await failures.wait(ONE)
    assert len(time.slept) == 1


def test_a_client_with_a_token_is_the_one_that_would_not_wait(failures, time):
    for _ in range(FAILURES):
        assert failures.has_token(ONE)
        failures.failed(ONE)
    assert not failures.has_token(ONE)
    assert failures.has_token(OTHER)
    time.clock.advance(1)
    assert failures.has_token(ONE)


def test_a_login_is_recent_for_ten_minutes(failures, time):
    assert not failures.is_known(ONE)
    failures.succeeded(ONE)
    time.clock.advance(599)
    assert failures.is_known(ONE)
    time.clock.advance(1)
    assert not failures.is_known(ONE)


@pytest.mark.anyio
async def test_as_many_addresses_as_there_are_push_no_login_out(failures):
    failures.succeeded(ONE)
    for number in range(2 * MOST_ADDRESSES):
        failures.failed(f"a{number}")
    assert len(failures._buckets) == MOST_ADDRESSES
    assert ONE in failures._logins
    for number in range(2 * MOST_ADDRESSES):
        failures.succeeded(f"a{number}")
    assert len(failures._logins) == MOST_ADDRESSES


# -- passwords, one at a time


@pytest.mark.anyio
async def test_functions_run_in_a_thread_and_rest_as_long_as_they_ran(time):
    line, threads = OneByOne(time.clock, time.sleep), []

    def work():
        threads.append(threading.current_thread())
        time.clock.advance(0.3)
        return len(threads)

    assert [await line.run(ONE, work) for _ in range(3)] == [1, 2, 3]
    assert threading.main_thread() not in threads
    assert time.slept == [0.0, 0.3, 0.3]
    time.clock.advance(10)
    await line.run(ONE, work)
    assert time.slept[-1] == 0.0


@pytest.mark.anyio
async def test_one_runs_at_a_time_in_the_order_they_came(time):
    line, running, order = OneByOne(time.clock, time.sleep), [], []

    def work(number):
        running.append(number)
        assert len(running) == 1
        order.append(running.pop())

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(line.run, f"10.0.0.{number}", lambda number=number: work(number))
    assert sorted(order) == list(range(10))
    assert not line._in_line


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("clients", "room"), [(1, backoff.MOST_PASSWORDS_OF_ONE), (100, backoff.MOST_PASSWORDS)]
)
async def test_the_line_has_an_end(time, clients, room):
    """Of one address, and of all."""
    line, may_end = OneByOne(time.clock, time.sleep), threading.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(room):
            tasks.start_soon(line.run, f"10.0.0.{number % clients}", may_end.wait)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(Refused) as caught:
            await line.run("10.0.0.0" if clients == 1 else "new", may_end.wait)
        assert caught.value.code is ErrorCode.TOO_MANY_CONNECTIONS
        may_end.set()
    assert await line.run(ONE, lambda: True)


@pytest.mark.anyio
async def test_who_leaves_the_line_is_not_waited_for_and_an_error_ends_nobody_elses_turn(time):
    line, may_end = OneByOne(time.clock, time.sleep), threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(line.run, ONE, may_end.wait)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0):
            await line.run(OTHER, may_end.wait)
        may_end.set()
    with pytest.raises(ZeroDivisionError):
        await line.run(ONE, lambda: 1 / 0)
    assert await line.run(ONE, lambda: True)
    assert not line._in_line
