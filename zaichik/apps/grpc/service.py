"""The five calls of `broker.proto`: our client carries them out, and its errors become statuses.

    caller                     Service                          our client
      │ PublishRequest ──▶ Publish, one after the other ──▶ publish_batch
      │ Start ───────────▶ Subscribe ─────────────────────▶ subscribe(commit="explicit")
      │ Commit ──────────▶ _commit_as_told ───────────────▶ subscription.commit
      │ ◀─ Messages ────── _deliver ◀────────────────────── subscription.pieces

What a caller that does not read can make the gateway hold is, for each Subscribe, what it has
credit for, in messages and in bytes, and one list of messages being sent; for each Publish, one
batch and its answer. A deadline or a cancellation is a cancellation here: gRPC cancels the task
that carries the call out, which ends the subscription.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError
from grpc import StatusCode, aio

from zaichik import (
    BrokerError,
    Client,
    DeletionsMissed,
    Lagged,
    Message,
    NoSuchTopic,
    Subscription,
    ZaichikError,
)
from zaichik.apps.gateways.traffic import Connections, Traffic
from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc.broker_pb2_grpc import BrokerServicer
from zaichik.apps.grpc.logins import Logins
from zaichik.apps.grpc.statuses import status_of
from zaichik.apps.grpc.topic_settings import arguments_of, settings_of
from zaichik.apps.users.shares import Shares
from zaichik.client.messages import AckedBy, Missed, StartAt
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Describe, Error, ErrorCode, Publish

logger = logging.getLogger("zaichik.grpc.service")

DEFAULT_CREDIT = 1000
MOST_CREDIT = 10_000  # messages that a caller may have without committing: each takes some memory
CREDIT_BYTES = 1024 * 1024  # their bytes; a larger message is delivered alone
CODE = "zaichik-code"  # the trailing metadata with the broker's code
NOT_A_REQUEST = "these bytes are no request: a text is not UTF-8, or they are cut off or damaged"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Context: TypeAlias = aio.ServicerContext[Any, Any]


class TooManyCalls(ZaichikError):
    """A user has as many calls as the others leave."""

    name = "TOO_MANY_CONNECTIONS"  # as the broker answers in such a case
    retryable = True


class WrongRequest(ValueError):
    """A request is not one that its place in the stream, or its fields, allow."""


class Service(BrokerServicer):
    """Carries out all calls.

    Args:
        logins: what calls use.
        calls: where calls are counted, and what goes over them.
        most: how many calls there may be at a time.
        acked_by: what has to have batches before they are answered; None: the broker alone.
    """

    def __init__(
        self, logins: Logins, calls: Connections, most: int, acked_by: AckedBy | None = None
    ) -> None:
        self._logins = logins
        self._calls = calls
        self._shares = Shares(most)
        self._acked_by = acked_by

    # -- topics ----------------------------------------------------------------------------------

    async def CreateTopic(  # noqa: N802 - gRPC's name
        self, request: pb.CreateTopicRequest, context: Context
    ) -> pb.CreateTopicResponse:
        """Create a topic (TOP-1)."""
        async with self._answering(context) as (client, _):
            topic = await client.create_topic(request.topic, **arguments_of(request.settings))
            return pb.CreateTopicResponse(
                created=topic.created, epoch=topic.epoch, settings=settings_of(topic.settings)
            )

    async def DeleteTopic(  # noqa: N802
        self, request: pb.DeleteTopicRequest, context: Context
    ) -> pb.DeleteTopicResponse:
        """Delete a topic (TOP-6)."""
        async with self._answering(context) as (client, _):
            await client.delete_topic(request.topic, if_empty=request.if_empty, epoch=request.epoch)
            return pb.DeleteTopicResponse()

    async def Describe(  # noqa: N802
        self, request: pb.DescribeRequest, context: Context
    ) -> pb.DescribeResponse:
        """Describe a topic."""
        async with self._answering(context) as (client, _):
            state = await client.topic(request.topic)
            if state is None:
                raise _no_such_topic()
            return pb.DescribeResponse(
                epoch=state["epoch"],
                settings=settings_of(state["settings"]),
                head=state["head"],
                next_offset=state["next_offset"],
                subscriptions=state["subscriptions"],
            )

    # -- publishing ------------------------------------------------------------------------------

    async def Publish(  # noqa: N802
        self, requests: AsyncIterator[pb.PublishRequest], context: Context
    ) -> None:
        """Store batches, and answer each (PUB-1)."""
        async with self._answering(context) as (client, traffic):
            async for request in requests:
                _check_count(request, client.welcome.max_batch)
                traffic.received_messages += len(request.messages)
                try:
                    result = await client.publish_batch(
                        request.topic,
                        [_to_publish(message) for message in request.messages],
                        producer=request.producer,
                        number=request.number,
                        acked_by=self._acked_by,
                    )
                except (BrokerError, ValueError):
                    traffic.refused_messages += len(request.messages)
                    raise
                response = pb.PublishResponse(
                    first_offset=result.first_offset,
                    stored=result.stored,
                    dropped=result.dropped,
                    subscriptions=result.subscribers,
                    durable=result.durable,
                )
                await context.write(response)

    # -- reading ---------------------------------------------------------------------------------

    async def Subscribe(  # noqa: N802
        self, requests: AsyncIterator[pb.SubscribeRequest], context: Context
    ) -> None:
        """Deliver what a topic has, as far as there is credit (CMT-1)."""
        async with self._answering(context) as (client, traffic):
            start = await _first(requests)
            async with (
                client.subscribe(
                    start.topic,
                    start=_start_at(start),
                    epoch=start.epoch,
                    credit=_credit(start),
                    credit_bytes=CREDIT_BYTES,
                    name=start.name,
                    events=True,
                    commit="explicit",
                ) as subscription,
                BackgroundTasks() as tasks,
            ):
                tasks.group.start_soon(_commit_as_told, subscription, requests)
                await _deliver(subscription, context, traffic)

    # -- what is common to all calls ---------------------------------------------------------------

    @asynccontextmanager
    async def _answering(self, context: Context) -> AsyncIterator[tuple[Client, Traffic]]:
        """Returns the caller's client, and where messages are counted.

        An error in the block ends the call with its status.
        """
        try:
            metadata = context.invocation_metadata() or ()
            async with self._logins.user(metadata, context.peer()) as user:
                with self._in_share(user.name), self._calls.counted() as traffic:
                    yield user.client, traffic
        except Exception as error:
            await _abort(context, _first_of(error))

    @contextmanager
    def _in_share(self, user: str) -> Iterator[None]:
        """Count a call of a user for the length of the block.

        Raises:
            TooManyCalls: the user has too many.
        """
        calls = self._shares
        if not calls.may_take(user):
            raise TooManyCalls(
                f"you have {calls.of(user)} calls, and others may need the {calls.free} that are "
                "left; end one, or try later"
            )
        calls.take(user)
        try:
            yield
        finally:
            calls.give_back(user)


async def _abort(context: Context, error: Exception) -> None:
    """End a call with the status of an error.

    Raises:
        BaseError: always; it is for gRPC.
    """
    match error:
        case aio.BaseError():
            # The library's own: the server has stopped under the call, and nobody can be told.
            raise error
        case ZaichikError():
            status, code, text = status_of(error), error.name, str(error)
        case ValueError():
            # Our client's, for what the broker would not take.
            code = ErrorCode.INVALID_FIELD.name
            status, text = StatusCode.INVALID_ARGUMENT, f"{error} [{code}]"
        case DecodeError():
            code = ErrorCode.INVALID_FIELD.name
            status, text = StatusCode.INVALID_ARGUMENT, f"{NOT_A_REQUEST} [{code}]"
        case _:
            logger.error("a bug ended a call", exc_info=error)
            code = ErrorCode.INTERNAL.name
            status, text = StatusCode.INTERNAL, f"the gateway has a bug; its log says more [{code}]"
    await context.abort(status, text, ((CODE, code),))


def _first_of(error: Exception) -> Exception:
    """Returns an error of a group: that of a task in the background comes in one."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _no_such_topic() -> ZaichikError:
    problem = "there is no topic of this name that this user may see"
    return NoSuchTopic(Error(0, ErrorCode.NO_SUCH_TOPIC, Describe.TYPE, "topic", 0, problem))


