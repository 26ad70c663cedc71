"""Topics: how they are found, made, described and deleted."""

import pytest
from batches import batch
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest
from kafka_client import Kafka, gateway

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.names import CLAIM, OFFSETS

pytestmark = pytest.mark.anyio


async def create(kafka: Kafka, name="a", *, only_check=False, configs=None, **settings) -> int:
    topic = CreateTopicsRequest.CreatableTopic
    rows = [
        topic.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
    ]
    options = {"num_partitions": 1, "replication_factor": 1, "assignments": []} | settings
    request = CreateTopicsRequest(
        topics=[topic(name=name, configs=rows, **options)],
        timeout_ms=1000,
        validate_only=only_check,
    )
    return (await kafka.ask(request, 4)).topics[0].error_code


async def configs(kafka: Kafka, name="a", keys=None, kind=2):
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False)
    return (await kafka.ask(request, 2)).results[0]


# -- finding -------------------------------------------------------------------------------------


async def test_a_topic_has_one_partition_and_the_gateway_leads_it():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a")
        request = MetadataRequest(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await kafka.ask(request, 8)
        (broker,) = response.brokers
        assert (broker.host, broker.port) == ("127.0.0.1", running.gateway.port)
        (topic,) = response.topics
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index) == ("a", 0)
        assert partition.leader_id == broker.node_id == response.controller_id


@pytest.mark.parametrize("version", [0, 1, 4])
async def test_all_topics_are_those_that_clients_can_use(version):
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a", journal=65_536)
        topics = [] if version == 0 else None
        response = await kafka.ask(
            MetadataRequest(topics=topics, allow_auto_topic_creation=False), version
        )
        assert [topic.name for topic in response.topics] == ["a"]


async def test_no_topics_are_none():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a")
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        assert (await kafka.ask(request, 4)).topics == []


async def test_a_topic_is_made_if_the_client_says_so():
    async with gateway() as running, running.connected() as kafka:
        assert await kafka.metadata("a", create=False) == {"a": Code.UNKNOWN_TOPIC_OR_PARTITION}
        assert await running.client.topic("a") is None
        assert await kafka.metadata("a") == {"a": 0}
        assert await kafka.metadata("a", create=False) == {"a": 0}


@pytest.mark.parametrize("name", ["kafka/offsets", "kafka/x"])
async def test_the_gateways_own_topics_are_nobodys(name):
    async with gateway() as running, running.connected() as kafka:
        assert await kafka.metadata(name) == {name: Code.TOPIC_AUTHORIZATION_FAILED}


# -- making --------------------------------------------------------------------------------------


async def test_a_topic_made_by_a_client_keeps_a_million_messages():
    """With the broker's default, a consumer that comes late skips most of them, in silence."""
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("written", batch((None, b"1")))
        await kafka.metadata("asked")
        await create(kafka, "made")
        for name in ("written", "asked", "made"):
            settings = (await running.client.topic(name))["settings"]
            assert settings["capacity"] == 1_000_000
            assert settings["retention_ttl_ms"] == 2**64 - 1


async def test_a_topic_made_by_a_client_is_durable_if_the_broker_has_a_folder(tmp_path):
    async with gateway(data=tmp_path) as running, running.connected() as kafka:
        await kafka.produce("written", batch((None, b"1")))
        await kafka.metadata("asked")
        await create(kafka, "made")
        for name in ("written", "asked", "made"):
            assert (await running.client.topic(name))["settings"]["durable"] == 1


async def test_a_topic_of_ours_stays_as_it_is():
    async with gateway() as running, running.connected() as kafka:
        await running.client.create_topic("a", capacity=7)
        await kafka.produce("a", batch((None, b"1")))
        assert (await running.client.topic("a"))["settings"]["capacity"] == 7


