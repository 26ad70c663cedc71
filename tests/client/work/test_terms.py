"""What a worker asks for: SHR-1."""

import math

import pytest
from brokers import SHARED_GRANTED, fake_client

import zaichik
from zaichik.client.work.terms import seconds_of
from zaichik_protocol import SHARED, Hello, Subscribe

pytestmark = pytest.mark.anyio


async def test_it_asks_for_a_shared_name_with_the_defaults():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        async with client.subscribe("t", name="n", shared=True) as work:
            assert (work.topic, work.name, work.timeout, work.lagged) == ("t", "n", 60.0, 0)
            assert work.epoch == 1
        assert broker.of(Hello)[0].features & SHARED
        request = broker.of(Subscribe)[0]
        assert (request.shared, request.by_key, request.name) == (True, False, "n")
        assert (request.credit, request.timeout_ms, request.max_deliveries) == (1, 60_000, 5)
        assert request.tickets == ()


async def test_it_asks_for_what_the_program_wants():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        subscribing = client.subscribe(
            "t",
            name="n",
            shared=True,
            timeout=0,
            max_deliveries=0,
            by_key=True,
            credit=7,
            credit_bytes=99,
            start=3,
            epoch=8,
        )
        async with subscribing as work:
            assert work.timeout == math.inf
        request = broker.of(Subscribe)[0]
        assert (request.by_key, request.timeout_ms, request.max_deliveries) == (True, 0, 0)
        assert (request.credit, request.credit_bytes) == (7, 99)
        assert (request.value, request.epoch) == (3, 8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shared": True}, "needs a name"),
        ({"shared": True, "name": "n", "until": 5}, "has no end"),
        ({"shared": True, "name": "n", "events": True}, "without events"),
        ({"shared": True, "name": "n", "max_deliveries": 65_536}, "0 to 65535"),
        ({"shared": True, "name": "n", "max_deliveries": -1}, "0 to 65535"),
        ({"shared": True, "name": "n", "timeout": 90_000}, "24 hours"),
        ({"name": "n", "timeout": 5}, "add shared=True"),
        ({"max_deliveries": 3}, "add shared=True"),
        ({"by_key": True}, "add shared=True"),
    ],
)
async def test_what_does_not_fit_together_is_refused_before_it_is_sent(arguments, words):
    async with fake_client(SHARED_GRANTED) as (broker, client):
        with pytest.raises(ValueError, match=words):
            async with client.subscribe("t", **arguments):
                pass
        await client.ping()
        assert broker.of(Subscribe) == []


async def test_a_broker_without_shared_names_is_not_asked_for_one():
    async with fake_client() as (broker, client):
        with pytest.raises(zaichik.Unsupported, match="has no shared names"):
            async with client.subscribe("t", name="n", shared=True):
                pass
        assert broker.of(Subscribe) == []


def test_a_request_without_a_timeout_is_for_ever():
    assert seconds_of(Subscribe(1, "t", timeout_ms=0, shared=True)) == math.inf
    assert seconds_of(Subscribe(1, "t", timeout_ms=1500, shared=True)) == 1.5
