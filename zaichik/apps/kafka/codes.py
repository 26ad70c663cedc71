"""Kafka's error codes, and which of them a refusal of our broker becomes."""

from enum import IntEnum

from zaichik import BrokerError, ConnectionLost, NotLossless, ZaichikError
from zaichik_protocol import ErrorCode, Unencodable


class Code(IntEnum):
    """The error codes that the gateway answers with, under Kafka's own names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    UNSUPPORTED_SASL_MECHANISM = 33
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87


# Kafka's clients retry some codes and give up at others: a refusal that is final here is final
# there.
_OF_THE_BROKER = {
    ErrorCode.NO_SUCH_TOPIC: Code.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FORBIDDEN: Code.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.MESSAGE_TOO_LARGE: Code.MESSAGE_TOO_LARGE,
    ErrorCode.BATCH_TOO_LARGE: Code.RECORD_LIST_TOO_LARGE,
    ErrorCode.TOPIC_EXISTS: Code.TOPIC_ALREADY_EXISTS,
    ErrorCode.TOO_MANY_TOPICS: Code.POLICY_VIOLATION,
    ErrorCode.TABLE_FULL: Code.POLICY_VIOLATION,
    ErrorCode.NO_MEMORY: Code.POLICY_VIOLATION,
    ErrorCode.INVALID_FIELD: Code.INVALID_RECORD,
    ErrorCode.STORAGE_FULL: Code.KAFKA_STORAGE_ERROR,
    ErrorCode.DAMAGED: Code.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_AHEAD: Code.OFFSET_OUT_OF_RANGE,
    ErrorCode.EPOCH_CHANGED: Code.UNKNOWN_TOPIC_OR_PARTITION,
}


def code_of(error: ZaichikError | Unencodable) -> Code:
    """Returns the code that a refusal of the broker, or of its client, becomes.

    Raises:
        ConnectionLost: the error is that; a connection of Kafka's client ends with it.
    """
    if isinstance(error, ConnectionLost):
        raise error
    if isinstance(error, Unencodable):
        return Code.INVALID_TOPIC_EXCEPTION
    if isinstance(error, NotLossless):
        return Code.POLICY_VIOLATION
    if isinstance(error, BrokerError):
        return _OF_THE_BROKER.get(ErrorCode(error.code), Code.UNKNOWN_SERVER_ERROR)
    return Code.UNKNOWN_SERVER_ERROR