async def test_a_topic_is_created_with_kafkas_settings():
    async with gateway() as running, running.connected() as kafka:
        asked = {
            "retention.ms": "60000",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "1",
            "compression.type": "producer",
            "cleanup.policy": "delete",
        }
        assert await create(kafka, "a", configs=asked) == 0
        assert await create(kafka, "b", configs={"cleanup.policy": "compact"}) == 0
        assert await create(kafka, "c", configs={"retention.ms": "-1"}) == 0
        assert await create(kafka, "d", configs={"retention.ms": "3155760000000"}) == 0
        found = {name: (await running.client.topic(name))["settings"] for name in ("a", "b", "c")}
        assert found["a"]["retention_ttl_ms"] == 60_000
        assert found["b"]["table"] == 1
        assert found["c"]["retention_ttl_ms"] == 2**64 - 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"num_partitions": 2}, Code.INVALID_PARTITIONS),
        ({"num_partitions": 0}, Code.INVALID_PARTITIONS),
        ({"replication_factor": 3}, Code.INVALID_REPLICATION_FACTOR),
        ({"configs": {"segment.bytes": "1000"}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "x"}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "-5"}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": None}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "3155760000001"}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "9" * 30}}, Code.INVALID_CONFIG),
        ({"configs": {"retention.ms": "9" * 400}}, Code.INVALID_CONFIG),
        # An answer that repeated all of it could not be encoded.
        ({"configs": {"retention.ms": "\x01" * 32_767}}, Code.INVALID_CONFIG),
        ({"configs": {"x" * 32_767: "1"}}, Code.INVALID_CONFIG),
        ({"configs": {"cleanup.policy": "compact,delete"}}, Code.INVALID_CONFIG),
        ({"configs": {"message.timestamp.type": "CreateTime"}}, Code.INVALID_CONFIG),
        ({"configs": {"min.insync.replicas": "2"}}, Code.INVALID_CONFIG),
        ({"name": "kafka/x"}, Code.TOPIC_AUTHORIZATION_FAILED),
        ({"name": "$x"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 201}, Code.INVALID_TOPIC_EXCEPTION),
        ({"only_check": True}, Code.NONE),
        ({"num_partitions": -1, "replication_factor": -1, "only_check": True}, Code.NONE),
    ],
)
async def test_what_cannot_be_created_is_refused_and_a_check_makes_nothing(settings, code):
    async with gateway() as running, running.connected() as kafka:
        assert await create(kafka, **settings) == code
        assert [t["name"] for t in await running.client.topics()] == [CLAIM, OFFSETS]


async def test_a_setting_that_no_durable_topic_can_have_is_an_invalid_one(tmp_path):
    async with gateway(data=tmp_path) as running, running.connected() as kafka:
        refused = await create(kafka, "a", configs={"retention.ms": "0"})
        assert refused == Code.INVALID_CONFIG


@pytest.mark.parametrize("only_check", [False, True])
async def test_a_name_that_exists_is_refused(only_check):
    async with gateway() as running, running.connected() as kafka:
        assert await create(kafka) == 0
        assert await create(kafka, only_check=only_check) == Code.TOPIC_ALREADY_EXISTS


async def test_what_the_broker_refuses_is_refused():
    """Two are the gateway's own."""
    async with gateway(max_topics=3) as running, running.connected() as kafka:
        assert await create(kafka, "a") == 0
        assert await create(kafka, "b") == Code.POLICY_VIOLATION
        assert await kafka.metadata("b") == {"b": Code.POLICY_VIOLATION}
        assert (await kafka.produce("b", batch((None, b"1")))).error_code == Code.POLICY_VIOLATION


# -- deleting and describing ---------------------------------------------------------------------


async def test_a_topic_is_deleted_with_what_is_known_of_its_producers():
    async with gateway() as running, running.connected() as kafka:
        data = batch((None, b"1"), producer=9, epoch=0, sequence=0)
        assert (await kafka.produce("a", data)).base_offset == 0
        request = DeleteTopicsRequest(topic_names=["a", "none", "kafka/offsets"], timeout_ms=1000)
        response = await kafka.ask(request, 3)
        assert [row.error_code for row in response.responses] == [
            0,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            Code.TOPIC_AUTHORIZATION_FAILED,
        ]
        assert await running.client.topic("a") is None
        assert await running.client.topic("kafka/offsets") is not None
        assert (await kafka.produce("a", data)).base_offset == 0
        assert len(await running.payloads("a")) == 1


async def test_settings_are_described_under_kafkas_names(tmp_path):
    async with gateway(data=tmp_path) as running, running.connected() as kafka:
        await running.client.create_topic("a", retention_ttl=60, max_bytes=5_000_000)
        await running.client.create_topic("b", durable=True, log_bytes=2_000_000_000, table=True)
        a, b = await configs(kafka, "a"), await configs(kafka, "b")
        assert {row.name: row.value for row in a.configs} == {
            "cleanup.policy": "delete",
            "retention.ms": "60000",
            "retention.bytes": "5000000",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "1",
            "compression.type": "producer",
        }
        found = {row.name: row.value for row in b.configs}
        assert (found["cleanup.policy"], found["retention.ms"]) == ("compact", "-1")
        assert found["retention.bytes"] == "2000000000"


async def test_only_the_settings_asked_for_are_described():
    async with gateway() as running, running.connected() as kafka:
        await create(kafka)
        found = await configs(kafka, keys=["retention.ms", "unknown"])
        assert [row.name for row in found.configs] == ["retention.ms"]
        missing = await configs(kafka, "none")
        assert missing.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        broker = await configs(kafka, "0", kind=4)
        assert (broker.error_code, broker.configs) == (0, [])


async def test_transactions_are_refused_for_good():
    async with gateway() as running, running.connected() as kafka:
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
        response = await kafka.ask(request, 1)
        assert response.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
