"""Wills: what is published for a client that has not said goodbye (MQ-11).

While the connection lasts, the will is a row in the table `mqtt/wills`, too. So a gateway that was
killed publishes it when it starts: without that, devices would look online for ever. A row goes
when its will was published, or is not needed any more.

Between publishing and deleting the row, the gateway may be killed. So each will has a number of its
own, with which the broker stores it once however often it is published (PUB-4).
"""

import json
import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from zaichik import Client, ZaichikError
from zaichik.apps.mqtt import forwarding
from zaichik.apps.mqtt.counters import Counters
from zaichik.apps.mqtt.filters import topic_problem
from zaichik.apps.mqtt.packets import Publish
from zaichik.apps.mqtt.publisher import Publisher
from zaichik.apps.mqtt.session import SessionId
from zaichik.apps.mqtt.session_table import MOST_U32, UNREADABLE, number
from zaichik.apps.mqtt.spaces import WILLS
from zaichik.base.escapes import shown

logger = logging.getLogger("zaichik.mqtt.wills")

FORMAT = 1
MOST_NUMBER = 2**64 - 1


def _number() -> int:
    """Returns 64 random bits; 0 would mean that there is no number."""
    return secrets.randbits(64) or 1


@dataclass(slots=True)
class Will:
    """A will.

    Attributes:
        message: what is published.
        delay_s: how long after the end of the connection, if the session lasts as long.
        due_us: when it is to be published, by the gateway's clock; None while the client is there.
        number: see above.
    """

    message: Publish
    delay_s: int = 0
    due_us: int | None = None
    number: int = field(default_factory=_number)

    def encoded(self) -> bytes:
        """Returns the row."""
        message = self.message
        return json.dumps(
            {
                "format": FORMAT,
                "topic": message.topic,
                "payload": b64encode(message.payload).decode(),
                "qos": message.qos,
                "retain": message.retain,
                "properties": b64encode(forwarding.stored(message.properties)).decode(),
                "delay_s": self.delay_s,
                "number": self.number,
            }
        ).encode()

    @classmethod
    def of(cls, data: bytes) -> "Will":
        """Returns the will of a row.

        Raises:
            ValueError: the row is none.
        """
        try:
            row: Any = json.loads(data)
            if row["format"] != FORMAT:
                raise ValueError(f"format {row['format']!r}")
            topic = str(row["topic"])
            problem = topic_problem(topic)
            if problem is not None:
                raise ValueError(f"its topic is none: {problem}")
            message = Publish(
                topic,
                b64decode(row["payload"]),
                qos=number(row["qos"], 2),
                retain=bool(row["retain"]),
                properties=forwarding.restored(b64decode(row["properties"])),
            )
            delay_s = number(row["delay_s"], MOST_U32)
            return cls(message, delay_s, None, number(row["number"], MOST_NUMBER))
        except UNREADABLE as error:
            raise ValueError(f"no will: {error!r}") from None


class Wills:
    """The wills of all connections, and those that are to be published later.

    Args:
        client: the gateway's own, which publishes them.
        publisher: stores them.
        counters: of rows that cannot be read.
        now_us: the time.
    """

    def __init__(
        self, client: Client, publisher: Publisher, counters: Counters, now_us: Callable[[], int]
    ) -> None:
        self._client = client
        self._publisher = publisher
        self._counters = counters
        self._now_us = now_us
        self._wills: dict[SessionId, Will] = {}

    def load(self, rows: Mapping[str, bytes], sessions: Container[SessionId]) -> None:
        """Restore those that a gateway has left.

        Args:
            rows: of the table.
            sessions: those that go on. The delays of their wills begin now; a session that was not
                kept has ended with its connection, and its will waits for nothing.
        """
        for key, data in rows.items():
            try:
                will = Will.of(data)
            except ValueError as error:
                self._counters.unsaved += 1
                logger.warning("the row '%s' of %s is passed over: %s", shown(key), WILLS, error)
                continue
            name = SessionId.of(key)
            will.due_us = self._now_us()
            if name in sessions:
                will.due_us += will.delay_s * 1_000_000
            self._wills[name] = will

    async def leave(self, name: SessionId, will: Will | None) -> None:
        """Returns when the will of a connection that begins is stored; None: it has none.

        One that waits for its time belongs to an earlier connection of that session, which goes on:
        it is not published any more.
        """
        if will is None:
            await self.revoke(name)
            return
        self._wills[name] = will
        try:
            await self._client.publish(WILLS, will.encoded(), name.text)
        except ZaichikError:
            # The client is refused.
            self._wills.pop(name, None)
            raise

    async def revoke(self, name: SessionId) -> None:
        """Forget a will: its client has said goodbye, or is back."""
        if self._wills.pop(name, None) is not None:
            await self._client.publish(WILLS, None, name.text)

    def broken_off(self, name: SessionId, expiry_s: int) -> None:
        """Note that a connection has ended without a goodbye."""
        will = self._wills.get(name)
        if will is not None and will.due_us is None:
            will.due_us = self._now_us() + min(will.delay_s, expiry_s) * 1_000_000

    def session_ended(self, name: SessionId) -> None:
        """Note that a session has ended: its will waits no longer."""
        will = self._wills.get(name)
        if will is not None and will.due_us is not None:
            will.due_us = self._now_us()

    async def publish_due(self) -> None:
        """Publish the wills whose time has come."""
        now_us = self._now_us()
        due = [
            name
            for name, will in self._wills.items()
            if will.due_us is not None and will.due_us <= now_us
        ]
        for name in due:
            will = self._wills.pop(name, None)
            # Another task may have published it meanwhile.
            if will is None:
                continue
            await self._publisher.publish(
                self._client, [will.message], name.text, number=will.number
            )
            # The row may be that of a newer connection by now.
            if name not in self._wills:
                await self._client.publish(WILLS, None, name.text)
