"""The answer to a Hello: what both sides can do, and the limits that a client has to know."""

from zaichik.broker.settings import out_of_range
from zaichik.broker.state import State
from zaichik_protocol import DURABLE, HEARTBEAT, OWNER, PROTOCOL_VERSION, ErrorCode, Hello, Refused, Welcome


def welcome(broker: State, request: Hello) -> Welcome:
    """Returns the answer to a connection's Hello.

    Raises:
        Refused: `UNSUPPORTED_VERSION`, `INVALID_FIELD`.
    """
    if not request.version_min <= PROTOCOL_VERSION <= request.version_max:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"this broker speaks version {PROTOCOL_VERSION} only; "
            f"the client speaks {request.version_min} to {request.version_max}",
            "version_max",
        )
    if request.auth > 2:
        raise out_of_range("auth", request.auth, "0 to 2")
    limits = broker.settings
    return Welcome(
        request.id,
        version=PROTOCOL_VERSION,
        features=request.features & (HEARTBEAT | OWNER | DURABLE),
        boot=broker.boot,
        max_frame=limits.max_frame,
        max_batch=limits.max_batch,
        max_message=limits.max_message,
        max_credit=limits.max_credit,
        idle_ms=round(limits.idle_timeout * 1000) if request.features & HEARTBEAT else 0,
        broker=broker.name,
    )
