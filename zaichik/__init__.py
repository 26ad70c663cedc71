"""zaichik: a message broker whose core can be read in an afternoon, to run for real.

To use it: `connect` to a broker; `serve` runs one, `running_broker` runs one inside a program. To
read it: docs/understand/reading.md has ten files in order, with the minutes that each takes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zaichik.client.client import Client, connect
from zaichik.client.endpoint import Credentials, Endpoint, endpoint
from zaichik.client.epochs import LostTopic
from zaichik.client.errors import (
    AuthFailed,
    BatchTooLarge,
    BrokerError,
    ClusterMapUnusable,
    ConnectFailed,
    ConnectionLost,
    Damaged,
    EpochChanged,
    Forbidden,
    FrameTimeout,
    FrameTooLarge,
    HandshakeTimeout,
    HelloRequired,
    IdleTimeout,
    Internal,
    InvalidField,
    Malformed,
    MessageTooLarge,
    NoMemory,
    NoSuchName,
    NoSuchSubscription,
    NoSuchTopic,
    NotEmpty,
    NotInFlight,
    NotLossless,
    OffsetAhead,
    ProducerUnknown,
    ReplicationLost,
    SequenceGap,
    SlowConsumer,
    StorageFull,
    SubscriptionLost,
    TableFull,
    TakenOver,
    TlsRequired,
    TooManyConnections,
    TooManySubscriptions,
    TooManyTopics,
    TopicExists,
    TopicFull,
    TopicShrunk,
    UnexpectedReply,
    Unsupported,
    UnsupportedVersion,
    ZaichikError,
)
from zaichik.client.messages import (
    BatchResult,
    DeletionsMissed,
    Lagged,
    Message,
    PatternEvent,
    PublishResult,
    Topic,
    TopicGone,
    TopicMissed,
    TopicUnread,
)
from zaichik.client.patterns.subscription import PatternSubscription
from zaichik.client.producer import Producer
from zaichik.client.subscription import Subscription
from zaichik.client.work.dead import DeadMessage
from zaichik.client.work.message import WorkMessage
from zaichik.client.work.subscription import WorkSubscription
from zaichik.net.tls_settings import ClientTls, client_tls
from zaichik_protocol import DEFAULT_PORT

if TYPE_CHECKING:
    from zaichik.base.clock import Clock, ManualClock, SystemClock
    from zaichik.client.cluster.cluster import Cluster, cluster
    from zaichik.core.settings import BrokerSettings, TopicSettings
    from zaichik.server.running import running_broker, serve
    from zaichik.server.server import Server
    from zaichik.storage.disk import StorageFailed
    from zaichik.storage.store import CannotOpen

# Most programs are clients of one broker. What runs a broker takes half as long again to import, so
# it is imported on first use.
_LATER = {
    "BrokerSettings": "core.settings",
    "CannotOpen": "storage.store",
    "Clock": "base.clock",
    "Cluster": "client.cluster.cluster",
    "ManualClock": "base.clock",
    "Server": "server.server",
    "StorageFailed": "storage.disk",
    "SystemClock": "base.clock",
    "TopicSettings": "core.settings",
    "cluster": "client.cluster.cluster",
    "running_broker": "server.running",
    "serve": "server.running",
}

__all__ = [
    "DEFAULT_PORT",
    "AuthFailed",
    "BatchResult",
    "BatchTooLarge",
    "BrokerError",
    "BrokerSettings",
    "CannotOpen",
    "Client",
    "ClientTls",
    "Clock",
    "Cluster",
    "ClusterMapUnusable",
    "ConnectFailed",
    "ConnectionLost",
    "Credentials",
    "Damaged",
    "DeadMessage",
    "DeletionsMissed",
    "Endpoint",
    "EpochChanged",
    "Forbidden",
    "FrameTimeout",
    "FrameTooLarge",
    "HandshakeTimeout",
    "HelloRequired",
    "IdleTimeout",
    "Internal",
    "InvalidField",
    "Lagged",
    "LostTopic",
    "Malformed",
    "ManualClock",
    "Message",
    "MessageTooLarge",
    "NoMemory",
    "NoSuchName",
    "NoSuchSubscription",
    "NoSuchTopic",
    "NotEmpty",
    "NotInFlight",
    "NotLossless",
    "OffsetAhead",
    "PatternEvent",
    "PatternSubscription",
    "Producer",
    "ProducerUnknown",
    "PublishResult",
    "ReplicationLost",
    "SequenceGap",
    "Server",
    "SlowConsumer",
    "StorageFailed",
    "StorageFull",
    "Subscription",
    "SubscriptionLost",
    "SystemClock",
    "TableFull",
    "TakenOver",
    "TlsRequired",
    "TooManyConnections",
    "TooManySubscriptions",
    "TooManyTopics",
    "Topic",
    "TopicExists",
    "TopicFull",
    "TopicGone",
    "TopicMissed",
    "TopicSettings",
    "TopicShrunk",
    "TopicUnread",
    "UnexpectedReply",
    "Unsupported",
    "UnsupportedVersion",
    "WorkMessage",
    "WorkSubscription",
    "ZaichikError",
    "client_tls",
    "cluster",
    "connect",
    "endpoint",
    "running_broker",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"zaichik.{_LATER[name]}"), name)
