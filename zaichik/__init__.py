"""zaichik: a tiny message broker to read in an afternoon and run for real.

To read it, begin with `tutorial/tiny_broker.py` (15 minutes), the whole broker in one plain file. Then
`zaichik_protocol` (20), the broker in its four rooms (75; the docstring of `zaichik.broker` has the order of the files)
and `zaichik.client` (15).
To use it: `connect` to a broker; `serve` runs one, `running_broker` runs one inside a program.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zaichik.access.contexts import ClientTls, client_tls
from zaichik.client.client import Client, connect
from zaichik.client.endpoint import Credentials, Endpoint, endpoint
from zaichik.client.epochs import LostTopic
from zaichik.client.errors import (
    AuthFailed,
    BatchTooLarge,
    BrokerError,
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
    NoSuchSubscription,
    NoSuchTopic,
    NotEmpty,
    NotInFlight,
    OffsetAhead,
    ProducerUnknown,
    SequenceGap,
    SlowConsumer,
    StorageFull,
    SubscriptionLost,
    TakenOver,
    TlsRequired,
    TooManyConnections,
    TooManySubscriptions,
    TooManyTopics,
    TopicExists,
    TopicFull,
    UnexpectedReply,
    Unsupported,
    UnsupportedVersion,
    ZaichikError,
)
from zaichik.client.messages import BatchResult, Lagged, Message, PublishResult, Topic
from zaichik.client.producer import Producer
from zaichik.client.subscription import Subscription
from zaichik_protocol import DEFAULT_PORT

if TYPE_CHECKING:
    from zaichik.broker.clock import Clock, ManualClock, SystemClock
    from zaichik.broker.settings import BrokerSettings, TopicSettings
    from zaichik.log.disk import StorageFailed
    from zaichik.log.store import CannotOpen
    from zaichik.running import running_broker, serve
    from zaichik.serving.server import Server

# Most programs are clients. What runs a broker takes half as long again to import, so it is imported on first use.
_BROKER = {
    "BrokerSettings": "broker.settings",
    "CannotOpen": "log.store",
    "Clock": "broker.clock",
    "ManualClock": "broker.clock",
    "Server": "serving.server",
    "StorageFailed": "log.disk",
    "SystemClock": "broker.clock",
    "TopicSettings": "broker.settings",
    "running_broker": "running",
    "serve": "running",
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
    "ConnectFailed",
    "ConnectionLost",
    "Credentials",
    "Damaged",
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
    "NoSuchSubscription",
    "NoSuchTopic",
    "NotEmpty",
    "NotInFlight",
    "OffsetAhead",
    "Producer",
    "ProducerUnknown",
    "PublishResult",
    "SequenceGap",
    "Server",
    "SlowConsumer",
    "StorageFailed",
    "StorageFull",
    "Subscription",
    "SubscriptionLost",
    "SystemClock",
    "TakenOver",
    "TlsRequired",
    "TooManyConnections",
    "TooManySubscriptions",
    "TooManyTopics",
    "Topic",
    "TopicExists",
    "TopicFull",
    "TopicSettings",
    "UnexpectedReply",
    "Unsupported",
    "UnsupportedVersion",
    "ZaichikError",
    "client_tls",
    "connect",
    "endpoint",
    "running_broker",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _BROKER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"zaichik.{_BROKER[name]}"), name)
