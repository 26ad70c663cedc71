"""The status of every error, in one table, and what an answer says about it.

The body of an error is `{"error": NAME, "text": SENTENCE}`. The names are the protocol's where the
broker has refused something, the client's where the broker cannot be asked, and those of `OWN`
where it was not asked. `Retry-After` is there if the same request may succeed later.
"""

import json
import math

from starlette.responses import Response

from zaichik import BrokerError, ZaichikError
from zaichik.base.escapes import harmless

RETRY_S = 1  # where the broker has not said when to try again

# What the broker, or the client in its place, can answer. A test compares the names with all codes
# of the protocol and all errors of the client.
STATUSES = {
    # Fatal errors of our own connection to the broker: the HTTP client is not at fault.
    "MALFORMED": 502,
    "HELLO_REQUIRED": 502,
    "UNSUPPORTED_VERSION": 502,
    "HANDSHAKE_TIMEOUT": 503,
    "FRAME_TIMEOUT": 503,
    "IDLE_TIMEOUT": 503,
    "SLOW_CONSUMER": 503,
    "TOO_MANY_CONNECTIONS": 503,
    "INTERNAL": 502,
    "TLS_REQUIRED": 502,
    # What this user may not do.
    "AUTH_FAILED": 401,
    "CREDENTIALS_ENDED": 401,
    "FORBIDDEN": 403,
    # What is wrong with the request.
    "INVALID_FIELD": 400,
    "NO_SUCH_TOPIC": 404,
    "NO_SUCH_NAME": 404,
    "FRAME_TOO_LARGE": 413,
    "MESSAGE_TOO_LARGE": 413,
    "BATCH_TOO_LARGE": 413,
    "OFFSET_AHEAD": 416,
    "UNSUPPORTED": 501,
    # What is otherwise by now than the request takes it to be.
    "TOPIC_EXISTS": 409,
    "NOT_EMPTY": 409,
    "NO_SUCH_SUBSCRIPTION": 409,
    "NOT_IN_FLIGHT": 409,
    "SEQUENCE_GAP": 409,
    "PRODUCER_UNKNOWN": 409,
    "TAKEN_OVER": 409,
    "NOT_LOSSLESS": 409,
    "EPOCH_CHANGED": 410,
    "DELETED": 410,
    "TOPIC_SHRUNK": 410,
    # No room, which time or somebody else may make.
    "TOPIC_FULL": 503,
    "NO_MEMORY": 503,
    "TOO_MANY_SUBSCRIPTIONS": 503,
    "TOO_MANY_TOPICS": 507,
    "STORAGE_FULL": 507,
    "TABLE_FULL": 507,
    # No broker, or none that answers as it should.
    "CONNECT_FAILED": 503,
    "CONNECTION_LOST": 503,
    "STOPPING": 503,
    "DISCONNECTED": 503,
    "STORAGE": 503,
    "DAMAGED": 500,
    "REPLICATION_LOST": 500,
    "SUBSCRIPTION_LOST": 410,
    "UNEXPECTED_REPLY": 502,
    "CLUSTER_MAP_UNUSABLE": 502,
}

# What is answered before the broker is asked.
OWN = {
    "BAD_REQUEST": 400,
    "LOGIN_REQUIRED": 401,
    "READ_ONLY": 403,
    "FOREIGN_ORIGIN": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "NOT_ACCEPTABLE": 406,
    "BODY_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "MISDIRECTED_REQUEST": 421,
    "IDEMPOTENCY_KEY_REUSED": 422,
    "TOO_MANY_REQUESTS": 429,
    "TOO_MANY_STREAMS": 503,
    "TOO_MANY_PUBLISHES": 503,
    "NOT_ANSWERED": 503,
    "NOT_REPLICATED": 503,
}


class Refusal(Exception):
    """A request that is answered with an error.

    Args:
        name: of the error, in one of the tables.
        text: a sentence for a person: what is wrong, and what to do.
        retry_after: seconds after which the same request may succeed; None: it will not.
        headers: more of them.

    Attributes:
        status: of the answer.
        is_temporary: whether the same request may succeed later.
    """

    def __init__(
        self,
        name: str,
        text: str,
        retry_after: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(name, text, retry_after, headers)
        self.name = name
        self.text = text
        self.retry_after = retry_after
        self.status = _status(name)
        self.is_temporary = retry_after is not None
        self._headers = headers or {}

    @classmethod
    def of(cls, error: ZaichikError) -> "Refusal":
        """Returns the refusal that passes an error of the client on."""
        retry_after: float | None = None
        if error.retryable:
            retry_after = RETRY_S
            if isinstance(error, BrokerError) and error.retry_after:
                retry_after = error.retry_after
        return cls(error.name, error.message, retry_after)

    @property
    def body(self) -> dict[str, str]:
        """What the answer says."""
        return {"error": self.name, "text": harmless(self.text)}

    @property
    def response(self) -> Response:
        """The answer."""
        headers = dict(self._headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(
            json.dumps(self.body) + "\n", self.status, headers, media_type="application/json"
        )


def _status(name: str) -> int:
    """Returns the status of an error.

    A later broker's code has a number in the place of its name, by which it is known whether the
    connection has ended with it.
    """
    known = STATUSES.get(name) or OWN.get(name)
    if known is not None:
        return known
    if name.isdecimal() and int(name) < 64:
        return 502
    return 400
