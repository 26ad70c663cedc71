"""The positions of consumer groups: rows of the table `kafka/offsets`.

    key      ["USER", "GROUP", "TOPIC"]                          as JSON: names are free text
    payload  {"offset": 5, "epoch": 1769846400000000, "note": "…"}

A position is of one *epoch* of its topic. If the topic was deleted and made again, its offsets mean
something else, and there is no position.

A row is stored before the commit is answered. The table is read once, at the start; a row that
cannot be read is logged and passed over, for it must not keep the gateway from starting. As in
Kafka, positions keep no message from being evicted.
"""

import json
import logging
from dataclasses import dataclass

import anyio

from zaichik import Client, TopicExists, Unsupported
from zaichik.apps.kafka.names import OFFSETS
from zaichik.base.escapes import shown

logger = logging.getLogger("zaichik.kafka.positions")

MAX_KEY_BYTES = 1024  # the broker's limit
MAX_NOTE_BYTES = 4096  # Kafka's limit
NO_OFFSET = -1
MAX_OFFSET = 2**63


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group is in a topic.

    Attributes:
        offset: of the next message that it reads.
        epoch: the topic's.
        note: whatever the group has written with it.
    """

    offset: int
    epoch: int
    note: str = ""


Place = tuple[str, str, str]  # a user, a group, a topic


class Positions:
    """The positions of all groups.

    Args:
        client: of the gateway's own user, whose table it is.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Place, Position] = {}
        self._boot = 0  # of the broker that was seen to have the table
        self._storing = anyio.Lock()

    async def load(self) -> None:
        """Read the table, which is made if there is none.

        Raises:
            TopicExists: there is a topic of the name that is not a table.
            BrokerError: the gateway's user may not read it.
        """
        await self._create()
        state = await self._client.topic(OFFSETS)
        if state is None or state["next_offset"] == 0:
            return
        end = state["next_offset"]
        async with self._client.subscribe(OFFSETS, until=end) as subscription:
            async for message in subscription:
                self._read(message.key or b"", message.payload)

    async def _create(self) -> None:
        boot = self._client.welcome.boot
        if boot == self._boot:
            return
        try:
            await self._client.create_topic(OFFSETS, table=True, durable=True)
        except Unsupported:  # the broker has no folder for durable topics
            await self._client.create_topic(OFFSETS, table=True)
        self._boot = boot

    def _read(self, key: bytes, payload: bytes) -> None:
        try:
            place = _place(key)
            if not payload:
                self._known.pop(place, None)
                return
            position = _position(payload)
        except _UNREADABLE as error:
            logger.warning(
                "%s: a position cannot be read, and is passed over: %s",
                OFFSETS,
                shown(str(error)[:80]),
            )
            return
        self._known[place] = position

    def get(self, place: Place) -> Position | None:
        """Returns where a group is in a topic; None if it has not committed."""
        return self._known.get(place)

    def topics_of(self, user: str, group: str) -> list[str]:
        """Returns the topics in which a group has positions, sorted."""
        return sorted(
            topic for owner, name, topic in self._known if owner == user and name == group
        )

    def groups_of(self, user: str) -> set[str]:
        """Returns the names of the groups that have positions."""
        return {name for owner, name, _ in self._known if owner == user}

    async def store(self, rows: dict[Place, Position]) -> None:
        """Store positions; returns when they are in the table, and on the disk if it is durable.

        Raises:
            BrokerError: the broker refused them, with `TableFull` for example.
        """
        if not rows:
            return
        batch = [
            (_key(place), json.dumps(_row(position), ensure_ascii=False).encode())
            for place, position in rows.items()
        ]
        # One after the other, so that the table's last row is the last that was answered.
        async with self._storing:
            try:
                # After a restart, a broker without a folder has lost the table.
                await self._create()
            except TopicExists:
                logger.exception("%s is not a table any more", OFFSETS)
                raise
            await self._client.publish_batch(OFFSETS, batch)
            self._known.update(rows)

    @staticmethod
    def fits(place: Place) -> bool:
        """Returns whether the names are short enough for a key."""
        return len(_key(place)) <= MAX_KEY_BYTES


# What any JSON, or none, leads to below: whoever may publish in the table can write anything.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


def _place(key: bytes) -> Place:
    """Returns what a row is about. Raises one of `_UNREADABLE`."""
    user, group, topic = (str(name) for name in json.loads(key))
    # JSON may escape what is no text, and responses could not be encoded with it.
    f"{user}{group}{topic}".encode()
    return user, group, topic


def _position(payload: bytes) -> Position:
    """Returns what a row says. Raises one of `_UNREADABLE`."""
    row = json.loads(payload)
    position = Position(int(row["offset"]), int(row["epoch"]), str(row.get("note", "")))
    if not NO_OFFSET <= position.offset < MAX_OFFSET:
        raise ValueError("the offset is no number of 64 bits")
    if len(position.note.encode()) > MAX_NOTE_BYTES:
        raise ValueError("the note is too long")
    return position


def _key(place: Place) -> bytes:
    return json.dumps(place, ensure_ascii=False).encode()


def _row(position: Position) -> dict[str, object]:
    return {"offset": position.offset, "epoch": position.epoch, "note": position.note}
