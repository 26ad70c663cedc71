"""One connection: which requests it answers, and what becomes of bytes that are none."""

import struct
from contextlib import suppress

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from batches import batch
from embedded import embedded_broker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka_client import decoded_response, fetch_request, gateway, produce_request
from recorded_kafka import RECORDED

from zaichik.apps.kafka import connection as connection_module
from zaichik.apps.kafka import frames, oversized
from zaichik.apps.kafka import gateway as gateway_module
from zaichik.apps.kafka import memory as memory_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.frames import NotARequest, decoded, header_of
from zaichik.apps.kafka.requests import API_VERSIONS, PRODUCE, REQUESTS, name_of

pytestmark = pytest.mark.anyio

# What Kafka 4.1.1 announces as the oldest version of each.
OLDEST_OF_KAFKA = {
    "Produce": 0,
    "Fetch": 4,
    "ListOffsets": 1,
    "Metadata": 0,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "FindCoordinator": 0,
    "JoinGroup": 0,
    "Heartbeat": 0,
    "LeaveGroup": 0,
    "SyncGroup": 0,
    "DescribeGroups": 0,
    "ListGroups": 0,
    "SaslHandshake": 0,
    "ApiVersions": 0,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "InitProducerId": 0,
    "DescribeConfigs": 1,
    "SaslAuthenticate": 0,
}


def frame(key: int, version: int, body: bytes = b"", number: int = 7) -> bytes:
    return struct.pack(">hhih", key, version, number, -1) + body


async def still_serves(running) -> None:
    """The gateway answers another client."""
    async with running.connected() as other:
        assert await other.metadata() is not None


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_api_versions_says_what_is_offered(version):
    async with gateway() as running, running.connected() as kafka:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        response = await kafka.ask(request, version)
        offered = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        assert response.error_code == 0
        assert offered == {key: (row.oldest, row.newest) for key, row in REQUESTS.items()}


def test_the_oldest_versions_are_those_of_kafka():
    """Otherwise librdkafka switches features off."""
    assert {row.name: row.oldest for row in REQUESTS.values()} == OLDEST_OF_KAFKA


def test_no_version_has_tagged_fields_but_that_of_api_versions():
    for key, row in REQUESTS.items():
        assert key == API_VERSIONS or not row.request.flexible_version_q(row.newest)


@pytest.mark.parametrize("version", [4, 99, -1])
async def test_a_newer_api_versions_is_answered_in_version_0_with_the_list(version):
    async with gateway() as running, running.connected() as kafka:
        await kafka.send_frame(frame(API_VERSIONS, version, b"whatever it has"))
        answer = await kafka.receive_frame()
        assert answer[:4] == struct.pack(">i", 7)
        response = decoded_response(API_VERSIONS, 0, answer)
        assert response.error_code == Code.UNSUPPORTED_VERSION
        assert len(response.api_keys) == len(REQUESTS)
        assert await kafka.metadata() == {}  # over the same connection


@pytest.mark.parametrize("key", [key for key in ApiKey if key not in REQUESTS])
def test_each_request_of_kafka_has_a_name(key):
    assert name_of(key) == ApiKey(key).name


@pytest.mark.parametrize(
    ("key", "version", "name"), [(24, 0, "AddPartitionsToTxn 0"), (1, 12, "Fetch 12"),
                                 (1, 3, "Fetch 3"), (999, 0, "number 999 0")]
)  # fmt: skip
async def test_what_is_not_offered_ends_the_connection_and_is_named_in_the_log(
    key, version, name, caplog
):
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.send_frame(frame(key, version))
            assert await kafka.ended()
        assert f"the request {name} is not offered" in caplog.text
        assert running.gateway.counts.unknown == 1
        await still_serves(running)