def _check_count(request: pb.PublishRequest, most: int) -> None:
    """Refuse a batch of too many messages before any of them is looked at.

    An empty message takes two bytes in a request, and a hundred times as many when it is looked at.
    A request has room for 600,000 of them.

    Raises:
        BrokerError: BATCH_TOO_LARGE.
    """
    count = len(request.messages)
    if count > most:
        problem = (
            f"a batch of {count:,} messages is too large: the broker accepts at most {most:,} at "
            "once. Send it in pieces."
        )
        raise BrokerError.of(
            Error(0, ErrorCode.BATCH_TOO_LARGE, Publish.TYPE, "messages", 0, problem)
        )


def _to_publish(message: pb.NewMessage) -> tuple[bytes | None, bytes | None]:
    """Returns key and payload, as `publish_batch` takes them.

    Raises:
        WrongRequest: a tombstone has a payload.
    """
    key = None
    if message.HasField("key"):
        key = message.key
    if not message.tombstone:
        return key, message.payload
    if message.payload:
        raise WrongRequest("a tombstone deletes its key, so it has no payload")
    return key, None


async def _first(requests: AsyncIterator[pb.SubscribeRequest]) -> pb.Start:
    """Returns what is to be read.

    Raises:
        WrongRequest: something else comes first, or nothing.
    """
    async for request in requests:
        if request.HasField("start"):
            return request.start
        break
    raise WrongRequest("the first request of Subscribe must have `start`")


