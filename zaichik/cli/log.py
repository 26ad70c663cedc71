"""A log that never stops the broker: a thread writes it, and what does not fit is counted.

A write to a pipe or a terminal waits for its reader; Ctrl-S is enough to make it wait for ever. And
laying out a line for a terminal takes half a millisecond. So the event loop only puts records into
a bounded queue.

No peer can flood the log. The broker's records about a peer have its address, HOST:PORT, as their
first argument; those about a topic have the client that it is charged to as their second. At most
`PEER_LINES` of them are logged in `PEER_SECONDS`, for each host and level; then one line counts the
others.
"""

import io
import logging
import logging.handlers
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, TextIO, cast

from zaichik.base.escapes import LogFormatter
from zaichik.cli import log_events
from zaichik.cli.streams import Whole

logger = logging.getLogger("zaichik.console.log")

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

LINES = 1000  # that may wait to be written; some hundred bytes each
FLUSH_SECONDS = 1.0  # for which a stop waits for unwritten lines
TICK_SECONDS = 1.0  # after which the thread looks for something to summarise
PEER_LINES, PEER_SECONDS = 100, 10.0
MAX_PEERS = 10_000  # hosts told apart; all others together are one more

# loggers whose first argument is a peer
_ABOUT_PEERS = ("zaichik.serving.", "zaichik.legacy.", "zaichik.mqtt.gateway")
_ABOUT_TOPICS = "zaichik.broker.topic_registry"
_OTHERS = "others"


@contextmanager
def written_beside(target: logging.Handler, out: TextIO | None = None) -> Iterator[logging.Handler]:
    """Returns a handler that has `target` write records on its own thread, during the block.

    Args:
        target: writes them.
        out: to which it does; where it is `unbuffered`, the lines that it drops are counted.
    """
    handler = _Queue(target, out)
    try:
        yield handler
    finally:
        handler.stop()


def unbuffered(stream: TextIO | None) -> TextIO:
    """Returns standard output or error, unbuffered, which stays silent once its reader is gone.

    The interpreter's own buffer must stay empty: when it exits, it would flush it, and that waits
    for the reader, too.

    Args:
        stream: `sys.stdout` or `sys.stderr`; None, as it is where the program was started without
            it, goes nowhere.
    """
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()
    except io.UnsupportedOperation:  # memory, as in a notebook: there is no reader to wait for
        return cast("TextIO", stream)
    encoding = "utf-8" if stream is None else stream.encoding
    return io.TextIOWrapper(
        _Standard(descriptor), encoding, errors="backslashreplace", write_through=True
    )


class _Standard(Whole):
    """A descriptor of this process.

    It makes no difference to the writer whether it still has a reader, or its disk room.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.dropped = 0  # writes

    def write(self, data: Any) -> int:
        """Returns the number of bytes; they are written, or dropped if that fails."""
        try:
            super().write(data)
        except OSError:
            self.dropped += 1
        return len(data)


class PerPeer(logging.Filter):
    """Passes the first lines about a peer in each window of time, and counts the others.

    Args:
        now: the clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        # Records come from the loop's thread, summaries are for the log's.
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, int], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether the line is to be logged."""
        host = _host(record)
        if host is None:
            return True
        with self._lock:
            key = host, record.levelno
            if key not in self._windows and len(self._windows) >= MAX_PEERS:
                key = _OTHERS, record.levelno
            window = self._windows.setdefault(key, _Window(self._now()))
            window.lines += 1
            return window.lines <= PEER_LINES

    def summaries(self, *, at_once: bool = False) -> list[tuple[int, str, "_Count"]]:
        """Returns level, host and lines left out for each window that ended with any.

        It begins new windows.

        Args:
            at_once: end all windows now.
        """
        with self._lock:
            latest = self._now() - (0 if at_once else PEER_SECONDS)
            ended = [key for key, window in self._windows.items() if window.begin <= latest]
            left_out = [(key, self._windows.pop(key).lines - PEER_LINES) for key in ended]
        return [(level, host, _Count(count)) for (host, level), count in left_out if count > 0]


class _Count(int):
    """A number that is easy to read in a sentence."""

    def __str__(self) -> str:
        return f"{int(self):,}"


class _Window:
    """What was to be logged about one host since `begin`."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.lines = 0


