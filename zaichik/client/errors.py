"""The client's errors: one type for each error of the broker, all of them `ZaichikError`.

    try:
        await client.create_topic("orders", capacity=5)
    except zaichik.TopicExists as error:
        print(error)             # cause and next step, and its code: ... [TOPIC_EXISTS]
        print(error.code)        # 67, which is ErrorCode.TOPIC_EXISTS
        print(error.retryable)   # whether the same request may succeed later

Every message ends in the name of a code, and `zaichik explain TOPIC_EXISTS` explains it. Errors
that no broker answers with have such a name, too: that of their type, so `ConnectFailed` is
CONNECT_FAILED.
"""

# Not compiled: it has classes with two parents.

import re
from typing import ClassVar

from zaichik_protocol import EndCode, Error, ErrorCode, GoAwayCode


class Explained(Exception):
    """An error whose text ends in the name under which `zaichik explain` explains it.

    Args:
        message: one sentence for a person, without the name.
        name: the name, if the type has several.

    Attributes:
        name: see above; "" only for a type that is never raised itself.
    """

    name = ""

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()

    def __init__(self, message: str = "", name: str = "") -> None:
        super().__init__(message)
        if name:
            self.name = name

    @property
    def message(self) -> str:
        """The text without the name, for use inside another one."""
        return str(self.args[0])

    def __str__(self) -> str:
        if not self.name:
            return self.message
        return f"{self.message} [{self.name}]".lstrip()


def name_of(codes: type[ErrorCode | EndCode | GoAwayCode], code: int) -> str:
    """Returns the name of a code; "" if a later version of the protocol has added it."""
    try:
        return codes(code).name
    except ValueError:
        return ""


class ZaichikError(Explained):
    """Something went wrong between this client and its broker."""

    name = ""
    retryable = False


class ConnectFailed(ZaichikError):
    """No broker could be reached at the address."""

    retryable = True


class ConnectionLost(ZaichikError):
    """The connection was lost while it was in use, and was not replaced in time.

    Whether a request in progress was carried out is not known. If the broker said why it would
    close the connection, `name` is the name of that code, of `GoAwayCode` or `ErrorCode`.
    """

    retryable = True


class SubscriptionLost(ZaichikError):
    """The broker ended a subscription that this client had not unsubscribed from.

    `name` is one of `EndCode`.
    """


class TopicShrunk(ZaichikError):
    """A topic ends before an offset that it had reached, and was to be read up to it."""


class NotLossless(ZaichikError):
    """The topic could lose messages before they are replicated, so none is acknowledged (AK-1).

    Nothing was published, or subscribed to.
    """


class ReplicationLost(ZaichikError):
    """A message is stored, and is not replicated, or whether it will be cannot be known (AK-1).

    Args:
        topic: its topic.
        offset: where the broker has stored it; of a batch, the first one that this is true of.
        reason: why, to follow "offset 7 of orders is stored, but".
    """

    def __init__(self, topic: str, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset} of {topic} is stored, but {reason}")
        self.topic = topic
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made again from the message alone, which is not enough.
        return type(self), (self.topic, self.offset, self.reason), self.__dict__


class UnexpectedReply(ZaichikError):
    """The broker's reply was not what the request asks for: of another type, or without sense."""


class BrokerError(ZaichikError):
    """The broker refused a request.

    Attributes:
        code: the error's code; equal to a member of `ErrorCode`.
        field: the name of the request's field at fault, "" if no single one is.
        retryable: whether the same request may succeed later.
        retry_after: seconds to wait before that; 0.0 if the broker did not say.
    """

    name = ""
    _types: ClassVar[dict[int, type["BrokerError"]]] = {}

    def __init__(self, error: Error) -> None:
        name = ""
        if not self.name:
            # A later broker's code has no name here.
            name = str(error.code)
        super().__init__(error.message, name)
        self._error = error
        self.code = error.code
        self.field = error.field
        self.retryable = error.retryable
        self.retry_after = error.retry_after_ms / 1000

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made again from the message alone, which is not enough.
        return BrokerError.of, (self._error,), self.__dict__

    def __init_subclass__(cls, code: ErrorCode) -> None:
        super().__init_subclass__()
        BrokerError._types[code] = cls

    @classmethod
    def of(cls, error: Error) -> "BrokerError":
        """Returns the exception for an Error frame, of the type that belongs to its code."""
        return cls._types.get(error.code, BrokerError)(error)


class Malformed(BrokerError, code=ErrorCode.MALFORMED):
    """The broker could not parse what this client sent."""


class FrameTooLarge(BrokerError, code=ErrorCode.FRAME_TOO_LARGE):
    """A frame is larger than the broker accepts."""


