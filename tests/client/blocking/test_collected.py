"""The garbage collector may leave a block in the midst of another call, and must not wait there."""

import gc
from concurrent.futures import CancelledError
from contextlib import suppress

import pytest
from embedded import embedded_broker

import zaichik
from zaichik.client import blocking
from zaichik.client.connection import BrokerConnection

pytestmark = pytest.mark.usefixtures("patchable")


class Forgotten:
    """Enters a block, and leaves it when it is collected.

    What is older is finalized first. If that were the block's generator, nothing would be left to
    do here.
    """

    def __init__(self, make, *arguments, **options):
        self.block = make(*arguments, **options)
        self.value = self.block.__enter__()
        self.cycle = self

    def __del__(self):
        self.block.__exit__(None, None, None)


@pytest.fixture
def collecting(monkeypatch):
    """A function after which the next request is made while the collector runs."""
    next_id = BrokerConnection.next_id
    is_due = []

    def collect(connection):
        if is_due:
            is_due.clear()
            gc.collect()
        return next_id(connection)

    monkeypatch.setattr(BrokerConnection, "next_id", collect)
    # Not at any other moment.
    gc.disable()
    yield lambda: is_due.append(True)
    gc.enable()


@pytest.mark.parametrize("method", ["subscribe", "producer"])
def test_a_block_that_is_collected_during_a_call_is_left(collecting, method):
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        Forgotten(getattr(client, method), "t")
        collecting()
        assert client.publish("t", b"x").offset == 0
        assert client.publish("t", b"y").offset == 1


def test_a_client_that_is_collected_during_a_call_of_another_is_closed(collecting):
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        Forgotten(blocking.connect, port=broker.port)
        collecting()
        assert client.publish("t", b"x").offset == 0
        assert client.publish("t", b"y").offset == 1


def test_a_client_that_is_collected_during_its_own_call_is_closed_after_it(collecting):
    with embedded_broker() as broker:
        client = Forgotten(blocking.connect, port=broker.port).value
        collecting()
        with suppress(CancelledError, zaichik.ConnectionLost):
            assert client.publish("t", b"x").offset == 0
        with pytest.raises((RuntimeError, CancelledError, zaichik.ConnectionLost)):
            client.publish("t", b"y")
