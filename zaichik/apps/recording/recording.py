"""A recorded topic: plain Parquet files for any tool, whose names say how far they reach.

    FOLDER/topic=orders/day=2026-01-31/1769846400000000-1000-2500.parquet

has the messages accepted on that day (UTC) by the topic `orders` with that epoch: offsets 1000 up
to, not including, 2500. The columns are offset, timestamp, key, payload and epoch; files of
layout 1 lack the last one. Topic and day are in the path, where Spark, DuckDB, Polars and pandas
look for them. `folders.py` turns a topic's name into a folder's. The metadata of each file has the
topic's name, its settings (of a journal: those of its topic) as JSON, and the version of this
layout: `zaichik.topic`, `zaichik.settings`, `zaichik.layout`. `archive.py` has the same in an
object store.

* A file appears under its name when it is complete, never before. Until then it is hidden (it
  begins with a dot).
* So the names are the state. A recorder begins where they end: however the one before it ended, no
  message is missing and none is there twice.
* Offsets between two files were gone when the recorder got there: the names show that, too. The
  holes of a table are no such gap: the file that has the next message covers them.
* Many small files of a day become one (`merging.py`). While that happens, and if it is interrupted,
  some messages are in two files: the name of one covers that of the other.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from zaichik.apps.recording.columns import file_rows
from zaichik.apps.recording.folders import TOPIC_KEY, folder_of
from zaichik.apps.recording.merging import merge, uncovered
from zaichik.apps.recording.parts import (
    FILE_MESSAGES,
    GROUP_BYTES,
    LAYOUT,
    LAYOUT_KEY,
    MERGING,
    SETTINGS_KEY,
    UNFINISHED,
    CannotRecord,
    Part,
    day_name,
    parquet_writer,
    sync_folder,
    sync_with_parents,
)
from zaichik.base.clock import DAY_US
from zaichik.client.inbox import end_of
from zaichik_protocol import Messages


class Recording:
    """A topic's files in a folder. `open` makes one that can be added to.

    Attributes:
        folder: has the folders of the topic's days.
        complete: the offset after the last message in a file that this program has completed.
    """

    def __init__(self, root: Path, topic: str, settings: Mapping[str, int] | None = None) -> None:
        self.folder = root / folder_of(topic)
        self.complete = 0
        self._metadata = {TOPIC_KEY: topic.encode(), LAYOUT_KEY: b"%d" % LAYOUT}
        if settings is not None:
            self._metadata[SETTINGS_KEY] = json.dumps(settings).encode()
        self._file: _File | None = None

    @classmethod
    @contextmanager
    def open(
        cls, root: Path, topic: str, settings: Mapping[str, int] | None = None
    ) -> Iterator["Recording"]:
        """Returns a recording, locked for the duration of the block.

        An unfinished file is finished at its end.

        Args:
            root: the folder of all recorded topics.
            topic: the topic's name.
            settings: the topic's, for the files' metadata.

        Raises:
            CannotRecord: another program has locked it, or it cannot be written to.
        """
        recording = cls(root, topic, settings)
        recording.folder.mkdir(parents=True, exist_ok=True)
        with (recording.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CannotRecord(
                    f"another program is recording {topic} into {root} now"
                ) from None
            recording._remove_unfinished()  # of a recorder that was killed
            recording._sync_names()
            try:
                try:
                    yield recording
                finally:
                    recording.flush()
                recording.merge()
            except OSError as error:
                raise CannotRecord(
                    f"{recording.folder} cannot be written to ({error.strerror or error}). Files "
                    "that were complete "
                    "are kept: start again to go on"
                ) from error
            finally:
                recording._remove_unfinished()

    def _remove_unfinished(self) -> None:
        for name in (UNFINISHED, MERGING):
            for path in self.folder.glob(f"*/{name}"):
                path.unlink()

    def _sync_names(self) -> None:
        """Put the names of files and folders on the disk.

        What is recorded is settled with the broker, which then drops it. And a recorder that was
        killed may have given names that a power cut would undo.
        """
        for day in self.folder.glob("day=*"):
            sync_folder(day)
        sync_with_parents(self.folder)

    def parts(self) -> list[Part]:
        """Returns the parts there are, in order."""
        return [Part.of(path) for path in uncovered(self.folder.glob("day=*/[!.]*.parquet"))]

    def merge(self) -> None:
        """Merge small files."""
        merge(self.folder)

    def add(self, epoch: int, frames: Sequence[Messages], start: int | None = None) -> None:
        """Add messages. Their offsets must increase, also from call to call.

        Args:
            epoch: the topic's.
            frames: the messages.
            start: the first offset that they cover, if a table's holes come before the first
                message.
        """
        for frame in frames:
            first = frame.base
            if start is not None:
                first = start
            start = None
            day = frame.accepted_us // DAY_US
            if self._file is not None and not self._file.goes_on_with(epoch, day, first):
                self.flush()
            # Kept only after it has taken the frame: an interrupted file may have half of it, and
            # must not appear.
            file, self._file = (
                self._file or _File(self.folder, self._metadata, epoch, day, first),
                None,
            )
            file.add(frame)
            self._file = file

    def flush(self) -> None:
        """Complete the current file, so that it appears."""
        file, self._file = self._file, None
        if file is not None:
            self.complete = file.finish()

    def discard(self) -> None:
        """Forget the current file: it never appears."""
        self._file = None


class _File:
    """A file being written."""

    def __init__(
        self, folder: Path, metadata: dict[bytes, bytes], epoch: int, day: int, start: int
    ) -> None:
        self._folder = folder / f"day={day_name(day)}"
        self._is_new = not self._folder.exists()
        self._folder.mkdir(exist_ok=True)
        self._part = Part(epoch, start, start)
        self._day = day
        self._frames: list[Messages] = []
        self._waiting = 0  # messages in those
        self._path = self._folder / UNFINISHED
        self._writer = parquet_writer(self._path, metadata)

    def goes_on_with(self, epoch: int, day: int, offset: int) -> bool:
        """Returns whether that message belongs in this file; if not, another file begins."""
        part = self._part
        return (epoch, day, offset) == (
            part.epoch,
            self._day,
            part.end,
        ) and part.end - part.start < FILE_MESSAGES

    def add(self, frame: Messages) -> None:
        """Add the next messages.

        They are written in large groups, which makes files smaller and faster to read.
        """
        self._frames.append(frame)
        self._waiting += frame.batch.size + 100 * frame.batch.count
        self._part = Part(self._part.epoch, self._part.start, end_of(frame))
        if self._waiting > GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        self._writer.write_batch(file_rows(self._frames, self._part.epoch))
        self._frames, self._waiting = [], 0

    def finish(self) -> int:
        """Complete the file, on the disk, and let it appear; returns the offset after its end."""
        if self._frames:
            self._write()
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        part = self._part
        self._path.replace(self._folder / f"{part.epoch}-{part.start}-{part.end}.parquet")
        # Before anybody is told that it is complete: the broker may drop what is in it.
        sync_folder(self._folder)
        if self._is_new:
            sync_folder(self._folder.parent)
        return part.end
