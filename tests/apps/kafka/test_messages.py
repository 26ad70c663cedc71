"""Writing and reading: what is stored, what a fetch waits for, and what it says is gone."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from batches import GZIP, WORDS, batch, recorded_records
from brokers import START_US
from kafka.record import MemoryRecords
from kafka_client import fetch_request, gateway, produce_request
from recorded_kafka import RECORDED

import zaichik
from zaichik.apps.kafka import compression, readings
from zaichik.apps.kafka import produce as produce_module
from zaichik.apps.kafka import session as session_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.names import CLAIM

pytestmark = pytest.mark.anyio

LATEST, EARLIEST = -1, -2


def records_of(partition) -> list[tuple[int, bytes | None, bytes | None]]:
    """The offset, key and payload of what was fetched, whose checksums must be right."""
    found = []
    batches = MemoryRecords(partition.records or b"")
    while (one := batches.next_batch()) is not None:
        assert one.validate_crc()
        found += [(record.offset, record.key, record.value) for record in one]
    return found


# -- writing -------------------------------------------------------------------------------------


async def test_a_batch_is_stored_in_order_and_answered_with_its_offset():
    async with gateway() as running, running.connected() as kafka:
        first = await kafka.produce("a", batch((b"k", b"1"), (None, b"2")))
        second = await kafka.produce("a", batch((None, b"3")))
        assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
        assert await running.payloads("a") == [(b"k", b"1"), (None, b"2"), (None, b"3")]


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith("java_n")])
async def test_what_java_has_sent_is_stored(name):
    async with gateway() as running, running.connected() as kafka:
        answer = await kafka.produce("vec", recorded_records(name))
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert await running.payloads("vec") == 30 * [(None, WORDS)]


async def test_without_acknowledgement_there_is_no_answer():
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, b"1")), acks=0)
        assert await kafka.metadata("a") == {"a": 0}
        assert await running.payloads("a") == [(None, b"1")]


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("kafka/offsets", 0, Code.TOPIC_AUTHORIZATION_FAILED),
        ("kafka/other", 0, Code.TOPIC_AUTHORIZATION_FAILED),
        ("$topics", 0, Code.INVALID_TOPIC_EXCEPTION),
        ("", 0, Code.INVALID_TOPIC_EXCEPTION),
        ("a" * 201, 0, Code.INVALID_TOPIC_EXCEPTION),
        ("a\0b", 0, Code.INVALID_TOPIC_EXCEPTION),
        ("a", 1, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_what_has_no_place_is_refused(topic, partition, code):
    async with gateway() as running, running.connected() as kafka:
        request = produce_request(topic, batch((None, b"1")), partition=partition)
        response = await kafka.ask(request, 8)
        assert response.responses[0].partition_responses[0].error_code == code
        assert running.gateway.counts.refused == 1
        assert await running.payloads("kafka/offsets") == []


async def test_a_refused_batch_says_why():
    async with gateway() as running, running.connected() as kafka:
        damaged = bytearray(batch((None, b"1")))
        damaged[-1] ^= 1
        answer = await kafka.produce("a", bytes(damaged))
        assert (answer.error_code, answer.base_offset) == (Code.CORRUPT_MESSAGE, -1)
        assert answer.error_message == "a batch has the wrong checksum"


async def test_a_message_beyond_the_brokers_limit_is_refused():
    async with gateway() as running, running.connected() as kafka:
        answer = await kafka.produce("a", batch((None, bytes(2**20 + 1))))
        assert answer.error_code == Code.MESSAGE_TOO_LARGE
        assert await running.payloads("a") == []


async def test_what_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(compression, "MAX_UNPACKED", 1000)
    async with gateway() as running, running.connected() as kafka:
        answer = await kafka.produce("a", batch((None, bytes(2000)), attributes=GZIP))
        assert answer.error_code == Code.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("rows", [5, 4, 1])
async def test_a_batch_that_is_too_large_for_the_broker_is_published_in_pieces(rows):
    async with gateway(max_batch=2) as running, running.connected() as kafka:
        sent = [(None, b"%d" % number) for number in range(rows)]
        assert (await kafka.produce("a", batch(*sent))).base_offset == 0
        assert await running.payloads("a") == sent


async def test_an_empty_key_is_refused():
    async with gateway() as running, running.connected() as kafka:
        answer = await kafka.produce("a", batch((b"", b"1")))
        assert answer.error_code == Code.INVALID_RECORD


async def test_headers_are_dropped_and_counted(caplog):
    async with gateway() as running, running.connected() as kafka:
        for _ in range(2):
            data = batch((None, b"1"), (None, b"2"), headers=[(b"a", b"1"), (b"b", None)])
            assert (await kafka.produce("a", data)).error_code == 0
        assert running.gateway.counts.headers == 8
        assert caplog.text.count("headers of records for 'a' are dropped") == 1


async def test_null_is_an_empty_payload_in_a_topic():
    async with gateway() as running, running.connected() as kafka:
        rows = batch((b"k", None), (None, None), (b"k", b""), (b"k", b"1"))
        assert (await kafka.produce("a", rows)).error_code == 0
        fetched = await kafka.fetch("a", 0)
        assert records_of(fetched) == [
            (0, b"k", b""),
            (1, None, b""),
            (2, b"k", b""),
            (3, b"k", b"1"),
        ]


async def test_null_deletes_a_key_in_a_table_and_comes_back_as_null():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("t", table=True)
        assert (await kafka.produce("t", batch((b"k", b"1"), (b"l", b"2")))).error_code == 0
        assert (await kafka.produce("t", batch((b"k", None)))).error_code == 0
        assert records_of(await kafka.fetch("t", 0)) == [(1, b"l", b"2"), (2, b"k", None)]


@pytest.mark.parametrize("row", [(b"k", b""), (None, None)])
async def test_what_a_table_cannot_hold_is_refused(row):
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("t", table=True)
        answer = await kafka.produce("t", batch((b"l", b"1"), row))
        assert answer.error_code == Code.INVALID_RECORD
        assert await running.payloads("t") == []


# -- idempotent producers ------------------------------------------------------------------------


async def test_a_repeat_is_not_stored_and_gets_its_first_answer():
    async with gateway() as running, running.connected() as kafka, running.connected() as other:
        producer = await kafka.producer_id()
        sent = [
            batch((None, b"%d" % number), producer=producer, epoch=0, sequence=number)
            for number in range(5)
        ]
        for number, data in enumerate(sent):
            assert (await kafka.produce("a", data)).base_offset == number
        for number, data in enumerate(sent):  # all five, as after a lost connection
            answer = await other.produce("a", data)
            assert (answer.error_code, answer.base_offset) == (0, number)
        assert len(await running.payloads("a")) == 5


async def test_a_batch_sent_over_several_connections_at_once_is_stored_once():
    async with gateway() as running:
        async with running.connected() as kafka:
            producer = await kafka.producer_id()
        data = batch((None, b"1"), producer=producer, epoch=0, sequence=0)
        answers = []

        async def send():
            async with running.connected() as kafka:
                answers.append(await kafka.produce("a", data))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(send)
        assert {(answer.error_code, answer.base_offset) for answer in answers} == {(0, 0)}
        assert len(await running.payloads("a")) == 1


async def test_a_batch_stored_in_part_is_completed_by_its_repeat(monkeypatch):
    async with gateway(max_batch=2) as running, running.connected() as kafka:
        producer = await kafka.producer_id()
        rows = [(None, b"%d" % number) for number in range(5)]
        data = batch(*rows, producer=producer, epoch=0, sequence=0)
        publish, calls = running.client.publish_batch, []

        async def fail_once(topic, piece):
            calls.append(len(piece))
            if len(calls) == 2:
                raise zaichik.ZaichikError("the disk is full")
            return await publish(topic, piece)

        monkeypatch.setattr(running.client, "publish_batch", fail_once)
        assert (await kafka.produce("a", data)).error_code == Code.UNKNOWN_SERVER_ERROR
        answer = await kafka.produce("a", data)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert await running.payloads("a") == rows
        assert calls == [2, 2, 2, 1]


async def test_no_batch_takes_the_place_of_the_first_one_that_failed(monkeypatch):
    """A producer has sent the batches after it already, and sends it again after them."""
    async with gateway() as running, running.connected() as kafka:
        producer = await kafka.producer_id()
        first, second = (
            batch((None, b"%d" % number), producer=producer, epoch=0, sequence=number)
            for number in range(2)
        )
        publish, calls = running.client.publish_batch, []

        async def fail_once(topic, piece):
            calls.append(piece)
            if len(calls) == 1:
                raise zaichik.ZaichikError("the disk is full")
            return await publish(topic, piece)

        monkeypatch.setattr(running.client, "publish_batch", fail_once)
        codes = [
            (await kafka.produce("a", data)).error_code for data in (first, second, first, second)
        ]
        assert codes == [
            Code.UNKNOWN_SERVER_ERROR,
            Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
            Code.NONE,
            Code.NONE,
        ]
        assert await running.payloads("a") == [(None, b"0"), (None, b"1")]


async def test_a_gap_and_an_older_epoch_are_refused():
    async with gateway() as running, running.connected() as kafka:
        first = batch((None, b"1"), producer=9, epoch=1, sequence=0)
        gap = batch((None, b"3"), producer=9, epoch=1, sequence=2)
        older = batch((None, b"0"), producer=9, epoch=0, sequence=1)
        codes = [(await kafka.produce("a", data)).error_code for data in (first, gap, older)]
        assert codes == [0, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.INVALID_PRODUCER_EPOCH]
        assert await running.payloads("a") == [(None, b"1")]


@asynccontextmanager
async def full_topic(running):
    """A topic whose only place is taken by a message that a reader needs; yields what frees it."""
    await running.client.create_topic("a", overflow="reject", capacity=1, retention_ttl="forever")
    await running.client.publish("a", b"0")
    async with running.client.subscribe("a", credit=1) as subscription:
        message = await anext(subscription)
        # This is the one that the reader has not been sent.
        await running.client.publish("a", b"1")

        async def free():
            await subscription.commit(message)

        yield free


async def test_a_batch_waits_for_room_for_as_long_as_its_client_says(monkeypatch):
    monkeypatch.setattr(produce_module, "LEAST_SECONDS", 0.05)
    async with gateway() as running, running.connected() as kafka, full_topic(running):
        request = produce_request("a", batch((None, b"1")))
        request.timeout_ms = 1
        response = await kafka.ask(request, 8)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == Code.REQUEST_TIMED_OUT
        assert (await kafka.produce("b", batch((None, b"1")))).error_code == 0


async def test_an_idempotent_batch_that_waits_for_room_is_stored_once(monkeypatch):
    monkeypatch.setattr(produce_module, "LEAST_SECONDS", 0.05)
    async with (
        gateway() as running,
        running.connected() as one,
        running.connected() as two,
        full_topic(running) as free,
    ):
        data = batch((None, b"1"), producer=9, epoch=0, sequence=0)
        request = produce_request("a", data)
        request.timeout_ms = 1
        await one.send(request, 8)
        while not (await running.client.topic("a"))["refused"]:
            await anyio.lowlevel.checkpoint()
        response = await two.ask(request, 8)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == Code.REQUEST_TIMED_OUT
        await free()
        response = await one.receive(request, 8)
        assert response.responses[0].partition_responses[0].base_offset == 2
        assert (await two.produce("a", data)).base_offset == 2
        assert (await running.client.topic("a"))["next_offset"] == 3


# -- reading -------------------------------------------------------------------------------------


async def test_a_fetch_goes_on_in_the_subscription_of_the_one_before():
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        for offset in range(5):
            await running.client.publish("a", b"%d" % offset)
            (record,) = records_of(await kafka.fetch("a", offset, wait_ms=10_000))
            assert record == (offset, None, b"%d" % offset)
        assert len(await running.client.subscriptions("a")) == 1


async def test_another_offset_begins_a_new_subscription():
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch(*((None, b"%d" % number) for number in range(5))))
        assert len(records_of(await kafka.fetch("a", 0))) == 5
        assert records_of(await kafka.fetch("a", 3)) == [(3, None, b"3"), (4, None, b"4")]
        assert len(records_of(await kafka.fetch("a", 0))) == 5
        assert len(await running.client.subscriptions("a")) == 1


async def test_times_are_those_of_the_broker():
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, b"1")))
        (found,) = list(MemoryRecords((await kafka.fetch("a", 0)).records).next_batch())
        assert (found.timestamp, found.timestamp_type) == (START_US // 1000, 1)


async def test_a_fetch_waits_for_the_first_of_its_topics():
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a", "b", "c")
        request = fetch_request({"a": 0, "b": 0, "c": 0}, wait_ms=60_000)
        await kafka.send(request, 11)
        while not await running.client.subscriptions("c"):
            await anyio.lowlevel.checkpoint()
        await running.client.publish("b", b"1")
        response = await kafka.receive(request, 11)
        found = {row.topic: records_of(row.partitions[0]) for row in response.responses}
        assert found == {"a": [], "b": [(0, None, b"1")], "c": []}


async def test_a_fetch_of_nothing_new_is_empty_and_knows_the_end():
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, b"1"), (None, b"2")))
        fetched = await kafka.fetch("a", 2)
        assert (fetched.error_code, fetched.high_watermark, fetched.records) == (0, 2, b"")


async def test_what_does_not_fit_comes_with_the_next_fetch():
    async with gateway() as running, running.connected() as kafka:
        for number in range(4):
            await kafka.produce("a", batch((None, b"%d" % number * 1000)))
        offset = sizes = 0
        while offset < 4:
            found = records_of(await kafka.fetch("a", offset, partition_max_bytes=2500))
            assert [record[0] for record in found] == [*range(offset, offset + len(found))]
            offset += len(found)
            sizes += 1
        assert sizes == 2


async def test_a_batch_larger_than_the_limit_comes_all_the_same():
    """Otherwise a consumer would ask for it for ever."""
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, bytes(5000))))
        fetched = await kafka.fetch("a", 0, partition_max_bytes=100, max_bytes=0)
        assert [record[0] for record in records_of(fetched)] == [0]


async def test_one_subscription_too_many_closes_the_one_used_least_lately(monkeypatch):
    monkeypatch.setattr(readings, "MAX_READINGS", 2)
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a", "b", "c")
        for topic in ("a", "b", "a", "c"):
            await kafka.fetch(topic, 0)
        await running.client.ping()
        found = {row["topic"] for row in await running.client.subscriptions()}
        assert found - {CLAIM} == {"a", "c"}


async def test_a_consumer_of_more_topics_than_that_gets_all_of_them_in_turns(monkeypatch):
    monkeypatch.setattr(readings, "MAX_READINGS", 2)
    async with gateway() as running, running.connected() as kafka:
        names = ["a", "b", "c", "d", "e"]
        for name in names:
            await kafka.produce(name, batch((None, name.encode())))
        offsets = dict.fromkeys(names, 0)
        for _ in range(len(names)):
            request = fetch_request(offsets)
            response = await kafka.ask(request, 11)
            for row in response.responses:
                assert row.partitions[0].error_code == 0
                offsets[row.topic] += len(records_of(row.partitions[0]))
        assert set(offsets.values()) == {1}
        assert running.gateway.shared.subscriptions.taken == 2


async def test_there_are_so_many_subscriptions_in_all_connections(monkeypatch, caplog):
    monkeypatch.setattr(session_module, "MAX_ALL_READINGS", 1)
    async with gateway() as running, running.connected() as one:
        await one.produce("a", batch((None, b"1")))
        async with running.connected() as other:
            assert (await other.fetch("a", 0)).error_code == 0
            assert (await one.fetch("a", 0)).error_code == Code.OFFSET_NOT_AVAILABLE
            assert "there are 1 subscriptions, which is the limit" in caplog.text
        while running.gateway.shared.subscriptions.taken:
            await anyio.lowlevel.checkpoint()
        assert records_of(await one.fetch("a", 0)) == [(0, None, b"1")]


async def test_a_subscription_that_cannot_be_had_takes_no_room(monkeypatch):
    """One is the gateway's own, its claim."""
    async with gateway(max_subscriptions=2) as running, running.connected() as kafka:
        await kafka.metadata("a", "b")
        assert (await kafka.fetch("a", 0)).error_code == 0
        assert (await kafka.fetch("b", 0)).error_code == Code.UNKNOWN_SERVER_ERROR
        assert running.gateway.shared.subscriptions.taken == 1


