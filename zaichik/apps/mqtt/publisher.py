"""Storing what clients publish: in batches, in order, and answered for each message (MQ-5).

Messages that came together are one batch for each topic of the broker. Retained ones are stored in
the table first, then in their topic: a new subscriber gets such a message from the table, or live,
or both, but never not at all (MQ-9).

If the broker refuses a batch, its messages are sent one by one: one that is refused is answered by
itself, and the others are stored.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from zaichik import BrokerError, Client, EpochChanged, NotLossless, ZaichikError
from zaichik.apps.mqtt import forwarding
from zaichik.apps.mqtt.packets import NO_PROPERTIES, Publish, ReasonCode
from zaichik.apps.mqtt.publications import Publication, Publications
from zaichik.apps.mqtt.retained import Retained, Row
from zaichik.apps.mqtt.spaces import RETAINED, Spaces, is_storable
from zaichik.base.escapes import shown
from zaichik.client.messages import AckedBy
from zaichik_protocol import ErrorCode

if TYPE_CHECKING:
    from zaichik.client.replication.acknowledgement import Acknowledgement

logger = logging.getLogger("zaichik.mqtt.publisher")

# What the broker says, as MQTT says it. All else is an error without a name.
REASONS: dict[int, ReasonCode] = {
    ErrorCode.FORBIDDEN: ReasonCode.NOT_AUTHORIZED,
    ErrorCode.MESSAGE_TOO_LARGE: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.BATCH_TOO_LARGE: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.TOPIC_FULL: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.TABLE_FULL: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.NO_MEMORY: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.STORAGE_FULL: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.TOO_MANY_TOPICS: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.INVALID_FIELD: ReasonCode.TOPIC_NAME_INVALID,
}
# A batch is about this large at most; the broker has limits of its own besides.
MOST_BATCH_BYTES = 256 * 1024


@dataclass(slots=True)
class Outgoing:
    """A message that is being stored.

    Attributes:
        message: the packet that it came in.
        space: the broker's topic for it.
        key: its key there.
        code: how it went.
        acknowledgement: what its own one waits for; None: for nothing.
        is_replicable: whether it can be acknowledged after replication, if it is to be.
    """

    message: Publish
    space: str
    key: bytes
    code: ReasonCode = ReasonCode.SUCCESS
    acknowledgement: "Acknowledgement | None" = None
    is_replicable: bool = True

    @property
    def size(self) -> int:
        """Its bytes in a batch."""
        return len(self.key) + len(self.message.payload)


class Publisher:
    """Stores messages for all clients.

    Args:
        client: the gateway's own, for the retained messages.
        spaces: where MQTT's topics are.
        publications: by the broker's topic, what is known of the messages in it.
        retained: the retained messages.
        now_us: the time.
        acked_by: what has to have messages before they are acknowledged; None: the broker alone.
    """

    def __init__(
        self,
        client: Client,
        spaces: Spaces,
        publications: dict[str, Publications],
        retained: Retained,
        now_us: Callable[[], int],
        acked_by: AckedBy | None = None,
    ) -> None:
        # By the broker's topic, the offset after the last message that was stored by the gateway.
        self.ends = dict.fromkeys(spaces.names, 0)
        self._client = client
        self._spaces = spaces
        self._publications = publications
        self._retained = retained
        self._now_us = now_us
        self._acked_by = acked_by

    def outgoing(self, message: Publish) -> Outgoing:
        """Returns where a message goes; or, in its code, why it goes nowhere (MQ-1)."""
        topic = message.topic
        address = self._spaces.address(topic)
        one = Outgoing(message, address.space, address.key)
        if topic.startswith("$"):
            one.code = ReasonCode.NOT_AUTHORIZED
        elif not is_storable(address) or topic == f"{address.space}/":
            one.code = ReasonCode.TOPIC_NAME_INVALID
        elif message.properties is not NO_PROPERTIES:
            self._add_properties(one)
        return one

    def _add_properties(self, one: Outgoing) -> None:
        """Put a message's properties into its key: they share its bytes with the topic (MQ-3)."""
        message = one.message
        address = self._spaces.address(message.topic, forwarding.stored(message.properties))
        one.key = address.key
        if not is_storable(address):
            one.code = ReasonCode.QUOTA_EXCEEDED

    async def publish(
        self, via: Client, messages: Sequence[Publish], publisher: str, number: int = 0
    ) -> list[ReasonCode]:
        """Returns when these are stored, or refused: for each message, how it went (G-3).

        Nobody waits for their replication: it is for wills.

        Args:
            via: the client of the user who publishes.
            messages: in their order.
            publisher: the name of the session.
            number: of a single message, with which it is stored once however often it is
                published; 0: it has none.

        Raises:
            ConnectionLost: the broker is gone.
            EpochChanged: a topic is another one by now.
        """
        items = await self._stored(via, messages, publisher, number)
        return [item.code for item in items]

    async def store(
        self, via: Client, messages: Sequence[Publish], publisher: str
    ) -> list[Outgoing]:
        """Returns when these are stored, or refused: how, and what their acknowledgements wait for.

        Args and errors are those of `publish`.
        """
        return await self._stored(via, messages, publisher, 0, self._acked_by)

    async def _stored(
        self,
        via: Client,
        messages: Sequence[Publish],
        publisher: str,
        number: int,
        acked_by: AckedBy | None = None,
    ) -> list[Outgoing]:
        items = [self.outgoing(message) for message in messages]
        await self._store_retained([item for item in items if item.message.retain])
        good = [item for item in items if not item.code.is_failure]
        for space in self._spaces.names:
            mine = [item for item in good if item.space == space]
            for batch in self._batches(via, mine):
                await self._store(via, space, batch, publisher, number, acked_by)
        return items

    def _batches(self, via: Client, items: list[Outgoing]) -> list[list[Outgoing]]:
        """Returns these in pieces that the broker takes as a batch."""
        most = min(MOST_BATCH_BYTES, via.welcome.max_message)
        batches: list[list[Outgoing]] = []
        size = most
        for item in items:
            size += item.size
            if size > most or len(batches[-1]) >= via.welcome.max_batch:
                batches.append([])
                size = item.size
            batches[-1].append(item)
        return batches

    async def _store(
        self,
        via: Client,
        space: str,
        batch: list[Outgoing],
        publisher: str,
        number: int,
        acked_by: AckedBy | None,
    ) -> None:
        publications = self._publications[space]
        acknowledgement = None
        # Of QoS 0, nothing is acknowledged.
        if acked_by is not None and any(item.message.qos for item in batch):
            try:
                # The gateway's own client follows the watermark, for all users.
                acknowledgement = await self._client.acknowledgement(space, acked_by)
            except (NotLossless, BrokerError) as error:
                _refuse(batch, error)
                for item in batch:
                    item.is_replicable = False
                return
        # The reader's own connection has answers and echoes in order.
        pending = None
        if via is not self._client:
            pending = publications.sent()
        try:
            result = await via.publish_batch(
                space,
                [(item.key or None, item.message.payload) for item in batch],
                producer=number,
            )
        except EpochChanged:
            raise
        except BrokerError as error:
            await self._store_singly(via, space, batch, publisher, error, acked_by)
        else:
            dropped = set(result.dropped)
            stored = [item for index, item in enumerate(batch) if index not in dropped]
            publications.note(result.first_offset, _noted(stored, publisher))
            self.ends[space] = max(self.ends[space], result.first_offset + result.stored)
            if acknowledgement is not None:
                acknowledgement.expect(result.first_offset, result.stored)
                for item in batch:
                    item.acknowledgement = acknowledgement
        finally:
            if pending is not None:
                publications.answered(pending)

    async def _store_singly(
        self,
        via: Client,
        space: str,
        batch: list[Outgoing],
        publisher: str,
        error: BrokerError,
        acked_by: AckedBy | None,
    ) -> None:
        if len(batch) > 1:
            for item in batch:
                await self._store(via, space, [item], publisher, 0, acked_by)
            return
        _refuse(batch, error)

    async def _store_retained(self, items: list[Outgoing]) -> None:
        """Store rows of the table, and deletions."""
        rows: list[_Stored] = []
        topics: set[str] = set()
        for item in items:
            topic = item.message.topic
            # To delete what is not there would only leave a tombstone.
            is_useless = not item.message.payload and topic not in topics
            if item.code.is_failure or (is_useless and topic not in self._retained):
                continue
            topics.add(topic)
            rows.append(_Stored(item, self._row(item.message)))
        for batch in self._pieces(rows):
            await self._store_rows(batch)

    def _row(self, message: Publish) -> Row | None:
        if not message.payload:
            return None
        properties = forwarding.stored(message.properties)
        return Row(message.qos, self._now_us(), properties, message.payload)

    def _pieces(self, rows: list["_Stored"]) -> list[list["_Stored"]]:
        """Returns rows in batches that the broker takes."""
        welcome = self._client.welcome
        most = min(MOST_BATCH_BYTES, welcome.max_message)
        pieces: list[list[_Stored]] = []
        size = most
        for row in rows:
            size += row.size
            if size > most or len(pieces[-1]) >= welcome.max_batch:
                pieces.append([])
                size = row.size
            pieces[-1].append(row)
        return pieces

    async def _store_rows(self, rows: list["_Stored"]) -> None:
        batch = [(row.topic, row.data) for row in rows]
        try:
            result = await self._client.publish_batch(RETAINED, batch)
        except EpochChanged:
            raise
        except BrokerError as error:
            if len(rows) > 1:
                for row in rows:
                    await self._store_rows([row])
                return
            rows[0].item.code = reason_of(error)
            logger.warning("a message to '%s' is not retained: %s", shown(rows[0].topic), error)
        else:
            for offset, row in enumerate(rows, result.first_offset):
                self._retained.note(row.topic, row.row, offset)