# -- bytes that are no request -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "name"),
    [(bytes.fromhex("16030100f8010000f40303"), "TLS"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")],
)
async def test_a_client_that_speaks_something_else_is_named_in_the_log(first, name, caplog):
    caplog.set_level("INFO")
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.stream.send(first)
            assert await kafka.ended()
        while "disconnected" not in caplog.text:
            await anyio.lowlevel.checkpoint()
    assert f"disconnected: it sent {name}, which is not spoken at this port" in caplog.text


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_are_read_whole_and_cut_ones_are_refused(name):
    """A recorded request is what it was, to the last byte; without its last bytes it is none."""
    for recorded in RECORDED[name]:
        header = header_of(recorded)
        if header.key == API_VERSIONS:
            continue
        request = REQUESTS[header.key].request
        decoded(request, recorded[header.size :], header.version)
        for end in range(header.size, len(recorded)):
            with pytest.raises(NotARequest):
                decoded(request, recorded[header.size : end], header.version)
        for end in range(header.size):
            with pytest.raises(NotARequest):
                header_of(recorded[:end])


@given(st.sampled_from(sorted(REQUESTS)), st.integers(0, 11), st.binary(max_size=200))
def test_arbitrary_bytes_are_a_request_or_none(key, version, body):
    request = REQUESTS[key].request
    try:
        found = decoded(request, body, min(version, REQUESTS[key].newest))
    except NotARequest:
        return
    assert found.encode() == body


NO_TEXT = struct.pack(">h", -1)
NO_ARRAY = struct.pack(">i", -1)
ONE = struct.pack(">i", 1)


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        pytest.param(0, 0, b"\0\1" + bytes(4) + NO_ARRAY, id="Produce, no topics"),
        pytest.param(0, 0, b"\0\1" + bytes(4) + ONE + NO_TEXT + bytes(4), id="Produce, no name"),
        pytest.param(11, 0, NO_TEXT + bytes(12), id="JoinGroup, no group"),
        pytest.param(11, 0, bytes(10) + ONE + NO_TEXT + bytes(4), id="JoinGroup, no protocol"),
        pytest.param(15, 0, ONE + NO_TEXT, id="DescribeGroups, no group"),
        pytest.param(19, 2, ONE + NO_TEXT + bytes(19), id="CreateTopics, no name"),
        pytest.param(20, 1, ONE + NO_TEXT + bytes(4), id="DeleteTopics, no name"),
        pytest.param(32, 1, NO_ARRAY + b"\0", id="DescribeConfigs, no resources"),
    ],
)
async def test_null_where_the_protocol_has_none_is_no_request(key, version, body, caplog):
    """As in Kafka. A handler would stumble over it, with a traceback in the log each time."""
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.send_frame(frame(key, version, body))
            assert await kafka.ended()
        assert running.gateway.counts.malformed == 1
        assert "a bug" not in caplog.text
        await still_serves(running)


def test_null_where_the_protocol_has_it_is_a_request():
    """Metadata of all topics, and records that are none."""
    assert decoded(MetadataRequest, NO_ARRAY, 1).topics is None
    produce = REQUESTS[PRODUCE].request
    body = b"\0\1" + bytes(4) + ONE + b"\0\1a" + ONE + bytes(4) + NO_ARRAY
    assert decoded(produce, body, 0).topic_data[0].partition_data[0].records is None


@pytest.mark.parametrize("size", [-1, 0, 9, frames.MAX_SKIPPED + 1, 2**31 - 1])
async def test_a_size_that_no_request_has_ends_the_connection(size):
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.stream.send(struct.pack(">i", size) + bytes(20))
            assert await kafka.ended()
        assert running.gateway.counts.malformed == 1
        await still_serves(running)


async def test_requests_come_in_pieces():
    async with gateway() as running, running.connected() as kafka:
        body = MetadataRequest(topics=None, allow_auto_topic_creation=False).encode(version=4)
        whole = frame(3, 4, body)
        for byte in struct.pack(">i", len(whole)) + whole:
            await kafka.stream.send(bytes([byte]))
        response = decoded_response(3, 4, await kafka.receive_frame())
        assert response.topics == []


async def test_responses_come_in_the_order_of_requests():
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        waits = fetch_request({"a": 0}, wait_ms=60_000)
        await kafka.send(waits, 11)
        await kafka.send(MetadataRequest(topics=[], allow_auto_topic_creation=False), 4)
        await running.client.publish("a", b"1")
        fetched = await kafka.receive(waits, 11)
        assert fetched.responses[0].partitions[0].records
        assert (await kafka.receive(MetadataRequest(topics=[]), 4)).topics == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=3), st.booleans())
def test_noise_ends_its_own_connection_at_most(noise, with_sizes):
    async def send_noise():
        async with gateway() as running:
            async with running.connected() as kafka:
                for piece in noise:
                    size = struct.pack(">i", len(piece)) if with_sizes else b""
                    await kafka.stream.send(size + piece)
                await kafka.stream.send_eof()
                await kafka.ended()
            await still_serves(running)

    anyio.run(send_noise)


# -- size ----------------------------------------------------------------------------------------


async def test_a_produce_that_is_too_large_is_answered_and_not_stored(monkeypatch):
    """A closed connection would be no answer: clients would send it again, for ever."""
    monkeypatch.setattr(frames, "MAX_REQUEST", 10_000)
    async with gateway() as running, running.connected() as kafka:
        large = await kafka.produce("a", batch((None, bytes(100_000))))
        assert (large.error_code, large.index) == (Code.MESSAGE_TOO_LARGE, 0)
        assert running.gateway.counts.refused == 1
        assert (await kafka.produce("a", batch((None, b"1")))).error_code == 0
        assert await running.payloads("a") == [(None, b"1")]


