"""A publisher and readers that keep a watched broker busy, for `benchmarks/views.py`."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.access import Broker, Client
from zaichik_protocol import (
    FOREVER,
    Batch,
    Commit,
    CreateTopic,
    Messages,
    Publish,
    Subscribe,
    Subscribed,
    encode,
)

TOPIC = "orders"
PAYLOAD = b"a payload of a hundred bytes, as many have them".ljust(100, b".")
UNDER_WAY = 100  # publishes
COMMIT_EVERY = 1000  # messages


def processor_ns(pid: int) -> int:
    """Returns the processor time that the threads of a process have used."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total


class Readers(threading.Thread):
    """A connection with subscriptions that read and commit all there is."""

    def __init__(self, at: Broker, count: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(at)
        for number in range(2, 2 + count):
            request = Subscribe(number, TOPIC, credit=1_000_000, credit_bytes=2**32 - 1)
            self._client.ask(request, Subscribed)
        self._left, self._at_end = 0, threading.Event()
        self.start()

    def expect(self, messages: int) -> threading.Event:
        """Returns an event that is set when this many more have come, to all of them together."""
        self._left, self._at_end = messages, threading.Event()
        return self._at_end

    def run(self) -> None:
        """Read."""
        committed: defaultdict[int, int] = defaultdict(int)
        with suppress(OSError, RuntimeError):  # it is closed
            while True:
                try:
                    frame = self._client.frame()
                except TimeoutError:  # nothing is published
                    continue
                if not isinstance(frame, Messages):
                    continue
                end = frame.base + frame.batch.count
                if end - committed[frame.id] >= COMMIT_EVERY:
                    self._client.send(encode(Commit(0, frame.id, end)))
                    committed[frame.id] = end
                self._left -= frame.batch.count
                if self._left <= 0:
                    self._at_end.set()

    def close(self) -> None:
        """End it."""
        self._client.close()


class Load:
    """A publisher, and readers that get every message.

    Args:
        at: the broker. It gets the topic, with room for all that is under way.
        readers: how many.
    """

    def __init__(self, at: Broker, readers: int = 1) -> None:
        self._at, self._count = at, readers
        self._publisher = Client(at)
        self._publisher.ask(CreateTopic(1, TOPIC, ((1, FOREVER), (3, 10_000))))
        self._readers = Readers(at, readers)

    def publish(self, count: int) -> float:
        """Publish this many messages, as fast as they are read.

        Returns µs of the broker's processor time for each.
        """
        data = encode(Publish(1, TOPIC, Batch.of_columns([b"key"], [PAYLOAD])))
        at_end, before = (
            self._readers.expect(count * self._count),
            processor_ns(self._at.process.pid),
        )
        self._publisher.pipeline(data, count, UNDER_WAY)
        if not at_end.wait(60):
            raise RuntimeError("the readers did not get everything")
        return (processor_ns(self._at.process.pid) - before) / count / 1000

    def publish_one(self) -> None:
        """Publish a message, and wait for the answer."""
        self._publisher.ask(Publish(1, TOPIC, Batch.of_columns([b"key"], [PAYLOAD])))

    @contextmanager
    def steady(self) -> Iterator[None]:
        """While the block lasts, publish a thousand messages a second, in batches of ten."""
        ended, request = (
            threading.Event(),
            Publish(1, TOPIC, Batch.of_columns([b"key"] * 10, [PAYLOAD] * 10)),
        )

        def publish() -> None:
            while not ended.wait(0.01 - time.monotonic() % 0.01):
                self._publisher.ask(request)

        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        yield
        ended.set()
        thread.join()

    def close(self) -> None:
        """End them."""
        self._publisher.close()
        self._readers.close()
