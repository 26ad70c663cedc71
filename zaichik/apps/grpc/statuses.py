"""Which gRPC status each of the broker's codes becomes.

The codes are those of errors (`ErrorCode`), of the ends of subscriptions (`EndCode`) and of
connections (`GoAwayCode`), and our client's own. Their names are distinct where their meanings are,
so one table has them all.
"""

from grpc import StatusCode

from zaichik import ZaichikError

STATUSES = {
    # The request is wrong, whatever the broker's state.
    "INVALID_FIELD": StatusCode.INVALID_ARGUMENT,
    "MESSAGE_TOO_LARGE": StatusCode.INVALID_ARGUMENT,
    "BATCH_TOO_LARGE": StatusCode.INVALID_ARGUMENT,
    "NOT_IN_FLIGHT": StatusCode.OUT_OF_RANGE,
    "OFFSET_AHEAD": StatusCode.OUT_OF_RANGE,
    "UNSUPPORTED": StatusCode.UNIMPLEMENTED,
    # The user may not do this.
    "AUTH_FAILED": StatusCode.UNAUTHENTICATED,
    "CREDENTIALS_ENDED": StatusCode.UNAUTHENTICATED,
    "FORBIDDEN": StatusCode.PERMISSION_DENIED,
    # The topic, or what is known of it, is not as the request has it.
    "NO_SUCH_TOPIC": StatusCode.NOT_FOUND,
    "NO_SUCH_NAME": StatusCode.NOT_FOUND,
    "DELETED": StatusCode.NOT_FOUND,
    "TOPIC_EXISTS": StatusCode.ALREADY_EXISTS,
    "NO_SUCH_SUBSCRIPTION": StatusCode.FAILED_PRECONDITION,
    "EPOCH_CHANGED": StatusCode.FAILED_PRECONDITION,
    "SEQUENCE_GAP": StatusCode.FAILED_PRECONDITION,
    "PRODUCER_UNKNOWN": StatusCode.FAILED_PRECONDITION,
    "NOT_EMPTY": StatusCode.FAILED_PRECONDITION,
    "NOT_LOSSLESS": StatusCode.FAILED_PRECONDITION,
    "TAKEN_OVER": StatusCode.ABORTED,
    "DAMAGED": StatusCode.DATA_LOSS,
    "TOPIC_SHRUNK": StatusCode.DATA_LOSS,
    "REPLICATION_LOST": StatusCode.DATA_LOSS,
    # There is no room.
    "TOO_MANY_CONNECTIONS": StatusCode.RESOURCE_EXHAUSTED,
    "TOO_MANY_TOPICS": StatusCode.RESOURCE_EXHAUSTED,
    "TOO_MANY_SUBSCRIPTIONS": StatusCode.RESOURCE_EXHAUSTED,
    "TOPIC_FULL": StatusCode.RESOURCE_EXHAUSTED,
    "TABLE_FULL": StatusCode.RESOURCE_EXHAUSTED,
    "NO_MEMORY": StatusCode.RESOURCE_EXHAUSTED,
    "STORAGE_FULL": StatusCode.RESOURCE_EXHAUSTED,
    # The broker cannot be reached, or not now: the same call may succeed later.
    "CONNECT_FAILED": StatusCode.UNAVAILABLE,
    "CONNECTION_LOST": StatusCode.UNAVAILABLE,
    "STOPPING": StatusCode.UNAVAILABLE,
    "DISCONNECTED": StatusCode.UNAVAILABLE,
    "STORAGE": StatusCode.UNAVAILABLE,
    "HANDSHAKE_TIMEOUT": StatusCode.UNAVAILABLE,
    "FRAME_TIMEOUT": StatusCode.UNAVAILABLE,
    "IDLE_TIMEOUT": StatusCode.UNAVAILABLE,
    "SLOW_CONSUMER": StatusCode.UNAVAILABLE,
    # The gateway and the broker do not understand each other, which no caller can change.
    "MALFORMED": StatusCode.INTERNAL,
    "FRAME_TOO_LARGE": StatusCode.INTERNAL,
    "HELLO_REQUIRED": StatusCode.INTERNAL,
    "UNSUPPORTED_VERSION": StatusCode.INTERNAL,
    "TLS_REQUIRED": StatusCode.INTERNAL,
    "INTERNAL": StatusCode.INTERNAL,
    "UNEXPECTED_REPLY": StatusCode.INTERNAL,
    "CLUSTER_MAP_UNUSABLE": StatusCode.INTERNAL,
}


def status_of(error: ZaichikError) -> StatusCode:
    """Returns the status; UNKNOWN for a code of a later version."""
    return STATUSES.get(error.name, StatusCode.UNKNOWN)
