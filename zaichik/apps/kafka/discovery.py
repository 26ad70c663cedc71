"""Where things are: Metadata and FindCoordinator. The answer is always this gateway."""

from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.names import refusal
from zaichik.apps.kafka.session import Session

NODE = 0  # the gateway's number among Kafka's brokers, of which it is the only one
CLUSTER = "zaichik"
LEADER_EPOCH = 0  # there is no other leader

ALWAYS_CREATES = 3  # the last version that has no word on whether topics are to be made
ALL_BY_NONE = 0  # the version in which no topics means all
GROUP = 0  # the kind of key that names a consumer group

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition


async def metadata(session: Session, request: Any, version: int) -> Any:
    """Returns the topics that were asked for, or all, each with its one partition."""
    wants_all = request.topics is None
    if version == ALL_BY_NONE and not request.topics:
        wants_all = True
    if wants_all:
        codes = dict.fromkeys(await _names(session), Code.NONE)
    else:
        may_create = version <= ALWAYS_CREATES or request.allow_auto_topic_creation
        codes = {}
        for topic in request.topics:
            codes[topic.name] = await session.shared.topics.found(
                session.client, topic.name, create=bool(may_create)
            )
    broker = MetadataResponse.MetadataResponseBroker(
        node_id=NODE, host=session.shared.host, port=session.shared.port, rack=None
    )
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[broker],
        cluster_id=CLUSTER,
        controller_id=NODE,
        topics=[_described(name, code) for name, code in codes.items()],
    )


async def _names(session: Session) -> list[str]:
    counters = await session.client.counters()
    names = [str(state["name"]) for state in counters]
    return [name for name in names if refusal(name) is Code.NONE]


def _described(name: str, code: Code) -> Any:
    partitions = []
    if code is Code.NONE:
        partition = _Partition(
            error_code=Code.NONE,
            partition_index=0,
            leader_id=NODE,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=[NODE],
            isr_nodes=[NODE],
            offline_replicas=[],
        )
        partitions.append(partition)
    return _Topic(error_code=code, name=name, is_internal=False, partitions=partitions)


async def find_coordinator(session: Session, request: Any, version: int) -> Any:
    """Returns this gateway for a consumer group, and a final error for a transaction."""
    code, problem = Code.NONE, None
    if version >= 1 and request.key_type != GROUP:
        code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        problem = "transactions are not offered"
        session.warn("FindCoordinator", problem)
    return FindCoordinatorResponse(
        throttle_time_ms=0,
        error_code=code,
        error_message=problem,
        node_id=NODE,
        host=session.shared.host,
        port=session.shared.port,
    )