async def test_subscriptions_end_with_the_connection():
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.metadata("a")
            await kafka.fetch("a", 0)
        while await running.client.subscriptions("a"):
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("none", Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("kafka/offsets", Code.TOPIC_AUTHORIZATION_FAILED),
        ("$topics", Code.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_what_cannot_be_read_says_so_and_is_not_made(topic, code):
    async with gateway() as running, running.connected() as kafka:
        assert (await kafka.fetch(topic, 0, wait_ms=60_000)).error_code == code
        assert (await kafka.offset(topic, LATEST))[0] == code
        assert await running.client.topic("none") is None


# -- what is gone --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 0, 4, 2**60])
async def test_an_offset_that_is_not_there_is_out_of_range(offset, caplog):
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a", capacity=2, retention_ttl="forever")
        for _ in range(3):
            await running.client.publish("a", b"1")
        fetched = await kafka.fetch("a", offset, wait_ms=60_000)
        assert fetched.error_code == Code.OFFSET_OUT_OF_RANGE
        assert (fetched.log_start_offset, fetched.high_watermark) == (1, 3)
        assert running.gateway.counts.evicted == (1 if offset < 1 else 0)
        assert running.gateway.counts.beyond == (1 if offset > 3 else 0)
        assert ("has lost messages" in caplog.text) == (offset < 1)
        assert ("does not reach the offset" in caplog.text) == (offset > 3)


async def test_a_consumer_that_falls_behind_is_told(monkeypatch, caplog):
    monkeypatch.setattr(readings, "CREDIT", 1)
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a", capacity=3, retention_ttl="forever")
        await running.client.publish("a", b"0")
        assert [row[0] for row in records_of(await kafka.fetch("a", 0))] == [0]
        for _ in range(10):
            await running.client.publish("a", b"more")
        offset, codes = 1, []
        while Code.OFFSET_OUT_OF_RANGE not in codes:
            fetched = await kafka.fetch("a", offset, wait_ms=10_000)
            codes.append(fetched.error_code)
            offset += len(records_of(fetched))
        assert offset < 8
        assert running.gateway.counts.evicted == 8 - offset
        assert "has lost messages before they could be fetched" in caplog.text
        assert [row[0] for row in records_of(await kafka.fetch("a", 8, wait_ms=10_000))] == [8]


async def test_a_topic_that_is_made_again_is_out_of_range_for_who_has_read_the_other():
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, b"1")))
        await kafka.fetch("a", 0)
        await running.client.delete_topic("a")
        await running.client.create_topic("a", retention_ttl="forever")
        await running.client.publish_batch("a", [(None, b"new"), (None, b"new")])
        fetched = await kafka.fetch("a", 1, wait_ms=10_000)
        assert fetched.error_code == Code.OFFSET_OUT_OF_RANGE
        assert running.gateway.counts.beyond == 1
        assert [row[0] for row in records_of(await kafka.fetch("a", 0))] == [0, 1]