def _host(record: logging.LogRecord) -> str | None:
    """Returns the host that a record of the broker is about; None if it is not about one."""
    if not isinstance(record.args, tuple):
        return None
    if record.name == _ABOUT_TOPICS:
        return str(record.args[1])
    if record.name.startswith(_ABOUT_PEERS) and record.args:
        host, colon, port = str(record.args[0]).rpartition(":")
        return host if colon and port.isdecimal() else None
    return None


class _Queue(logging.handlers.QueueHandler):
    """The records between the event loop and the thread that writes them."""

    queue: "queue.Queue[logging.LogRecord | None]"

    def __init__(self, target: logging.Handler, out: TextIO | None) -> None:
        super().__init__(queue.Queue(LINES))
        self._target = target
        self._out = getattr(out, "buffer", None)
        self._peers = PerPeer()
        self.addFilter(self._peers)
        self._dropped = 0  # because the queue was full
        self._missing = 0  # all that were dropped, and are not in a summary yet; the thread's own
        self._is_ending = False
        # A daemon: a thread that is stuck in a write must not keep the process alive.
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Hand a record to the thread, or count it as dropped.

        Called with the handler's lock held.
        """
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Returns the record as it is at this moment, with its event.

        What its arguments refer to may be large.
        """
        prepared = copy(record)
        prepared.fields = log_events.fields(record)
        prepared.msg, prepared.args = record.getMessage(), None
        if record.exc_info:
            prepared.exc_text, prepared.exc_info = (
                LogFormatter().formatException(record.exc_info),
                None,
            )
        return prepared

    def stop(self) -> None:
        """Write what is there, for `FLUSH_SECONDS` at most."""
        self._is_ending = True
        with suppress(queue.Full):  # then the thread is not waiting for it
            self.queue.put_nowait(None)
        self._thread.join(FLUSH_SECONDS)

    def _write(self) -> None:
        while not (self._is_ending and self.queue.empty()):
            record = None
            with suppress(queue.Empty):
                record = self.queue.get(timeout=TICK_SECONDS)
            if record is not None:
                self._emit(record)
            if self.queue.empty():
                self._summarise()

    def _emit(self, record: logging.LogRecord) -> bool:
        """Returns whether the line was written; if not, it is missing."""
        before = self._dropped_writes()
        # `emit` and not `handle`: there is no other writer, and at the end of the process `logging`
        # itself would wait for the lock of a write that is stuck.
        self._target.emit(record)
        if self._dropped_writes() > before:
            self._missing += 1
            return False
        return True

    def _dropped_writes(self) -> int:
        if isinstance(self._out, _Standard):
            return self._out.dropped
        return 0

    def _summarise(self) -> None:
        """Log how many lines are missing, once everything before them is written."""
        self.acquire()
        self._missing += self._dropped
        self._dropped = 0
        self.release()
        if self._missing:
            missing, self._missing = self._missing, 0
            is_written = self._say(
                logging.WARNING,
                "%s log lines were dropped: the log isn't being read, or can't be written",
                _Count(missing),
            )
            if not is_written:
                # Tried again at the next tick; this line itself does not count.
                self._missing = missing
        for level, host, count in self._peers.summaries(at_once=self._is_ending):
            self._say(level, "%s: %s more lines were left out", host, count)

    def _say(self, level: int, sentence: str, *values: object) -> bool:
        """Returns whether it was written."""
        return self._emit(
            logger.makeRecord(logger.name, level, __file__, 0, sentence, values, None)
        )
