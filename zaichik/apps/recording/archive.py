"""A recorded topic in an object store: the same files as in a folder, each written in one piece.

    s3://lake/zaichik/topic=orders/day=2026-01-31/1769846400000000-1000-2500.parquet

* An object appears complete or not at all; see `stores`. So the names are the state, as in a
  folder: a recorder begins where they end.
* Nothing is renamed, locked or deleted. Two recorders at once cost space, and readers cut what is
  there twice (`pieces.py`).
* Small objects stay small, so an object is written when it has `OBJECT_BYTES` of keys and payloads,
  and otherwise as seldom as the recorder wishes.
* What could not be written is kept in memory, and tried again for a minute, each time with the
  credentials that are found by then. Then the recorder ends. What it had is in the topic still,
  where a named position keeps it, or it is recorded as far as the topic has it.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from zaichik.apps.recording.columns import file_rows
from zaichik.apps.recording.folders import TOPIC_KEY, folder_of
from zaichik.apps.recording.parts import (
    LAYOUT,
    LAYOUT_KEY,
    SETTINGS_KEY,
    Part,
    day_name,
    parquet_writer,
)
from zaichik.apps.recording.pieces import pieces_of
from zaichik.apps.recording.stores import Store, StoreUnavailable
from zaichik.base.clock import DAY_US
from zaichik.client.client import RECONNECT_SECONDS
from zaichik.client.inbox import end_of
from zaichik_protocol import Messages

OBJECT_BYTES = 32 * 1024 * 1024  # of keys and payloads: what stores and readers like
OBJECT_MESSAGES = 200_000  # of which half a million are in flight at most
PAUSES = (0.5, 1, 2, 4, 8)  # seconds between attempts; then always the last

logger = logging.getLogger("zaichik.recording.archive")


class Archive:
    """A topic's objects in a store. `open` makes one that can be added to.

    Args:
        store: where they are.
        topic: the topic's name.
        settings: the topic's, for the objects' metadata.
        stopping: whether to give up an object that cannot be written now.
        pause: waits for so many seconds.

    Attributes:
        complete: the offset after the last message in an object that this program has written.
    """

    def __init__(
        self,
        store: Store,
        topic: str,
        settings: Mapping[str, int] | None = None,
        *,
        stopping: Callable[[], bool] = lambda: False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.complete = 0
        self._store = store
        self._topic = topic
        self._metadata = {TOPIC_KEY: topic.encode(), LAYOUT_KEY: b"%d" % LAYOUT}
        if settings is not None:
            self._metadata[SETTINGS_KEY] = json.dumps(settings).encode()
        self._stopping = stopping
        self._pause = pause
        # Of the next object.
        self._part = Part(0, 0, 0)
        self._day = 0
        self._frames: list[Messages] = []
        self._bytes = 0

    @classmethod
    @contextmanager
    def open(
        cls,
        store: Store,
        topic: str,
        settings: Mapping[str, int] | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Iterator["Archive"]:
        """Returns an archive; what was added to it is written at the end of the block.

        Raises:
            StoreUnavailable: it cannot be written to.
        """
        archive = cls(store, topic, settings, stopping=stopping)
        try:
            yield archive
        except StoreUnavailable:
            # It was tried for long enough.
            raise
        except BaseException:
            archive.flush()
            raise
        archive.flush()

    def parts(self) -> list[Part]:
        """Returns the parts there are, in order, without what is in those before them."""
        return [
            Part(piece.epoch, piece.start, piece.end)
            for piece in pieces_of(self._store, self._topic)
        ]

    def add(self, epoch: int, frames: Sequence[Messages], start: int | None = None) -> None:
        """Add messages. Their offsets must increase, also from call to call.

        Args:
            epoch: the topic's.
            frames: the messages.
            start: the first offset that they cover, if a table's holes come before the first
                message.

        Raises:
            StoreUnavailable: an object was complete, and could not be written.
        """
        for frame in frames:
            first = frame.base
            if start is not None:
                first = start
            start = None
            day = frame.accepted_us // DAY_US
            if (epoch, day, first) != (self._part.epoch, self._day, self._part.end):
                self.flush()
            if not self._frames:
                self._part = Part(epoch, first, first)
                self._day = day
            self._frames.append(frame)
            self._bytes += frame.batch.size
            self._part = Part(epoch, self._part.start, end_of(frame))
            messages = self._part.end - self._part.start
            if self._bytes >= OBJECT_BYTES or messages >= OBJECT_MESSAGES:
                self.flush()

    def flush(self) -> None:
        """Write what was added as an object. If it cannot be written, nothing of it is forgotten.

        Raises:
            StoreUnavailable: the last attempt has failed.
        """
        if not self._frames:
            return
        part = self._part
        name = f"{part.epoch}-{part.start}-{part.end}.parquet"
        path = f"{folder_of(self._topic)}/day={day_name(self._day)}/{name}"
        self._write(path, self._object())
        self.discard()
        self.complete = part.end

    def discard(self) -> None:
        """Forget what was added and not written."""
        self._frames = []
        self._bytes = 0
        self._part = Part(0, 0, 0)

    def merge(self) -> None:
        """Do nothing: objects stay as they are."""

    def _object(self) -> pa.Buffer:
        """Returns the bytes of a Parquet file with what was added."""
        sink = pa.BufferOutputStream()
        with parquet_writer(sink, self._metadata) as writer:
            writer.write_batch(file_rows(self._frames, self._part.epoch))
        return sink.getvalue()

    def _write(self, path: str, data: pa.Buffer) -> None:
        until = time.monotonic() + RECONNECT_SECONDS
        for attempt in range(1_000_000):
            try:
                if attempt:
                    self._store = self._store.reopened()
                self._store.write(path, data)
            except StoreUnavailable as problem:
                is_over = self._stopping() or time.monotonic() >= until
                if is_over or not problem.retryable:
                    raise
                if attempt == 0:
                    logger.warning("%s; trying again for a minute", problem.message)
                self._pause(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                return
