"""Topics: CreateTopics, DeleteTopics and DescribeConfigs."""

from collections.abc import Callable
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
)

from zaichik import ZaichikError
from zaichik.apps.kafka.codes import Code, code_of
from zaichik.apps.kafka.names import refusal
from zaichik.apps.kafka.session import Session
from zaichik_protocol import FOREVER, Unencodable

TOPIC = 2  # the kind of a resource; 4 is a broker, which has no settings here
DEFAULTS = (-1, 1)  # partitions and replicas that are offered
MOST_MS = 100 * 36525 * 24 * 60 * 60 * 10  # the broker's limit for retention: 100 years
# Of what a client has sent, in a sentence for it: a text of Kafka's has 32,767 bytes at most.
MOST_LETTERS = 80
DEFAULT_CONFIG, TOPIC_CONFIG = 5, 1  # where a setting comes from

_Created = CreateTopicsResponse.CreatableTopicResult
_Deleted = DeleteTopicsResponse.DeletableTopicResult
_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = _Result.DescribeConfigsResourceResult


# -- CreateTopics --------------------------------------------------------------------------------


class Refused(Exception):
    """A topic that is not made.

    Args:
        problem: why, for a person.
        code: Kafka's error code for it.
    """

    def __init__(self, problem: str, code: Code = Code.INVALID_REQUEST) -> None:
        super().__init__(problem)
        self.code = code


def _retention(value: str) -> dict[str, Any]:
    milliseconds = int(value)
    if milliseconds == -1:
        return {"retention_ttl": "forever"}
    if milliseconds < 0:
        raise ValueError("it is negative")
    if milliseconds > MOST_MS:
        raise ValueError("it is more than 100 years; -1 is for ever")
    return {"retention_ttl": milliseconds / 1000}


def _cleanup(value: str) -> dict[str, Any]:
    match value:
        case "delete":
            return {}
        case "compact":
            return {"table": True}
        case _:
            raise ValueError("it is neither delete nor compact")


def _one_of(*allowed: str) -> Callable[[str], dict[str, Any]]:
    """Returns a parser of a setting that has no choice here."""

    def parsed(value: str) -> dict[str, Any]:
        if value not in allowed:
            raise ValueError(f"it is not {' or '.join(allowed)}")
        return {}

    return parsed


# Kafka's settings that mean something here; each parser returns settings of `create_topic`.
CONFIGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "retention.ms": _retention,
    "cleanup.policy": _cleanup,
    "message.timestamp.type": _one_of("LogAppendTime"),
    "compression.type": _one_of("producer", "uncompressed"),
    "min.insync.replicas": _one_of("1"),
}


async def create_topics(session: Session, request: Any, _version: int) -> Any:
    """Returns which topics were made, and why others were not."""
    results = []
    for topic in request.topics:
        code, problem = Code.NONE, None
        try:
            settings = _wanted(topic)
            await _create(session, topic.name, settings, only_check=bool(request.validate_only))
        except Refused as error:
            code, problem = error.code, str(error)
            session.warn(f"CreateTopics {topic.name[:80]!r}", problem)
        results.append(_Created(name=topic.name, error_code=code, error_message=problem))
    return CreateTopicsResponse(throttle_time_ms=0, topics=results)


def _wanted(topic: Any) -> dict[str, Any]:
    """Returns the settings for `create_topic`.

    Raises:
        Refused: something was asked for that is not offered.
    """
    if (refused := refusal(topic.name)) is not Code.NONE:
        raise Refused("this cannot be a topic's name", refused)
    if topic.assignments:
        raise Refused("there is one broker, so nothing to assign", Code.INVALID_REQUEST)
    if topic.num_partitions not in DEFAULTS:
        raise Refused("a topic has one partition", Code.INVALID_PARTITIONS)
    if topic.replication_factor not in DEFAULTS:
        raise Refused("there is one broker", Code.INVALID_REPLICATION_FACTOR)
    settings: dict[str, Any] = {}
    for config in topic.configs:
        if config.name not in CONFIGS:
            problem = f"{config.name[:MOST_LETTERS]} is not known here"
            raise Refused(problem, Code.INVALID_CONFIG)
        try:
            settings |= CONFIGS[config.name](config.value or "")
        except ValueError as error:
            value = (config.value or "")[:MOST_LETTERS]
            problem = f"{config.name} cannot be {value!r}: {error}"
            raise Refused(problem, Code.INVALID_CONFIG) from error
    return settings


async def _create(
    session: Session, name: str, settings: dict[str, Any], *, only_check: bool
) -> None:
    if await session.client.topic(name) is not None:
        raise Refused("there is a topic of this name", Code.TOPIC_ALREADY_EXISTS)
    if only_check:
        return
    code = await session.shared.topics.create(session.client, name, settings)
    if code is Code.INVALID_RECORD:  # a value that the broker takes for no topic of this kind
        code = Code.INVALID_CONFIG
    if code is not Code.NONE:
        raise Refused("the broker refused; see the gateway's log", code)


# -- DeleteTopics --------------------------------------------------------------------------------


async def delete_topics(session: Session, request: Any, _version: int) -> Any:
    """Returns which topics were deleted, with their messages."""
    results = []
    for name in request.topic_names:
        code = refusal(name)
        if code is Code.NONE:
            try:
                await session.client.delete_topic(name)
            except (ZaichikError, Unencodable) as error:
                code = code_of(error)
                session.warn(f"DeleteTopics {name[:80]!r}", error)
            else:
                session.shared.producers.forget_topic(name)
        results.append(_Deleted(name=name, error_code=code))
    return DeleteTopicsResponse(throttle_time_ms=0, responses=results)


# -- DescribeConfigs -----------------------------------------------------------------------------


async def describe_configs(session: Session, request: Any, _version: int) -> Any:
    """Returns the settings of topics, as far as they mean the same in Kafka."""
    results = []
    for resource in request.resources:
        code, problem, configs = Code.NONE, None, {}
        if resource.resource_type == TOPIC:
            state = None
            code = refusal(resource.resource_name)
            if code is Code.NONE:
                state = await session.client.topic(resource.resource_name)
            if state is None:
                code = code or Code.UNKNOWN_TOPIC_OR_PARTITION
                problem = "there is no such topic"
            else:
                configs = _configs(state["settings"])
        wanted = resource.configuration_keys
        rows = [
            _described(name, value)
            for name, value in configs.items()
            if wanted is None or name in wanted
        ]
        result = _Result(
            error_code=code,
            error_message=problem,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=rows,
        )
        results.append(result)
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def _configs(settings: dict[str, int]) -> dict[str, str]:
    """Returns a topic's settings under Kafka's names."""
    retention_ms = settings["retention_ttl_ms"]
    if retention_ms == FOREVER:
        retention_ms = -1
    bytes_kept = settings["max_bytes"]
    if settings.get("durable"):
        bytes_kept = settings["log_bytes"]
    policy = "delete"
    if settings.get("table"):
        policy = "compact"
    return {
        "cleanup.policy": policy,
        "retention.ms": str(retention_ms),
        "retention.bytes": str(bytes_kept),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "1",
        "compression.type": "producer",
    }


def _described(name: str, value: str) -> Any:
    return _Config(
        name=name,
        value=value,
        read_only=True,
        is_default=False,
        config_source=TOPIC_CONFIG,
        is_sensitive=False,
        synonyms=[],
    )
