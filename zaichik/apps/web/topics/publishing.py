"""A body becomes a message as it is, or a batch of lines, and the answer says where it is stored.

A request waits for room in a full topic for `PUBLISH_S` and no longer. What it could not store by
then is given up (see `producers`). With `--acked-by`, the rest of that time is for the replication
of what is stored (AK-1).
"""

import json
from hashlib import blake2b
from typing import Any

import anyio
from starlette.requests import Request

from zaichik import BatchResult, BrokerError, ProducerUnknown, ReplicationLost
from zaichik.apps.web.topics.bodies import Bodies
from zaichik.apps.web.topics.counts import Counts
from zaichik.apps.web.topics.idempotency import Attempt, Idempotency
from zaichik.apps.web.topics.lines import Row, rows_of
from zaichik.apps.web.topics.link import Line
from zaichik.apps.web.topics.places import Places
from zaichik.apps.web.topics.producers import Number
from zaichik.apps.web.topics.statuses import RETRY_S, Refusal
from zaichik.client.messages import AckedBy, batch_of
from zaichik_protocol import Batch

LINES = "application/x-ndjson"
PUBLISH_S = 5.0
REPLICATED_S = PUBLISH_S  # since the request began
# How many requests may wait for the broker: half of all connections, so that a full topic does not
# keep everybody else out.
MOST_PUBLISHES = 128
PING_S = 1.0
# Of a batch's body, in bytes of its messages: base64, and JSON around them.
TEXT_RATIO = 2


class Publishing:
    """Publishes the bodies of requests.

    Args:
        counts: counts what is published.
        acked_by: what has to have messages before they are answered; None: the broker alone.
    """

    def __init__(self, counts: Counts, acked_by: AckedBy | None = None) -> None:
        self._counts = counts
        self._acked_by = acked_by
        self._bodies = Bodies()
        self._places = Places(MOST_PUBLISHES, "TOO_MANY_PUBLISHES", "publishes under way")
        self._idempotency = Idempotency()

    async def answer(
        self, request: Request, line: Line, user: str, topic: str, key: str | None
    ) -> bytes:
        """Returns the answer to a request whose message, or batch, is stored, as JSON.

        Args:
            request: its body is not read yet.
            line: to the broker.
            user: whose idempotency keys count.
            topic: where to.
            key: of the message; None: it has none, or the body is a batch, which has keys.

        Raises:
            Refusal: it was not stored.
            ZaichikError: the broker has refused it.
        """
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_batch = media_type == LINES
        if is_batch and key is not None:
            raise Refusal("BAD_REQUEST", "each line of a batch has its own key")
        most = line.client.welcome.max_message
        if is_batch:
            most *= TEXT_RATIO
        # A body that comes slowly takes no place: its connection may have to make room.
        async with self._bodies.of(request, most) as body:
            rows: list[Row] = [(_key(key), body)]
            if is_batch:
                rows = rows_of(body, line.client.welcome.max_batch)
            with self._places.taking(user):
                repeated = request.headers.get("idempotency-key")
                if repeated is None:
                    result = await self._stored(line, topic, rows, Attempt(b""))
                    return _answer(result, is_batch=is_batch)
                digest = _digest(key, body, is_batch=is_batch)
                async with self._idempotency.turn(user, topic, repeated, digest) as attempt:
                    if not attempt.answer:
                        result = await self._stored(line, topic, rows, attempt)
                        self._idempotency.keep(attempt, _answer(result, is_batch=is_batch))
                    return attempt.answer

    async def _stored(
        self, line: Line, topic: str, rows: list[Row], attempt: Attempt
    ) -> BatchResult:
        if self._acked_by is None:
            result = await _stored(line, topic, rows, attempt)
            self._counts.published += len(rows)
            return result
        ends_at = anyio.current_time() + REPLICATED_S
        acknowledgement = await line.client.acknowledgement(topic, self._acked_by)
        # Under its number, a repeat may be found in a topic that was deleted since.
        if attempt.number is None:
            attempt.epoch = acknowledgement.epoch
        result = await _stored(line, topic, rows, attempt)
        attempt.epoch = attempt.epoch or acknowledgement.epoch
        self._counts.published += len(rows)
        with anyio.CancelScope(deadline=ends_at):
            try:
                await acknowledgement.confirm(result, attempt.epoch)
            except ReplicationLost:
                # Under its number it would only be found where it is.
                attempt.number = None
                raise
            return result
        raise Refusal(
            "NOT_REPLICATED",
            f"this is stored, and {self._acked_by} does not have it yet; send it again later, with "
            "an Idempotency-Key if it must not be stored twice",
            RETRY_S,
        )


async def _stored(line: Line, topic: str, rows: list[Row], attempt: Attempt) -> BatchResult:
    """Returns the result of messages that are stored.

    Raises:
        Refusal: they were not, in time.
        ZaichikError: the broker has refused them.
    """
    try:
        batch, tombstones = batch_of(rows)
    except ValueError as problem:
        raise Refusal("BAD_REQUEST", str(problem)) from None
    with anyio.move_on_after(PUBLISH_S):
        return await _numbered(line, topic, batch, attempt, tombstones=tombstones)
    with anyio.move_on_after(PING_S):
        await line.client.ping()
        raise Refusal(
            "TOPIC_FULL",
            f"the topic, or the broker's disk, has had no room for this for {PUBLISH_S:g} s; "
            "send it again later, with an Idempotency-Key if it must not be stored twice",
            RETRY_S,
        )
    raise Refusal(
        "NOT_ANSWERED",
        "the broker has not answered in time, so whether this was stored is not known; "
        "send it again, with an Idempotency-Key if it must not be stored twice",
        RETRY_S,
    )


async def _numbered(
    line: Line, topic: str, batch: Batch, attempt: Attempt, *, tombstones: bool
) -> BatchResult:
    """Returns the result of a batch, which keeps its number if this is given up."""
    if attempt.number is None:
        attempt.number = line.producers.take(topic)
    while True:
        try:
            return await line.producers.publish(attempt.number, batch, tombstones=tombstones)
        except ProducerUnknown:
            # A broker that has forgotten the producer has forgotten the topic's memory with it, or
            # ten minutes have passed.
            attempt.number = Number.fresh(topic)
            attempt.epoch = 0
        except BrokerError as refusal:
            # The number is used up, and would have the same refusal again.
            if not refusal.retryable:
                attempt.number = None
            raise


def _answer(result: BatchResult, *, is_batch: bool) -> bytes:
    counted: dict[str, Any] = {"subscribers": result.subscribers, "durable": result.durable}
    stored: dict[str, Any]
    if is_batch:
        stored = {
            "first_offset": result.first_offset,
            "stored": result.stored,
            "compacted": result.compacted,
            "dropped": list(result.dropped),
        }
    else:
        offset: int | None = None
        if result.stored:
            offset = result.first_offset
        stored = {"offset": offset, "compacted": bool(result.compacted)}
    return json.dumps(stored | counted).encode() + b"\n"


def _key(key: str | None) -> bytes | None:
    if key is None:
        return None
    return key.encode()


def _digest(key: str | None, body: bytes, *, is_batch: bool) -> bytes:
    """Returns what differs if other messages are to be published."""
    digest = blake2b(body, digest_size=16)
    digest.update(repr((key, is_batch, len(body))).encode())
    return digest.digest()