async def test_a_topic_that_is_gone_says_so_although_another_one_has_messages():
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a", "b")
        await kafka.ask(fetch_request({"a": 0, "b": 0}), 11)
        await running.client.publish("b", b"1")
        await running.client.delete_topic("a")
        await running.client.create_topic("a", retention_ttl="forever")
        told, read = set(), 0
        while not (told and read):
            response = await kafka.ask(fetch_request({"a": 0, "b": read}, wait_ms=10_000), 11)
            a, b = (row.partitions[0] for row in response.responses)
            told |= {a.error_code} - {0}
            read += len(records_of(b))
        assert told == {Code.OFFSET_OUT_OF_RANGE}


async def test_holes_of_a_table_are_passed_over():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("t", table=True)
        for number in range(4):
            await running.client.publish("t", b"%d" % number, key=b"k%d" % (number % 2))
        assert records_of(await kafka.fetch("t", 0)) == [(2, b"k0", b"2"), (3, b"k1", b"3")]
        assert (await kafka.fetch("t", 4)).error_code == 0


async def test_a_fetch_after_holes_goes_on_in_its_subscription():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("t", table=True)
        await running.client.publish_batch("t", [(b"k%d" % n, b"1") for n in range(3)])
        await running.client.publish("t", b"2", key=b"k1")
        assert [row[0] for row in records_of(await kafka.fetch("t", 0))] == [0, 2, 3]
        (before,) = await running.client.subscriptions("t")
        assert records_of(await kafka.fetch("t", 4)) == []
        assert (await running.client.subscriptions("t"))[0]["name"] == before["name"]