class HelloRequired(BrokerError, code=ErrorCode.HELLO_REQUIRED):
    """The first frame was not a Hello."""


class UnsupportedVersion(BrokerError, code=ErrorCode.UNSUPPORTED_VERSION):
    """No protocol version is known to both sides."""


class HandshakeTimeout(BrokerError, code=ErrorCode.HANDSHAKE_TIMEOUT):
    """The Hello did not come in time."""


class FrameTimeout(BrokerError, code=ErrorCode.FRAME_TIMEOUT):
    """A frame was begun and not completed in time."""


class IdleTimeout(BrokerError, code=ErrorCode.IDLE_TIMEOUT):
    """The promised heartbeat did not come."""


class TlsRequired(BrokerError, code=ErrorCode.TLS_REQUIRED):
    """The port speaks TLS, and this client does not."""


class AuthFailed(BrokerError, code=ErrorCode.AUTH_FAILED):
    """The broker does not accept the credentials."""


class TooManyConnections(BrokerError, code=ErrorCode.TOO_MANY_CONNECTIONS):
    """The broker has as many connections as it allows, or this client has its share of them."""


class SlowConsumer(BrokerError, code=ErrorCode.SLOW_CONSUMER):
    """This client did not read what was waiting for it."""


class Internal(BrokerError, code=ErrorCode.INTERNAL):
    """The broker has a bug."""


class InvalidField(BrokerError, code=ErrorCode.INVALID_FIELD):
    """A value is outside its range."""


class Unsupported(BrokerError, code=ErrorCode.UNSUPPORTED):
    """The broker does not know this request or option."""


class NoSuchTopic(BrokerError, code=ErrorCode.NO_SUCH_TOPIC):
    """The topic does not exist and the broker does not create topics on first use."""


class TopicExists(BrokerError, code=ErrorCode.TOPIC_EXISTS):
    """The topic exists with other settings."""


class TooManyTopics(BrokerError, code=ErrorCode.TOO_MANY_TOPICS):
    """The broker has as many topics as it allows, or this client has created its share."""


class TooManySubscriptions(BrokerError, code=ErrorCode.TOO_MANY_SUBSCRIPTIONS):
    """This connection has as many subscriptions as its limit allows.

    Or the broker, or this client, as many names.
    """


class NoSuchSubscription(BrokerError, code=ErrorCode.NO_SUCH_SUBSCRIPTION):
    """The subscription has ended."""


class NotInFlight(BrokerError, code=ErrorCode.NOT_IN_FLIGHT):
    """A commit beyond what was delivered."""


class OffsetAhead(BrokerError, code=ErrorCode.OFFSET_AHEAD):
    """A start beyond the end of the topic."""


class EpochChanged(BrokerError, code=ErrorCode.EPOCH_CHANGED):
    """The topic's epoch is not the one named: it is a different topic."""


class Forbidden(BrokerError, code=ErrorCode.FORBIDDEN):
    """The user may not do this."""


class MessageTooLarge(BrokerError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """One message is larger than the broker accepts."""


class BatchTooLarge(BrokerError, code=ErrorCode.BATCH_TOO_LARGE):
    """A batch is larger than the broker, or the topic's ring, accepts."""


class TopicFull(BrokerError, code=ErrorCode.TOPIC_FULL):
    """Storing the batch would evict messages that a reader still needs."""


class TableFull(BrokerError, code=ErrorCode.TABLE_FULL):
    """The table would hold more messages or bytes than it may; only deleting keys makes room."""


class SequenceGap(BrokerError, code=ErrorCode.SEQUENCE_GAP):
    """An earlier batch of the producer is missing."""


class ProducerUnknown(BrokerError, code=ErrorCode.PRODUCER_UNKNOWN):
    """The broker has forgotten this producer."""


class NoMemory(BrokerError, code=ErrorCode.NO_MEMORY):
    """The broker has no room for what it would have to hold or remember."""


class NotEmpty(BrokerError, code=ErrorCode.NOT_EMPTY):
    """The topic was to be deleted only if empty, or the name to be forgotten, and is in use."""


class TakenOver(BrokerError, SubscriptionLost, code=ErrorCode.TAKEN_OVER):
    """Another subscription has taken over this one's name (CMT-3).

    The client does not try to get it back.
    """


class NoSuchName(BrokerError, code=ErrorCode.NO_SUCH_NAME):
    """The topic has no shared name like this."""


class StorageFull(BrokerError, code=ErrorCode.STORAGE_FULL):
    """The broker's disk has no room.

    Nothing was stored; the client tries again by itself (DUR-3).
    """


class Damaged(BrokerError, code=ErrorCode.DAMAGED):
    """The topic's log on the broker's disk is damaged (DUR-7)."""