@pytest.mark.parametrize("version", [0, 2, 3, 8])
async def test_each_version_of_a_produce_that_is_too_large_is_answered(version, monkeypatch):
    monkeypatch.setattr(frames, "MAX_REQUEST", 100)
    async with gateway() as running, running.connected() as kafka:
        large = await kafka.produce("a", batch((None, bytes(1000))), version=version)
        assert large.error_code == Code.MESSAGE_TOO_LARGE


async def test_a_produce_that_is_too_large_and_wants_no_answer_gets_none(monkeypatch):
    monkeypatch.setattr(frames, "MAX_REQUEST", 100)
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, bytes(1000))), acks=0)
        assert await kafka.metadata() == {}


async def test_another_request_that_is_too_large_ends_the_connection(monkeypatch):
    monkeypatch.setattr(frames, "MAX_REQUEST", 100)
    async with gateway() as running, running.connected() as kafka:
        await kafka.send(fetch_request({"a" * 200: 0}), 11)
        assert await kafka.ended()


async def test_only_a_produce_may_have_megabytes(monkeypatch):
    """Others have nothing but small elements, and decoding a million keeps all clients waiting."""
    monkeypatch.setattr(frames, "MAX_OTHER", 200)
    async with gateway() as running:
        async with running.connected() as kafka:
            assert (await kafka.produce("a", batch((None, bytes(1000))))).error_code == 0
            await kafka.send(fetch_request({"a" * 200: 0}), 11)
            assert await kafka.ended()
        await still_serves(running)


async def test_a_request_of_too_many_elements_ends_its_connection(monkeypatch):
    """Each topic of a Fetch has one partition, which counts as well."""
    monkeypatch.setattr(frames, "MAX_ELEMENTS", 4)
    async with gateway() as running:
        async with running.connected() as kafka:
            response = await kafka.ask(fetch_request({"a": 0, "b": 0}), 11)
            assert len(response.responses) == 2
            await kafka.send(fetch_request({"a": 0, "b": 0, "c": 0}), 11)
            assert await kafka.ended()
        assert running.gateway.counts.malformed == 1


async def test_too_many_partitions_in_a_large_produce_end_the_connection(monkeypatch):
    monkeypatch.setattr(frames, "MAX_REQUEST", 100)
    monkeypatch.setattr(oversized, "MAX_PARTITIONS", 0)
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.send(produce_request("a", bytes(1000)), 8)
            assert await kafka.ended()
        await still_serves(running)


# -- limits --------------------------------------------------------------------------------------


async def test_one_connection_too_many_is_turned_away(monkeypatch, caplog):
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 1)
    async with gateway() as running, running.connected() as kafka:
        assert await kafka.metadata() == {}
        async with running.connected() as late:
            assert await late.ended()
        assert "turned away: there are 1 connections, which is the limit" in caplog.text


async def test_a_silent_connection_is_ended(monkeypatch):
    monkeypatch.setattr(connection_module, "IDLE_SECONDS", 0)
    async with gateway() as running, running.connected() as kafka:
        assert await kafka.ended()


async def test_a_request_that_is_not_completed_ends_the_connection(monkeypatch):
    monkeypatch.setattr(connection_module, "FRAME_SECONDS", 0)
    async with gateway() as running, running.connected() as kafka:
        await kafka.stream.send(struct.pack(">i", 100) + bytes(10))
        assert await kafka.ended()


async def test_a_client_that_never_reads_is_disconnected(monkeypatch, caplog):
    """What it has asked for is not made in advance: one response waits for it at most."""
    monkeypatch.setattr(connection_module, "SEND_SECONDS", 0.2)
    caplog.set_level("INFO")
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a", retention_ttl="forever")
        for _ in range(8):
            await running.client.publish("a", bytes(1_000_000))
        with anyio.move_on_after(30):
            with suppress(anyio.BrokenResourceError):
                while True:  # until the gateway has closed it
                    await kafka.send(fetch_request({"a": 0}), 11)
                    await anyio.sleep(0.01)
        assert "it does not read its responses" in caplog.text
        await still_serves(running)


async def test_a_client_that_leaves_while_its_fetch_waits_holds_no_connection(monkeypatch):
    """It may have asked to wait for minutes, and its successor would find no place."""
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 1)
    async with gateway() as running:
        await running.client.create_topic("a")
        async with running.connected() as kafka:
            await kafka.send(fetch_request({"a": 0}, wait_ms=300_000), 11)
            while not await running.client.subscriptions("a"):
                await anyio.lowlevel.checkpoint()
        while await running.client.subscriptions("a"):
            await anyio.lowlevel.checkpoint()
        assert running.gateway.shared.subscriptions.taken == 0
        while running.gateway.figures().connections:
            await anyio.lowlevel.checkpoint()
        await still_serves(running)


