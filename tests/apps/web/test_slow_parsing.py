"""Requests that take long to parse, and what they pay for it. Time moves as the test says."""

from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from zaichik.apps.web import connection
from zaichik.apps.web.connection import (
    EARNED_S,
    FREE_S,
    READ_BYTES,
    SLICE_BYTES,
    SLOW_SHARE,
    Connection,
    SlowLane,
)

HEAD = b"POST /topics/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
DEAR_S = 0.004


class Loop:
    """What a connection asks of its event loop; nothing is called by itself.

    Attributes:
        calls: delay and function of each call to come; 0: soon.
    """

    def __init__(self):
        self.now = 1000.0
        self.calls = []

    def time(self):
        return self.now

    def call_soon(self, function):
        return self.call_later(0, function)

    def call_later(self, delay, function):
        call = [delay, function]
        self.calls.append(call)
        return SimpleNamespace(cancel=lambda: call in self.calls and self.calls.remove(call))

    def create_task(self, coroutine):
        coroutine.close()
        return Task()

    def parsing(self):
        """The calls that parse on."""
        return [call for call in self.calls if call[1].__name__ == "_parse_on"]

    def go_on(self):
        """Have the first one done."""
        call = self.parsing()[0]
        self.calls.remove(call)
        self.now += call[0]
        call[1]()


class Task:
    def add_done_callback(self, _):
        pass


class Transport:
    """One whose client reads nothing, so what is written stays.

    Attributes:
        is_reading: whether more would be read.
        is_closed: whether it is about to close.
        written: what was written.
    """

    def __init__(self):
        self.is_reading = True
        self.is_closed = False
        self.written = b""

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True

    def is_closing(self):
        return self.is_closed

    def write(self, data):
        self.written += data

    def get_extra_info(self, _):
        return None

    def abort(self):
        self.is_closed = True

    close = abort


@pytest.fixture
def price(monkeypatch):
    """Seconds of processor time that each slice takes; the rest of time is the loop's."""
    price = SimpleNamespace(seconds=0.0, used=0.0, is_begun=False, loop=None)

    def thread_time():
        price.is_begun = not price.is_begun
        if not price.is_begun:
            price.used += price.seconds
            price.loop.now += price.seconds
        return price.used

    monkeypatch.setattr(connection, "thread_time", thread_time)
    return price


async def app(scope, receive, send):
    pass


def connected(loop, lane):
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    found = Connection(config, ServerState(), {}, loop, lane=lane)
    found.connection_made(Transport())
    return found


@pytest.fixture
def served(price):
    """A loop, a lane, and what makes connections."""
    price.loop = Loop()
    lane = SlowLane()
    return price.loop, lane, lambda: connected(price.loop, lane)


def chunks(size):
    return b"1\r\nx\r\n" * (size // 6)


def test_a_body_that_is_parsed_quickly_does_not_wait(served):
    loop, lane, connect = served
    client = connect()
    client.data_received(HEAD)
    for _ in range(20):
        client.data_received(chunks(READ_BYTES))
        while loop.parsing():
            assert loop.parsing()[0][0] == 0
            loop.go_on()
        assert client.transport.is_reading
    assert (lane.count, client._slice_bytes) == (0, READ_BYTES)


def test_what_takes_long_waits_in_between_and_is_not_read_meanwhile(served, price):
    loop, lane, connect = served
    client = connect()
    client.data_received(HEAD)
    price.seconds = DEAR_S
    client.data_received(chunks(200 * SLICE_BYTES))
    waited = used = 0.0
    for _ in range(100):
        assert not client.transport.is_reading
        waited += loop.parsing()[0][0]
        used += DEAR_S
        loop.go_on()
    assert lane.count == 1
    assert waited >= (used - FREE_S) / SLOW_SHARE * 0.8
    price.seconds = 0
    while loop.parsing():
        loop.go_on()
    assert (lane.count, client.transport.is_reading) == (0, True)


def test_what_comes_after_a_refused_request_is_not_parsed(served):
    """A connection that is about to close cannot be refused once more."""
    loop, _, connect = served
    client = connect()
    client.data_received(b"nonsense\r\n\r\n" * SLICE_BYTES)
    assert client.transport.is_closed
    loop.go_on()
    assert loop.parsing() == []
    assert client.transport.written.count(b"400 Bad Request") == 1


def test_a_slice_that_took_long_by_chance_is_free(served, price):
    loop, lane, connect = served
    client = connect()
    price.seconds = FREE_S
    client.data_received(HEAD)
    price.seconds = 0
    assert (loop.parsing(), lane.count, client.transport.is_reading) == ([], 0, True)


def test_cheap_slices_earn_a_dear_one(served, price):
    loop, _, connect = served
    client = connect()
    price.seconds = FREE_S
    client.data_received(HEAD)
    price.seconds = 0
    for _ in range(round(DEAR_S / EARNED_S) + 1):
        client.data_received(chunks(60))
    price.seconds = DEAR_S
    client.data_received(chunks(60))
    assert loop.parsing() == []
    client.data_received(chunks(60))
    assert loop.parsing() != []


def test_all_that_wait_have_the_same_part_of_the_time_together(served, price):
    loop, lane, connect = served
    clients = [connect() for _ in range(10)]
    price.seconds = 2 * FREE_S
    for client in clients:
        client.data_received(HEAD)
    waits = [delay for delay, _ in loop.parsing()]
    assert waits == pytest.approx([2 * FREE_S * n / SLOW_SHARE for n in range(1, 11)])
    assert lane.count == 10


def test_a_connection_that_ends_leaves_the_lane(served, price):
    loop, lane, connect = served
    client = connect()
    price.seconds = 2 * FREE_S
    client.data_received(HEAD)
    assert lane.count == 1
    client.connection_lost(None)
    assert (lane.count, loop.parsing()) == (0, [])


def test_while_it_waits_the_application_cannot_have_more_read(served, price):
    _, _, connect = served
    client = connect()
    price.seconds = 2 * FREE_S
    client.data_received(HEAD)
    client.flow.pause_reading()
    client.flow.resume_reading()
    assert not client.transport.is_reading


def test_after_its_wait_nothing_is_read_that_the_application_has_no_room_for(served, price):
    loop, _, connect = served
    client = connect()
    price.seconds = 2 * FREE_S
    client.data_received(HEAD)
    client.flow.pause_reading()
    loop.go_on()
    assert not client.transport.is_reading
    client.flow.resume_reading()
    assert client.transport.is_reading
