"""The requests that are offered, in which versions, and what handles each.

The newest versions are the last ones before topics have ids instead of names, and 2.1's at least,
which Kafka 4's clients require. The oldest are announced as Kafka 4.1 announces them: librdkafka
switches features off if they are not.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from zaichik.apps.kafka import admin, commits, discovery, fetch, membership, produce
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.session import Session

Handler = Callable[[Session, Any, int], Awaitable[Any]]

PRODUCE = 0
SASL_HANDSHAKE = 17
API_VERSIONS = 18
SASL_AUTHENTICATE = 36


@dataclass(frozen=True, slots=True)
class Offered:
    """A request that is offered.

    Attributes:
        request: its class in `kafka.protocol`.
        oldest, newest: its versions.
        handle: makes the response, or None if the client wants none. None: the connection itself
            answers, for there is no session yet.
        waits: whether it may wait for others for minutes, and stores nothing, so that it is given
            up if its client leaves.
    """

    request: Any
    oldest: int
    newest: int
    handle: Handler | None
    waits: bool = False

    @property
    def name(self) -> str:
        """Kafka's name for it."""
        name = str(self.request.__name__)
        return name.removesuffix("Request")


_TABLE = (
    Offered(ProduceRequest, 0, 8, produce.produce),
    Offered(FetchRequest, 4, 11, fetch.fetch, waits=True),
    Offered(ListOffsetsRequest, 1, 5, fetch.list_offsets),
    Offered(MetadataRequest, 0, 8, discovery.metadata),
    Offered(OffsetCommitRequest, 2, 7, commits.offset_commit),
    Offered(OffsetFetchRequest, 1, 5, commits.offset_fetch),
    Offered(FindCoordinatorRequest, 0, 2, discovery.find_coordinator),
    Offered(JoinGroupRequest, 0, 5, membership.join_group, waits=True),
    Offered(HeartbeatRequest, 0, 3, membership.heartbeat),
    Offered(LeaveGroupRequest, 0, 2, membership.leave_group),
    Offered(SyncGroupRequest, 0, 3, membership.sync_group, waits=True),
    Offered(DescribeGroupsRequest, 0, 4, membership.describe_groups),
    Offered(ListGroupsRequest, 0, 2, membership.list_groups),
    Offered(SaslHandshakeRequest, 0, 1, None),
    Offered(ApiVersionsRequest, 0, 3, None),
    Offered(CreateTopicsRequest, 2, 4, admin.create_topics),
    Offered(DeleteTopicsRequest, 1, 3, admin.delete_topics),
    Offered(InitProducerIdRequest, 0, 1, produce.init_producer_id),
    Offered(DescribeConfigsRequest, 1, 2, admin.describe_configs),
    Offered(SaslAuthenticateRequest, 0, 1, None),
)
REQUESTS = {offered.request.API_KEY: offered for offered in _TABLE}


def name_of(key: int) -> str:
    """Returns Kafka's name for a request, which need not be offered."""
    try:
        return str(ApiKey(key).name)
    except ValueError:
        return f"number {key}"


def api_versions(code: Code) -> Any:
    """Returns the response to ApiVersions: what is offered."""
    keys = [
        ApiVersionsResponse.ApiVersion(
            api_key=key, min_version=offered.oldest, max_version=offered.newest
        )
        for key, offered in REQUESTS.items()
    ]
    return ApiVersionsResponse(error_code=code, api_keys=keys, throttle_time_ms=0)
