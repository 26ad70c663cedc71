"""Named positions of a stream: for it, the broker keeps messages that it could drop (CMT-3).

What a query has processed is in its checkpoint, and nowhere else. A position only says from where
on a topic still has to have its messages: a lossless topic refuses to publish (RET-9) rather than
drop what lies above it.

A commit may name only what was delivered (CMT-2), but a stream's messages are delivered to its
tasks, by other subscriptions. So a position does not commit. It is dropped, and made again further
on, protected by a guard:

    position      new offset
    ───┬──────────────┬────────────────▶ offsets
       │              │                   1. a reader without a name subscribes at the new offset
       ✗              │                   2. the position is dropped
                      │                   3. it is made again at the new offset
                      │                   4. the reader of step 1 leaves

At all times, a reader or a position needs the messages from the new offset on. The alternative, to
have everything delivered twice and to drop it here, would double the broker's work. These readers
have a credit of one message.

A name has one reader. A query that begins under a name that another one uses takes it over, and the
other one ends.
"""

from contextlib import AbstractContextManager

from zaichik import Message, TakenOver, ZaichikError, blocking
from zaichik.apps.spark.broker import AnyClient


class NameTaken(ZaichikError):
    """Another query has taken over the name."""


class Positions:
    """The positions of one name, in any number of topics.

    Args:
        client: connected to the topics' broker. The positions have readers for as long as it is.
        name: the name.
    """

    def __init__(self, client: AnyClient, name: str) -> None:
        self._client = client
        self._name = name
        self._readers: dict[str, _Reader] = {}

    def move(self, topic: str, epoch: int, offset: int) -> None:
        """Move the position in a topic to that offset; never back.

        Raises:
            NameTaken: another query has it.
            BrokerError: the topic has another epoch, or ends before that offset.
        """
        old = self._readers.get(topic)
        if old is None or self._has_ended(old, topic):
            old = self._readers[topic] = self._read(topic, epoch, offset)
            is_there = old.subscription.committed == offset
        else:
            is_there = old.subscription.committed >= offset
        if is_there:
            return
        # One message is delivered to the guard, and is not kept for it any more: the one before.
        with self._client.subscribe(
            topic, start=max(0, offset - 1), epoch=epoch, credit=1, credit_bytes=1
        ):
            old.subscription.forget()
            self._readers.pop(topic).leave()
            new = self._readers[topic] = self._read(topic, epoch, offset)
            # It was another query's when it was to be dropped, or has become one since.
            if new.subscription.resumed:
                raise self._taken(topic)

    def _has_ended(self, reader: "_Reader", topic: str) -> bool:
        failure = reader.subscription.failure
        if isinstance(failure, TakenOver):
            raise self._taken(topic)
        if failure is not None:
            self._readers.pop(topic).leave()
        return failure is not None

    def close(self) -> None:
        """Leave the positions: the broker keeps them for as long as any without a reader."""
        while self._readers:
            _, reader = self._readers.popitem()
            reader.leave()

    def _read(self, topic: str, epoch: int, offset: int) -> "_Reader":
        return _Reader(
            self._client.subscribe(
                topic, start=offset, epoch=epoch, name=self._name, credit=1, credit_bytes=1
            )
        )

    def _taken(self, topic: str) -> NameTaken:
        return NameTaken(
            f"another query has taken over the name {self._name!r} in {topic}: give each query a "
            "name of its own. "
            "What this one has processed is in its checkpoint, and it may begin again under "
            "another name"
        )


class _Reader:
    """A subscription that ends on request."""

    def __init__(self, subscribing: AbstractContextManager[blocking.Subscription[Message]]) -> None:
        self.subscription = subscribing.__enter__()
        self._subscribing = subscribing

    def leave(self) -> None:
        self._subscribing.__exit__(None, None, None)