def _start_at(start: pb.Start) -> StartAt:
    """Returns where to begin, as `subscribe` takes it.

    Raises:
        WrongRequest: it is a time after the year 9999.
    """
    match start.WhichOneof("from"):
        case "offset":
            return start.offset
        case "time_us":
            try:
                return EPOCH + timedelta(microseconds=start.time_us)
            except OverflowError:
                raise WrongRequest(f"time_us is no time, but {start.time_us}") from None
        case "latest" if start.latest:
            return "latest"
    return "earliest"


def _credit(start: pb.Start) -> int:
    if start.credit > MOST_CREDIT:
        raise WrongRequest(f"credit must be at most {MOST_CREDIT}, not {start.credit}")
    return start.credit or DEFAULT_CREDIT


async def _commit_as_told(
    subscription: Subscription[Message | Missed], requests: AsyncIterator[pb.SubscribeRequest]
) -> None:
    """Commit what the caller says, until it says no more.

    Raises:
        WrongRequest: a request is no Commit.
        ZaichikError: the broker refuses one.
    """
    async for request in requests:
        if not request.HasField("commit"):
            raise WrongRequest("every request of Subscribe but the first must have `commit`")
        await subscription.commit(request.commit.offset)


async def _deliver(
    subscription: Subscription[Message | Missed], context: Context, traffic: Traffic
) -> None:
    """Send everything that comes.

    Raises:
        ZaichikError: nothing more will come.
    """
    started = pb.Started(
        epoch=subscription.epoch,
        start=subscription.start,
        live=subscription.live,
        resumed=subscription.resumed,
        table=subscription.table,
    )
    await context.write(pb.SubscribeResponse(started=started))
    async for item in subscription.pieces():
        match item:
            case Lagged():
                response = pb.SubscribeResponse(lagged=pb.Lagged(start=item.start, end=item.end))
            case DeletionsMissed():
                missed = pb.DeletionsMissed(below=item.below)
                response = pb.SubscribeResponse(deletions_missed=missed)
            case _:
                rows = [_delivered(message) for message in item]
                messages = pb.Messages(messages=rows, redelivered=subscription.redelivered)
                response = pb.SubscribeResponse(messages=messages)
                traffic.sent_messages += len(rows)
        await context.write(response)


def _delivered(message: Message) -> pb.Message:
    return pb.Message(
        offset=message.offset,
        accepted_us=round(message.timestamp * 1_000_000),
        key=message.key,
        payload=message.payload,
    )
