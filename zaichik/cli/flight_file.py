"""The file of a recording: written by its own thread, bounded, and given up without waiting."""

import errno
import logging
import os
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

from zaichik.apps.flight.format import MAGIC

logger = logging.getLogger("zaichik.console.flight_file")

KEPT = 3  # recordings of earlier runs: FILE.1 is of the last one
WAITING = 64 * 1024 * 1024  # bytes that may wait for the disk
CLOSE_SECONDS = 2.0  # for which a broker that stops waits for it


def opened(path: Path) -> BinaryIO:
    """Returns a new file that only its owner may read.

    Earlier ones are renamed: FILE.1, FILE.2, FILE.3; then removed.

    Raises:
        OSError: that is not possible, or something else has one of these names; it stays.
    """
    names = [path, *(Path(f"{path}.{number}") for number in range(1, KEPT + 1))]
    there = [name for name in names if name.is_symlink() or name.exists()]
    for name in there:
        if name.is_symlink() or not name.is_file() or not _is_recording(name):
            raise FileExistsError(errno.EEXIST, f"{name} exists, and is not a recording")
    for newer, older in reversed([*pairwise(names)]):
        if newer in there:
            newer.replace(older)
    return open(path, "xb", opener=partial(os.open, mode=0o600))


def _is_recording(path: Path) -> bool:
    with path.open("rb") as file:
        # A broker that was killed at once has written nothing.
        return file.read(len(MAGIC)) in (MAGIC, b"")


class FlightFile:
    """Writes a recording.

    Whatever happens to the disk, it only ends the recording, with one line in the log.

    Args:
        file: where to; closed by `close`.
        limit: the most bytes that it may have.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._left = file, limit
        self._given = self._taken = 0  # bytes; the second is counted by the thread
        self._has_ended = False
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        # A daemon: a thread that is stuck in a write must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> bool:
        """Take some records, and return at once. Returns whether it can take more."""
        if len(data) > self._left:
            self._give_up("it has reached its limit (--record-limit)")
        elif self._given - self._taken > WAITING:
            self._give_up("its disk is too slow")
        if not self._has_ended:
            self._left -= len(data)
            self._given += len(data)
            self._queue.put(data)
        return not self._has_ended

    def close(self) -> None:
        """Wait until all is written, for a short time."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            with self._file:
                while (data := self._queue.get()) is not None:
                    self._file.write(data)
                    self._file.flush()
                    self._taken += len(data)
        except OSError as error:
            self._give_up(error.strerror or str(error))

    def _give_up(self, reason: str) -> None:
        if not self._has_ended:
            self._has_ended = True
            logger.warning("the recording ends here: %s; the broker goes on without one", reason)
