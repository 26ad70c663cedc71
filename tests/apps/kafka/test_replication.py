"""`acks=all` that waits until records are replicated: AK-1."""

import gc
from contextlib import asynccontextmanager

import anyio
import pytest
from batches import batch
from kafka.protocol.producer import ProduceRequest
from kafka_client import gateway, produce_request
from replicating import LOSSLESS, FakeBridge

from zaichik.apps.kafka import produce as produce_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.records import Produced

pytestmark = pytest.mark.anyio

VERSION = 8


@asynccontextmanager
async def replicated():
    """A gateway that waits for replication, a connection to it, and a bridge."""
    async with gateway(acked_by="kafka") as running, running.connected() as kafka:
        await running.client.create_topic("a", **LOSSLESS)
        bridge = FakeBridge(running.client, "a")
        await bridge.begin()
        yield running, kafka, bridge


async def has_stored(running, count):
    while (await running.client.topic("a"))["next_offset"] < count:
        await anyio.lowlevel.checkpoint()
    await running.client.ping()


async def answer(kafka):
    response = await kafka.receive(ProduceRequest, VERSION)
    return response.responses[0].partition_responses[0]


async def test_all_is_answered_when_the_watermark_has_passed_the_last_record():
    async with replicated() as (running, kafka, bridge):
        await kafka.send(produce_request("a", batch((None, b"1"), (None, b"2"))), VERSION)
        await has_stored(running, 2)
        await bridge.has(1)
        with anyio.move_on_after(0.01) as scope:
            await kafka.receive_frame()
        assert scope.cancelled_caught
        await bridge.has(2)
        stored = await answer(kafka)
        assert (stored.error_code, stored.base_offset) == (Code.NONE, 0)


async def test_records_that_are_stored_take_no_memory_while_they_are_replicated():
    """They are not counted any more (`memory`), and Kafka may take long."""
    async with replicated() as (running, kafka, bridge):
        await kafka.send(produce_request("a", batch((None, b"1"))), VERSION)
        await has_stored(running, 1)
        while running.gateway.shared.memory.batches.taken:
            await anyio.lowlevel.checkpoint()
        assert not [found for found in gc.get_objects() if isinstance(found, Produced)]
        await bridge.has(1)
        assert (await answer(kafka)).error_code == Code.NONE


@pytest.mark.parametrize("acks", [0, 1])
async def test_who_does_not_ask_for_all_does_not_wait(acks):
    async with replicated() as (running, kafka, _):
        stored = await kafka.produce("a", batch((None, b"1")), acks=acks)
        await has_stored(running, 1)
        assert stored is None or stored.error_code == Code.NONE


def in_no_time(seconds, problem, in_time=produce_module._in_time):
    """Has nobody wait for a replication."""
    if problem == produce_module.NOT_REPLICATED:
        seconds = 0.0
    return in_time(seconds, problem)


@pytest.mark.usefixtures("patchable")
async def test_what_an_idempotent_producer_repeats_waits_as_well(monkeypatch):
    in_time = produce_module._in_time
    monkeypatch.setattr(produce_module, "_in_time", in_no_time)
    async with replicated() as (running, kafka, bridge):
        records = batch((None, b"1"), producer=await kafka.producer_id(), epoch=0, sequence=0)
        for _ in range(2):
            stored = await kafka.produce("a", records)
            assert stored.error_code == Code.REQUEST_TIMED_OUT
            assert stored.error_message == produce_module.NOT_REPLICATED
        monkeypatch.setattr(produce_module, "_in_time", in_time)
        await bridge.has(1)
        stored = await kafka.produce("a", records)
        assert (stored.error_code, stored.base_offset) == (Code.NONE, 0)
        assert await running.payloads("a") == [(None, b"1")]


@pytest.mark.usefixtures("patchable")
async def test_a_repeat_is_not_acknowledged_for_another_topic_of_that_name(monkeypatch):
    """The gateway remembers its offset, which another record has by now."""
    in_time = produce_module._in_time
    monkeypatch.setattr(produce_module, "_in_time", in_no_time)
    async with replicated() as (running, kafka, bridge):
        records = batch((None, b"1"), producer=await kafka.producer_id(), epoch=0, sequence=0)
        stored = await kafka.produce("a", records)
        assert stored.error_code == Code.REQUEST_TIMED_OUT
        monkeypatch.setattr(produce_module, "_in_time", in_time)
        await running.client.delete_topic("a")
        await running.client.create_topic("a", **LOSSLESS)
        await running.client.publish("a", b"another")
        await bridge.begin()
        await bridge.has(1)
        stored = await kafka.produce("a", records)
        assert (stored.error_code, stored.base_offset) == (Code.UNKNOWN_SERVER_ERROR, -1)
        assert "another one by now" in stored.error_message
        assert await running.payloads("a") == [(None, b"another")]


async def test_a_record_in_a_gap_is_an_error_that_is_not_retried():
    async with replicated() as (_, kafka, bridge):
        await bridge.has(9, (0, 1))
        stored = await kafka.produce("a", batch((None, b"1")))
        assert (stored.error_code, stored.base_offset) == (Code.UNKNOWN_SERVER_ERROR, -1)
        assert "not in kafka" in stored.error_message


async def test_a_topic_that_may_lose_records_is_refused():
    async with replicated() as (running, kafka, _):
        await running.client.create_topic("b", retention_ttl="forever")
        stored = await kafka.produce("b", batch((None, b"1")))
        assert stored.error_code == Code.POLICY_VIOLATION
        assert "zaichik create TOPIC --overflow reject" in stored.error_message
        assert await running.payloads("b") == []
        assert (await kafka.produce("b", batch((None, b"1")), acks=1)).error_code == Code.NONE


async def test_a_topic_that_a_client_makes_loses_nothing():
    async with replicated() as (running, kafka, _):
        assert await kafka.metadata("new") == {"new": Code.NONE}
        settings = (await running.client.topic("new"))["settings"]
        assert (settings["overflow"], settings["retention_ttl_ms"]) == (1, 2**64 - 1)
