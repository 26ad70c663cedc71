"""zaichik's wire protocol: frames, batches, errors, and a codec that knows no sockets.

Reading order: `frames` (what can be said, and how it is laid out), `layout` (the types of fields), `codec` (from one
to the other), `batch` (how messages are carried), `errors` (what can go wrong), `hot` (the codec's fast twins).
The normative text is `protocol/README.md`.
"""

from zaichik_protocol.batch import Batch
from zaichik_protocol.codec import HELLO_MAX_FRAME, NEED_DATA, FrameDecoder, NeedData, encode, encode_pieces
from zaichik_protocol.errors import EndCode, ErrorCode, GoAwayCode, ProtocolError, Refused, Unencodable
from zaichik_protocol.frames import (
    DEFAULT_PORT,
    DURABLE,
    EVENTS,
    FOREVER,
    HEARTBEAT,
    OWNER,
    PROTOCOL_VERSION,
    REPLIES,
    REQUESTS,
    AdvanceClock,
    ClockAdvanced,
    Close,
    Closed,
    Commit,
    Committed,
    CreateTopic,
    Delete,
    Deleted,
    Describe,
    Described,
    Disconnect,
    Disconnected,
    Error,
    Explain,
    Explained,
    Frame,
    GoAway,
    Hello,
    Kind,
    Lagged,
    Messages,
    Overflow,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    TopicCreated,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)

__all__ = [
    "DEFAULT_PORT", "DURABLE",
    "EVENTS", "FOREVER", "HEARTBEAT", "HELLO_MAX_FRAME", "NEED_DATA", "OWNER", "PROTOCOL_VERSION", "REPLIES",
    "REQUESTS",
    "AdvanceClock", "Batch", "ClockAdvanced",
    "Close", "Closed", "Commit", "Committed", "CreateTopic", "Delete", "Deleted", "Describe", "Described",
    "Disconnect", "Disconnected", "EndCode", "Error", "ErrorCode", "Explain", "Explained", "Frame", "FrameDecoder",
    "GoAway", "GoAwayCode", "Hello", "Kind", "Lagged", "Messages", "NeedData", "Overflow", "Ping", "Pong",
    "ProtocolError", "Publish",
    "Published", "Refused", "Setting", "Start", "Subscribe", "Subscribed", "SubscriptionEnded", "TopicCreated",
    "Unencodable", "Unsubscribe", "Unsubscribed", "Welcome", "encode", "encode_pieces",
]  # fmt: skip