async def test_what_is_sent_after_a_request_that_waits_is_answered_to_the_last_byte(monkeypatch):
    """It is received meanwhile, and more of it than is received ahead."""
    monkeypatch.setattr(frames, "RECEIVE_BYTES", 1000)
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        waits = fetch_request({"a": 0}, wait_ms=60_000)
        await kafka.send(waits, 11)
        after = [batch((None, b"%d" % number * 300)) for number in range(10)]
        for data in after:
            await kafka.send(produce_request("b", data), 8)
        await running.client.publish("a", b"1")
        assert (await kafka.receive(waits, 11)).responses[0].partitions[0].records
        for number, data in enumerate(after):
            response = await kafka.receive(produce_request("b", data), 8)
            assert response.responses[0].partition_responses[0].base_offset == number


# -- memory --------------------------------------------------------------------------------------


async def test_a_request_that_finds_no_memory_ends_its_connection(monkeypatch, caplog):
    """Others have it: here it's a request that is never complete. Small ones need none."""
    size = frames.MAX_SMALL + 1
    monkeypatch.setattr(memory_module, "MAX_REQUESTS", size)
    monkeypatch.setattr(memory_module, "WAIT_SECONDS", 0)
    caplog.set_level("INFO")
    async with gateway() as running, running.connected() as one:
        await one.stream.send(struct.pack(">i", size) + bytes(10))
        while not running.gateway.shared.memory.requests.taken:
            await anyio.lowlevel.checkpoint()
        async with running.connected() as other:
            assert (await other.produce("a", batch((None, b"1")))).error_code == 0
            await other.stream.send(struct.pack(">i", size) + bytes(10))
            assert await other.ended()
        while "requests have as much memory as they may" not in caplog.text:
            await anyio.lowlevel.checkpoint()


async def test_a_batch_that_finds_no_memory_is_sent_again_by_its_producer(monkeypatch):
    monkeypatch.setattr(memory_module, "MAX_BATCHES", 0)
    monkeypatch.setattr(memory_module, "WAIT_SECONDS", 0)
    async with gateway() as running, running.connected() as kafka:
        answer = await kafka.produce("a", batch((None, b"1")))
        assert answer.error_code == Code.REQUEST_TIMED_OUT
        assert await running.payloads("a") == []


async def test_a_fetch_that_finds_no_memory_is_answered_without_records(monkeypatch):
    """Consumers ask again, and have lost nothing."""
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch((None, b"1")))
        monkeypatch.setattr(memory_module, "WAIT_SECONDS", 0)
        async with running.gateway.shared.memory.responses.taking("", memory_module.MAX_RESPONSES):
            empty = await kafka.fetch("a", 0)
            assert (empty.error_code, empty.records) == (0, b"")
        assert (await kafka.fetch("a", 0)).records


async def test_all_memory_is_given_back():
    """Also that of a response which its client does not read to its end."""
    async with gateway() as running:
        memory = running.gateway.shared.memory
        await running.client.create_topic("a", retention_ttl="forever")
        for _ in range(8):
            await running.client.publish("a", bytes(1_000_000))
        async with running.connected() as kafka:
            assert (await kafka.produce("b", batch((None, b"1")))).error_code == 0
            assert (memory.requests.taken, memory.batches.taken) == (0, 0)
            wants = {"max_bytes": 2**23, "partition_max_bytes": 2**23}
            await kafka.send(fetch_request({"a": 0}, **wants), 11)
            while not memory.responses.taken:
                await anyio.lowlevel.checkpoint()
        while memory.responses.taken or memory.requests.taken:
            await anyio.lowlevel.checkpoint()


# -- the broker ----------------------------------------------------------------------------------


async def test_a_bug_ends_one_connection_only(monkeypatch, caplog):
    async def fail(*_):
        raise RuntimeError("a bug")

    row = REQUESTS[HeartbeatRequest.API_KEY]
    wrong = type(row)(row.request, row.oldest, row.newest, fail)
    monkeypatch.setitem(REQUESTS, HeartbeatRequest.API_KEY, wrong)
    async with gateway() as running:
        async with running.connected() as kafka:
            await kafka.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 2)
            await kafka.ended()
        while "a bug ended this connection" not in caplog.text:
            await anyio.lowlevel.checkpoint()
        await still_serves(running)


async def test_a_broker_that_comes_back_is_found_again(tmp_path):
    """Clients wait meanwhile; what they have stored before is there."""
    with embedded_broker(data=tmp_path) as broker:
        async with gateway(broker=broker) as running, running.connected() as kafka:
            assert (await kafka.produce("a", batch((None, b"1")))).error_code == 0
            assert (await kafka.fetch("a", 0)).records
            await anyio.to_thread.run_sync(broker.stop)
            await anyio.to_thread.run_sync(broker.start)
            assert (await kafka.produce("a", batch((None, b"2")))).base_offset == 1
            assert (await kafka.fetch("a", 1)).high_watermark == 2
