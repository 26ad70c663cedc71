"""Validation of requests: names, sizes and credits.

Each refusal says what is wrong and what is allowed.
"""

import unicodedata

from zaichik.base.counted import counted
from zaichik.core.settings import BrokerSettings, out_of_range
from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import Quota
from zaichik_protocol import FOREVER, Batch, ErrorCode, Refused, Subscribe

OWN_TOPICS = "$"  # first character of the names of the broker's own topics
MAX_NAME = 200  # bytes: room for a sentence
MOST_TIMEOUT_MS = 24 * 3_600_000  # of a worker
TOPICS = "$topics"  # the table of all topics (PAT-1)
SHOWN = 40  # characters of an invalid name that its refusal repeats


def is_own(topic: str) -> bool:
    """Returns whether a topic of that name is one of the broker's own."""
    return topic.startswith(OWN_TOPICS)


def check_name(name: str, field: str) -> None:
    """Refuse an invalid name of a topic (TOP-4) or of a subscription (CMT-3).

    Raises:
        Refused: `INVALID_FIELD`.
    """
    size = len(name.encode())
    if not 1 <= size <= MAX_NAME:
        problem = f"it has {size} bytes; 1 to {MAX_NAME} are allowed"
    elif any(unicodedata.category(letter) == "Cc" for letter in name):
        problem = "it contains control characters"
    elif field == "topic" and is_own(name):
        problem = "names beginning with $ belong to the broker"
    else:
        return
    what = "subscription name"
    if field == "topic":
        what = "topic name"
    shown = repr(name[:SHOWN])
    if len(name) > SHOWN:
        shown += "..."
    raise Refused(ErrorCode.INVALID_FIELD, f"{what} {shown}: {problem}", field)


def check_publish(topic: str, batch: Batch, limits: BrokerSettings) -> None:
    """Refuse a batch that is too large for any topic, or for a topic of the broker's own (JRN-2).

    Raises:
        Refused: `MESSAGE_TOO_LARGE`, `BATCH_TOO_LARGE`, `INVALID_FIELD`.
    """
    # As `is_own` does: a call for each batch costs time.
    if topic.startswith(OWN_TOPICS):
        problem = f"topic {topic[:MAX_NAME]!r} is the broker's: only it may publish there"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "topic")
    if batch.size > limits.max_message:
        code = ErrorCode.BATCH_TOO_LARGE
        if batch.count == 1:
            code = ErrorCode.MESSAGE_TOO_LARGE
        problem = (
            f"keys and payloads have {batch.size} bytes; at most {limits.max_message} are "
            "allowed in a batch"
        )
        raise Refused(code, problem, "batch")
    if batch.count > limits.max_batch:
        problem = (
            f"the batch has {counted(batch.count, 'message')}; the limit (max_batch) is "
            f"{limits.max_batch}"
        )
        raise Refused(ErrorCode.BATCH_TOO_LARGE, problem, "batch")
    # Only if all keys together are longer than the limit can a single one be: they are rarely
    # measured one by one.
    if batch.key_size > limits.max_key:
        longest = max(map(len, batch.keys()))
        if longest > limits.max_key:
            problem = f"a key has {longest} bytes; at most {limits.max_key} are allowed"
            raise Refused(ErrorCode.INVALID_FIELD, problem, "batch")


def check_subscribe(request: Subscribe, last: int, count: int, limits: BrokerSettings) -> None:
    """Refuse a subscription whose fields are out of range, or that is over the connection's limit.

    Args:
        request: the request.
        last: the id of the connection's last subscription.
        count: how many subscriptions the connection has.
        limits: the broker's.

    Raises:
        Refused: `INVALID_FIELD`, `TOO_MANY_SUBSCRIPTIONS`.
    """
    if request.id <= last:
        problem = f"id is {request.id}; it must be greater than that of the last Subscribe, {last}"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "id")
    if request.name:
        check_name(request.name, "name")
    if request.shared:
        _check_shared(request)
        check_list(request.tickets, "tickets", limits)
    elif request.by_key:
        problem = "by_key is for shared names: share the name as well"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "by_key")
    if request.owned and not request.owner:
        raise out_of_range("owner", 0, "at least 1")
    if not 1 <= request.credit <= limits.max_credit:
        raise out_of_range("credit", request.credit, f"1 to {limits.max_credit}")
    if request.credit_bytes == 0:
        raise out_of_range("credit_bytes", 0, "at least 1")
    if count >= limits.max_subscriptions:
        problem = (
            f"this connection has {count} subscriptions, which is the limit (max_subscriptions). "
            "Unsubscribe from one, or open another connection."
        )
        raise Refused(ErrorCode.TOO_MANY_SUBSCRIPTIONS, problem)


def _check_shared(request: Subscribe) -> None:
    """Refuse what a subscription to a shared name cannot have (SHR-1, SHR-3).

    Raises:
        Refused: `INVALID_FIELD`.
    """
    if not request.name:
        problem = "what is shared is a name: give it one"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "name")
    if request.until != FOREVER:
        problem = "a shared name has no end: leave `until` out"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "until")
    if request.timeout_ms > MOST_TIMEOUT_MS:
        raise out_of_range("timeout_ms", request.timeout_ms, f"at most {MOST_TIMEOUT_MS}")
    if request.topic == TOPICS:
        problem = "a table of topics is no work: its names cannot be shared"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "topic")


def check_list(numbers: tuple[int, ...], field: str, limits: BrokerSettings) -> None:
    """Refuse a list of more numbers than a turn can go through (LAG-5).

    Raises:
        Refused: `INVALID_FIELD`.
    """
    most = limits.max_batch
    if len(numbers) > most:
        raise out_of_range(f"length of {field}", len(numbers), f"at most {most}", field)


def check_memory(request: Subscribe, memory: Quota, client: str) -> None:
    """Refuse a subscription if the client's share of the broker's memory has no room (LAG-6).

    Raises:
        Refused: `NO_MEMORY`.
    """
    needed = prices.SUBSCRIPTION
    if request.name:
        needed += prices.NAME
    if not memory.has_room(client, needed):
        problem = (
            f"a subscription needs {needed} bytes, and this client has used up its share of the "
            f"broker's memory (max_client_bytes is {memory.limit}). Unsubscribe from a topic first."
        )
        raise Refused(ErrorCode.NO_MEMORY, problem)
