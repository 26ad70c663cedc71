"""A log that never stops the broker."""

import io
import logging
import os
import queue
import sys
import threading
from contextlib import suppress

import anyio
import pytest

from zaichik import running_broker
from zaichik.base.escapes import LogFormatter
from zaichik.cli import log, screen

PEER = "zaichik.serving.connection"
GUARD = 60


class Writer(logging.Handler):
    """What the log is written to; it can be made to stand still."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.threads = set()
        self.is_writing = threading.Event()
        self.may_write = threading.Event()
        self.may_write.set()

    def emit(self, record):
        self.is_writing.set()
        assert self.may_write.wait(GUARD)
        self.threads.add(threading.current_thread())
        self.lines.append((record.levelname, self.format(record)))


class Noting(logging.StreamHandler):
    """Tells a test which lines were handed to the stream, written or not."""

    def __init__(self, stream):
        super().__init__(stream)
        self.attempts = queue.SimpleQueue()

    def emit(self, record):
        super().emit(record)
        self.attempts.put(record.getMessage())

    def wait_for(self, message):
        while self.attempts.get(timeout=GUARD) != message:
            pass


@pytest.fixture
def writer(monkeypatch):
    monkeypatch.setattr(log, "FLUSH_SECONDS", GUARD)
    return Writer()


@pytest.fixture
def logger():
    logger = logging.getLogger("zaichik.test.log")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield logger
    logger.handlers = []


def record(name, message, *args, level=logging.INFO):
    return logging.LogRecord(name, level, __file__, 0, message, args, None)


# -- the queue -----------------------------------------------------------------------------------


def test_all_lines_are_written_in_order_by_another_thread(writer, logger):
    with log.written_beside(writer) as handler:
        logger.addHandler(handler)
        for number in range(500):
            logger.info("line %d", number)
    assert writer.lines == [("INFO", f"line {number}") for number in range(500)]
    assert threading.current_thread() not in writer.threads


def test_a_traceback_is_written_too_and_not_kept(writer, logger):
    """What a traceback refers to may be large."""
    with log.written_beside(writer) as handler:
        logger.addHandler(handler)
        try:
            1 / 0  # noqa: B018 - to fail is all it is to do
        except ZeroDivisionError:
            logger.exception("a bug")
    ((level, text),) = writer.lines
    assert level == "ERROR"
    assert text.startswith("a bug\nTraceback")
    assert text.endswith("ZeroDivisionError: division by zero")


def test_lines_that_do_not_fit_are_dropped_and_their_number_is_logged_later(
    writer, logger, monkeypatch
):
    monkeypatch.setattr(log, "LINES", 10)
    writer.may_write.clear()
    with log.written_beside(writer) as handler:
        logger.addHandler(handler)
        logger.info("first")
        assert writer.is_writing.wait(GUARD)
        for number in range(10 + 1234):
            logger.info("line %d", number)
        writer.may_write.set()
    assert writer.lines == [
        ("INFO", "first"),
        *[("INFO", f"line {number}") for number in range(10)],
        ("WARNING", "1,234 log lines were dropped: the log isn't being read, or can't be written"),
    ]


def test_a_stop_does_not_wait_for_a_log_that_is_not_read(writer, logger, monkeypatch):
    monkeypatch.setattr(log, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(log, "LINES", 1)
    writer.may_write.clear()
    with log.written_beside(writer) as handler:
        logger.addHandler(handler)
        logger.info("first")
        assert writer.is_writing.wait(GUARD)
        logger.info("second")
    assert writer.lines == []
    writer.may_write.set()
    handler._thread.join(GUARD)
    assert writer.lines == [("INFO", "first"), ("INFO", "second")]


def test_a_summary_does_not_wait_for_the_next_line(writer, monkeypatch):
    monkeypatch.setattr(log, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(log, "PEER_SECONDS", 0.001)
    monkeypatch.setattr(log, "PEER_LINES", 0)
    with log.written_beside(writer) as handler:
        handler.handle(record(PEER, "%s connected", "10.0.0.1:5"))
        assert writer.is_writing.wait(GUARD)
    assert writer.lines == [("INFO", "10.0.0.1: 1 more lines were left out")]


def test_a_summary_is_easy_to_read_and_to_count(writer, monkeypatch):
    monkeypatch.setattr(log, "PEER_LINES", 0)
    with log.written_beside(writer) as handler:
        for _ in range(1234):
            handler.handle(record(PEER, "%s connected", "10.0.0.1:5"))
    assert writer.lines == [("INFO", "10.0.0.1: 1,234 more lines were left out")]


def fail(text):
    raise ValueError(text)


def test_a_traceback_keeps_its_lines_and_nothing_in_it_commands_a_terminal(writer, logger):
    writer.setFormatter(LogFormatter())
    with log.written_beside(writer) as handler:
        logger.addHandler(handler)
        try:
            fail("\x1b[2J")
        except ValueError:
            logger.exception("a bug in %s", "a\nname")
    ((_, text),) = writer.lines
    assert text.split("\n")[:2] == ["a bug in a\\nname", "Traceback (most recent call last):"]
    assert text.endswith("\nValueError: \\x1b[2J")


# -- one peer ------------------------------------------------------------------------------------


@pytest.fixture
def seconds():
    return [0.0]


@pytest.fixture
def per_peer(seconds):
    return log.PerPeer(lambda: seconds[0])


def passed(per_peer, host, times, level=logging.INFO, name=PEER):
    return sum(
        per_peer.filter(record(name, "%s connected", f"{host}:{port}", level=level))
        for port in range(1, times + 1)
    )


def test_a_peer_cannot_flood_the_log_and_others_are_still_in_it(per_peer, seconds):
    assert passed(per_peer, "10.0.0.1", 10_000) == log.PEER_LINES
    assert passed(per_peer, "10.0.0.2", 5) == 5
    assert passed(per_peer, "::1", 5) == 5
    seconds[0] = log.PEER_SECONDS / 2
    assert passed(per_peer, "10.0.0.1", 5) == 0
    assert per_peer.summaries() == []


def test_nor_can_a_client_of_the_original_flood_it(per_peer):
    assert passed(per_peer, "127.0.0.1", 500, name="zaichik.legacy.gateway") == 100


def test_whoever_creates_and_deletes_topics_cannot_flood_it(per_peer):
    registry = "zaichik.broker.topic_registry"
    created = record(registry, "topic %s created by %s", "t", "10.0.0.1")
    deleted = record(registry, "topic %s of %s deleted: %s", "t", "10.0.0.1", "unused")
    assert sum(per_peer.filter(line) for line in (created, deleted) * 100) == log.PEER_LINES
    assert per_peer.filter(record(registry, "topic %s created by %s", "t", "10.0.0.2"))


def test_its_errors_are_not_hidden_by_its_other_lines(per_peer):
    passed(per_peer, "10.0.0.1", 1000)
    assert passed(per_peer, "10.0.0.1", 1000, logging.ERROR) == log.PEER_LINES


def test_one_line_counts_the_lines_left_out_before_logging_resumes(per_peer, seconds):
    passed(per_peer, "10.0.0.1", log.PEER_LINES + 1234)
    passed(per_peer, "10.0.0.2", log.PEER_LINES)
    seconds[0] = log.PEER_SECONDS
    assert per_peer.summaries() == [(logging.INFO, "10.0.0.1", 1234)]
    assert per_peer.summaries() == []
    assert passed(per_peer, "10.0.0.1", 5) == 5


def test_at_the_end_dropped_lines_are_counted_at_once(per_peer):
    passed(per_peer, "10.0.0.1", log.PEER_LINES + 1)
    assert len(per_peer.summaries(at_once=True)) == 1


def test_lines_about_no_peer_are_not_counted(per_peer):
    assert passed(per_peer, "10.0.0.1", 1000, name="zaichik.console.serve") == 1000
    for args in ((), ("no peer",), (5,), ("a:b",)):
        assert all(
            per_peer.filter(record(PEER, "something" + " %s" * len(args), *args))
            for _ in range(1000)
        )
    assert per_peer.filter(logging.LogRecord(PEER, logging.INFO, "", 0, "%(x)s", ({"x": 1},), None))


def test_hosts_beyond_the_limit_count_as_one(per_peer, monkeypatch):
    monkeypatch.setattr(log, "MAX_PEERS", 2)
    passed(per_peer, "10.0.0.1", 1)
    passed(per_peer, "10.0.0.2", 1)
    assert sum(passed(per_peer, f"10.0.1.{host}", 10) for host in range(200)) == log.PEER_LINES
    assert passed(per_peer, "10.0.0.1", 10) == 10
    assert per_peer.summaries(at_once=True) == [(logging.INFO, "others", 1900)]


@pytest.mark.anyio
async def test_the_brokers_lines_about_a_peer_are_recognised(per_peer, caplog):
    """Their first argument is the peer's address."""
    caplog.set_level(logging.INFO, "zaichik.serving")
    async with (
        running_broker() as server,
        await anyio.connect_tcp(server.host, server.port) as stream,
    ):
        await stream.send(b"GET / HTTP/1.1\r\n\r\n")
        with anyio.fail_after(GUARD), suppress(anyio.EndOfStream):
            while await stream.receive():
                pass
    connected, disconnected = caplog.records
    assert "disconnected: NOT_ZAICHIK" in disconnected.getMessage()
    for line in (connected, disconnected):
        assert sum(per_peer.filter(line) for _ in range(2 * log.PEER_LINES)) in {log.PEER_LINES, 0}