class _Stored:
    """A row that is being stored.

    Attributes:
        item: the message.
        row: the row; None: it is deleted.
        topic: its key.
        data: the row, encoded; None: it is deleted.
        size: its bytes in a batch.
    """

    def __init__(self, item: Outgoing, row: Row | None) -> None:
        self.item = item
        self.row = row
        self.topic = item.message.topic
        self.data: bytes | None = None
        self.size = len(self.topic.encode())
        if row is not None:
            self.data = row.encoded()
            self.size += len(self.data)


def _noted(items: list[Outgoing], publisher: str) -> list[Publication]:
    """Returns what is remembered of messages; those that follow each other share it."""
    noted: list[Publication] = []
    for (qos, retain), group in groupby(
        items, key=lambda item: (item.message.qos, item.message.retain)
    ):
        publication = Publication(qos, retain, publisher)
        noted += [publication for _ in group]
    return noted


def _refuse(batch: list[Outgoing], error: ZaichikError) -> None:
    for item in batch:
        item.code = reason_of(error)
    logger.warning("a message to '%s' was refused: %s", shown(batch[0].message.topic), error)


def reason_of(error: ZaichikError) -> ReasonCode:
    """Returns the reason code for an error of the broker, or of our client."""
    code = 0
    if isinstance(error, BrokerError):
        code = error.code
    return REASONS.get(code, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
