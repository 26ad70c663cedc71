"""What a worker asks for when it joins a shared name (SHR-1)."""

import math
from dataclasses import dataclass, replace

from zaichik.client.errors import BrokerError
from zaichik.client.messages import Duration
from zaichik.client.work.verdict import timeout_ms
from zaichik_protocol import FOREVER, SHARED, Error, ErrorCode, Subscribe

DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_DELIVERIES = 5
# Nothing waits here, unopened, behind a long job (SHR-4).
DEFAULT_CREDIT = 1


@dataclass(frozen=True, slots=True)
class WorkTerms:
    """The arguments of `Client.subscribe` that are for shared names alone."""

    timeout: Duration = DEFAULT_TIMEOUT
    max_deliveries: int = DEFAULT_MAX_DELIVERIES
    by_key: bool = False

    def check_unused(self) -> None:
        """Refuse terms of a subscription that is not shared.

        Raises:
            ValueError: there are some.
        """
        if self != WorkTerms():
            raise ValueError(
                "timeout, max_deliveries and by_key are for shared names: add shared=True, and a "
                "name"
            )

    def applied(self, request: Subscribe, *, events: bool, explicit: bool = False) -> Subscribe:
        """Returns the request as one for a shared name.

        Raises:
            ValueError: something in it is not for shared names, or a term is out of range.
        """
        if not request.name:
            raise ValueError("a shared subscription needs a name, which the workers have in common")
        if request.until != FOREVER:
            raise ValueError("a shared name has no end: `until` is not for it")
        if events:
            raise ValueError(
                "messages of a shared name come without events; what was gone is in `lagged`"
            )
        if explicit:
            raise ValueError(
                "each message of a shared name is settled by itself: commit='explicit' is not for "
                "it"
            )
        if not 0 <= self.max_deliveries < 2**16:
            raise ValueError(f"max_deliveries must be 0 to 65535, not {self.max_deliveries}")
        return replace(
            request,
            timeout_ms=timeout_ms(self.timeout),
            max_deliveries=self.max_deliveries,
            shared=True,
            by_key=self.by_key,
        )


def seconds_of(request: Subscribe) -> float:
    """Returns the time-out that a request asks for, in seconds; `math.inf` for none."""
    if not request.timeout_ms:
        return math.inf
    return request.timeout_ms / 1000


def check_known(features: int) -> None:
    """Refuse to ask a broker for a shared name that does not know them.

    Raises:
        Unsupported: it does not.
    """
    if not features & SHARED:
        problem = "this broker has no shared names: it is older than they are"
        raise BrokerError.of(Error(0, ErrorCode.UNSUPPORTED, Subscribe.TYPE, "shared", 0, problem))
