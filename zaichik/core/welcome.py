"""The answer to a Hello: what both sides can do, and the limits that a client has to know."""

from typing import TYPE_CHECKING

from zaichik.core.settings import out_of_range
from zaichik_protocol import (
    DURABLE,
    HEARTBEAT,
    OWNER,
    PROTOCOL_VERSION,
    SHARED,
    TABLES,
    Auth,
    ErrorCode,
    Hello,
    Refused,
    Welcome,
)

if TYPE_CHECKING:
    from zaichik.core.broker import Broker

OFFERED = HEARTBEAT | OWNER | DURABLE | TABLES | SHARED  # the features that this broker has


def welcome(broker: "Broker", request: Hello) -> Welcome:
    """Returns the answer to a connection's Hello.

    Raises:
        Refused: `UNSUPPORTED_VERSION`, `INVALID_FIELD`.
    """
    if not request.version_min <= PROTOCOL_VERSION <= request.version_max:
        problem = (
            f"this broker speaks version {PROTOCOL_VERSION} only; "
            f"the client speaks {request.version_min} to {request.version_max}"
        )
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, problem, "version_max")
    if request.auth > Auth.PASSWORD:
        raise out_of_range("auth", request.auth, "0 to 2")
    limits = broker.settings
    features = request.features & OFFERED
    # A client that has promised no heartbeat may be silent for any time.
    idle_ms = 0
    if features & HEARTBEAT:
        idle_ms = round(limits.idle_timeout * 1000)
    return Welcome(
        request.id,
        version=PROTOCOL_VERSION,
        features=features,
        boot=broker.boot,
        max_frame=limits.max_frame,
        max_batch=limits.max_batch,
        max_message=limits.max_message,
        max_credit=limits.max_credit,
        idle_ms=idle_ms,
        broker=broker.name,
    )
