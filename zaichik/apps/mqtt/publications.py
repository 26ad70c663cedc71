"""What the gateway knows of the messages that it has published itself lately.

The broker stores a message's key and payload, and not with which QoS it was published, whether it
was to be retained, and by whom. So the gateway remembers that of the last `REMEMBERED` messages of
each topic, by offset, from the answer to the Publish on (MQ-4).

The answer comes over the wire before the echo, to the reader of the topic, of the messages that it
answers. But each wakes a task, and the tasks may run in another order: therefore the reader calls
`settled` before it looks (MQ-13). A user with a login has a connection of its own, where nothing
orders the two. There the reader waits for the answer, though not for ever: a Publish that a full
topic refuses may be waiting for this very reader to go on.
"""

from dataclasses import dataclass
from itertools import islice

import anyio
from anyio.lowlevel import checkpoint

REMEMBERED = 65_536
FORGOTTEN_AT_ONCE = 8192
# How long an answer may take until its messages are delivered as if by somebody else.
PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Publication:
    """How a message was published.

    Attributes:
        qos: with this QoS.
        retain: whether it was to be retained.
        publisher: by this session; "" if that is not known.
    """

    qos: int
    retain: bool = False
    publisher: str = ""


# Of all others: a subscriber gets them with the QoS that it has asked for.
UNKNOWN = Publication(2)


class Publications:
    """Those of one topic."""

    def __init__(self) -> None:
        self._known: dict[int, Publication] = {}
        # Batches over other connections than the reader's that have no answer yet.
        self._pending: set[anyio.Event] = set()

    def sent(self) -> anyio.Event:
        """Returns what stands for a batch over another connection, to be set when it is answered.

        It is passed to `answered`.
        """
        batch = anyio.Event()
        self._pending.add(batch)
        return batch

    def answered(self, batch: anyio.Event) -> None:
        """Have the reader go on: the batch was noted, or has failed."""
        self._pending.discard(batch)
        batch.set()

    def note(self, first: int, messages: list[Publication]) -> None:
        """Note messages that are stored from this offset on, one after the other."""
        known = self._known
        for offset, message in enumerate(messages, first):
            known[offset] = message
        # Many at once: the first key of a dictionary is slow to find when those before it are gone.
        if len(known) > REMEMBERED + FORGOTTEN_AT_ONCE:
            self._known = dict(islice(known.items(), len(known) - REMEMBERED, None))

    def get(self, offset: int) -> Publication:
        """Returns how the message at that offset was published."""
        return self._known.get(offset, UNKNOWN)

    async def settled(self) -> None:
        """Returns when everything that the wire has told is noted."""
        await checkpoint()
        pending = list(self._pending)
        if not pending:
            return
        with anyio.move_on_after(PATIENCE_SECONDS):
            for batch in pending:
                await batch.wait()