# -- standard output and error -------------------------------------------------------------------


def test_output_is_written_at_once():
    reading, writing = os.pipe()
    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as stream:
        log.unbuffered(stream).write("line é\n")
        assert reader.readline() == "line é\n"


def test_output_without_a_reader_is_dropped():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        file = log.unbuffered(stream)
        file.write("line\n")
        screen.on(file).print("line")
        file.flush()


def test_a_log_whose_disk_has_room_again_goes_on_and_says_what_is_missing(
    logger, monkeypatch, tmp_path
):
    monkeypatch.setattr(log, "FLUSH_SECONDS", GUARD)
    with open("/dev/full", "wb") as full, (tmp_path / "log").open("wb") as room:  # noqa: PTH123
        stream = os.fdopen(os.dup(full.fileno()), "w")
        out = log.unbuffered(stream)
        target = Noting(out)
        with stream, log.written_beside(target, out) as handler:
            logger.addHandler(handler)
            for number in range(3):
                logger.info("line %d", number)
            target.wait_for("line 2")
            os.dup2(room.fileno(), stream.fileno())
            logger.info("line 3")
    lines = (tmp_path / "log").read_text().splitlines()
    # Which of the two comes first depends on when the thread looked.
    assert sorted(lines) == [
        "3 log lines were dropped: the log isn't being read, or can't be written",
        "line 3",
    ]


def test_what_is_in_memory_is_written_as_it_is():
    stream = io.StringIO()
    assert log.unbuffered(stream) is stream


def test_a_program_without_standard_error_writes_nowhere():
    log.unbuffered(None).write("line\n")


def test_on_a_terminal_lines_have_colours_and_elsewhere_dates(monkeypatch):
    handler = screen.log_handler(logging.INFO, sys.stdout)
    assert handler.format(record("zaichik", "said")).endswith(" INFO zaichik: said")
    assert (
        screen.log_handler(logging.WARNING, sys.stdout).format(record("zaichik", "said"))
        == "zaichik: said"
    )