class Gapped:
    """A subscription to a topic that a repair has left a gap in."""

    table = False
    live = 0

    def __init__(self, *items):
        self.items = list(items)

    async def fetch(self, _timeout):
        items, self.items = self.items, []
        return items


@pytest.mark.parametrize("head", [0, 5])
async def test_a_gap_in_the_middle_is_passed_over_and_one_at_the_head_is_not(head):
    """A consumer that is told of a gap in the middle begins at the head, and meets it again."""

    class Client:
        async def topic(self, _name):
            return {"head": head, "next_offset": 9, "epoch": 1}

    reading = readings.Reading(Client(), "", "a", 2)
    reading._subscription = Gapped(zaichik.Lagged("a", 2, 5))
    await reading.wait(0)
    fetched = await reading.taken(1000)
    if head == 0:
        assert (fetched.code, fetched.skipped, reading.next) == (Code.NONE, 3, 2)
    else:
        assert (fetched.code, fetched.evicted) == (Code.OFFSET_OUT_OF_RANGE, 3)


# -- offsets -------------------------------------------------------------------------------------


async def test_offsets_of_the_ends_and_of_times():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a", capacity=3, retention_ttl="forever")
        start_ms = START_US // 1000
        for _ in range(4):
            await running.client.publish("a", b"1")
            await running.client.advance_clock(1)
        assert await kafka.offset("a", EARLIEST) == (0, 1, -1)
        assert await kafka.offset("a", LATEST) == (0, 4, -1)
        assert await kafka.offset("a", 0) == (0, 1, start_ms + 1000)
        assert await kafka.offset("a", start_ms + 2000) == (0, 2, start_ms + 2000)
        assert await kafka.offset("a", start_ms + 2001) == (0, 3, start_ms + 3000)
        assert await kafka.offset("a", start_ms + 3001) == (0, -1, -1)
        assert await kafka.offset("a", 2**62) == (0, -1, -1)
        assert (await kafka.offset("a", -3))[0] == Code.INVALID_REQUEST
        await running.client.create_topic("b")
        assert await kafka.offset("b", 0) == (0, -1, -1)
