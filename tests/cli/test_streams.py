"""All of what a command writes arrives, or the command says that it did not."""

import fcntl
import io
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import tty
from contextlib import contextmanager, suppress

import anyio
import pytest

from zaichik.cli import interrupts, log, streams
from zaichik.cli.streams import Whole
from zaichik_protocol import Ping, encode

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
LINES = 3000
GUARD = 10
FILLED = 32 * 1024  # of the 64 KiB that a pipe holds: then the next line may not fit


class Pipe:
    """A pipe that nobody reads yet."""

    def __init__(self, *, is_blocking):
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.write_end, is_blocking)

    def is_full(self):
        waiting = fcntl.ioctl(self.read_end, termios.FIONREAD, bytes(4))
        return (
            struct.unpack("i", waiting)[0] >= FILLED
            and not select.select([], [self.write_end], [], 0)[1]
        )

    def close_writing(self):
        if self.write_end is not None:
            os.close(self.write_end)
        self.write_end = None

    def close(self):
        os.close(self.read_end)
        self.close_writing()


def fill(descriptor):
    """Write until there is no room; the descriptor is blocking afterwards."""
    os.set_blocking(descriptor, False)
    with suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x" * 1024)
    os.set_blocking(descriptor, True)


@pytest.fixture
def pipe():
    """Makes a pipe."""
    pipes = []

    def make(*, is_blocking):
        pipes.append(Pipe(is_blocking=is_blocking))
        return pipes[-1]

    yield make
    for made in pipes:
        made.close()


@pytest.fixture
def full(zaichik, topic, tmp_path):
    """A topic, and a capture, that take more room than a pipe has."""
    (tmp_path / "lines").write_text("".join(f"{number:0100}\n" for number in range(LINES)))
    zaichik("publish", topic, "--file", str(tmp_path / "lines"))
    (tmp_path / "capture").write_bytes(encode(Ping(7)) * LINES)
    return topic


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        ["subscribe", "TOPIC", "--count", str(LINES)],
        ["subscribe", "TOPIC", "--count", str(LINES), "--json"],
        ["dissect", "capture"],
    ],
    ids=" ".join,
)
def test_a_pipe_that_is_not_blocking_gets_everything(
    start, until, pipe, full, tmp_path, monkeypatch, words, unbuffered
):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    words = [full if word == "TOPIC" else word for word in words]
    whole = subprocess.run(
        [sys.executable, "-m", "zaichik", *words], capture_output=True, cwd=tmp_path, check=True
    )
    slow = pipe(is_blocking=False)
    process = start(*words, stdout=slow.write_end, cwd=tmp_path)
    until(slow.is_full, process)
    came = b""
    while len(came) < len(whole.stdout):
        some = os.read(slow.read_end, 65536)
        assert whole.stdout.startswith(some, len(came))
        came += some
    assert process.communicate() == (None, "")
    assert process.returncode == 0


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("is_blocking", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_what_writes_to_a_reader_that_is_stuck(
    start, until, pipe, full, number, is_blocking
):
    """The unwritten rest does not keep it, either."""
    stuck = pipe(is_blocking=is_blocking)
    process = start("subscribe", full, stdout=stuck.write_end)
    until(stuck.is_full, process)
    process.send_signal(number)
    assert process.wait() == 130
    assert "Traceback" not in process.stderr.read()


@pytest.fixture(params=["pipe", "socket", "terminal", "terminal that cannot be opened again"])
def stuck_end(request, monkeypatch):
    """The writing end of a pipe or socket that is full, or of a terminal after Ctrl-S.

    Code that waits in a system call, and so for ever, gets an error after a while.
    """
    if request.param == "pipe":
        reading, writing = os.pipe()
        fill(writing)
    elif request.param == "socket":
        ours, theirs = socket.socketpair()
        reading, writing = ours.detach(), theirs.detach()
        fill(writing)
    else:
        reading, writing = pty.openpty()
        termios.tcflow(writing, termios.TCOOFF)
    if request.param == "terminal that cannot be opened again":
        # As a terminal of another user, after `su`.
        monkeypatch.setattr(os, "ttyname", lambda _: os.devnull + "/none")
    reader = os.fdopen(reading, "rb", buffering=0)
    watchdog = threading.Timer(GUARD, reader.close)
    watchdog.start()
    yield writing
    watchdog.cancel()
    watchdog.join()
    reader.close()
    os.close(writing)


@pytest.mark.parametrize("number", ENDING)
def test_one_signal_ends_a_wait_for_a_stuck_reader(stuck_end, monkeypatch, number):
    at_once = interrupts.at_once

    @contextmanager
    def signalled():
        with at_once():
            signal.raise_signal(number)
            yield

    monkeypatch.setattr(interrupts, "at_once", signalled)
    with interrupts.like_ctrl_c(), Whole(stuck_end) as out:
        with pytest.raises(KeyboardInterrupt):
            out.write(b"x")
        assert out.write(b"the rest") == 8  # as when the interpreter exits


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_just_before_a_wait_ends_it(stuck_end, monkeypatch, number):
    """The loop's handler has only cancelled a task by then, and the wait keeps that from running.

    What is written after it, such as a summary, does not wait for long either.
    """
    signal_before_waits(monkeypatch, number)

    async def write(out):
        with interrupts.tracked():
            out.write(b"x")

    with interrupts.like_ctrl_c(), Whole(stuck_end) as out, Whole(stuck_end) as summary:
        with pytest.raises(KeyboardInterrupt):
            anyio.run(write, out)
        assert out.write(b"the rest") == 8  # as when the interpreter exits
        with pytest.raises(KeyboardInterrupt):
            summary.write(b"x")


def signal_before_waits(monkeypatch, number):
    """Send a signal to this process at the last moment before a wait has handlers of its own."""
    at_once = interrupts.at_once

    @contextmanager
    def signalled():
        monkeypatch.setattr(interrupts, "at_once", at_once)
        signal.raise_signal(number)
        with at_once():
            yield

    monkeypatch.setattr(interrupts, "at_once", signalled)


# Runs a command, and interrupts it when its first write finds no room.
SIGNALLED = """
import signal, sys
from contextlib import contextmanager
from zaichik.cli import interrupts, main

at_once = interrupts.at_once

@contextmanager
def signalled():
    interrupts.at_once = at_once
    signal.raise_signal(signal.SIGINT)
    with at_once():
        yield

interrupts.at_once = signalled
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "words",
    [["subscribe", "TOPIC"], ["subscribe", "TOPIC", "--json"], ["topics"], ["describe", "--json"],
     ["dissect", "capture"], ["web", "--port", "0"], ["legacy", "--port", "0", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_ctrl_c_just_before_a_wait_ends_every_command(pipe, full, tmp_path, words):
    stuck = pipe(is_blocking=True)
    fill(stuck.write_end)
    words = [full if word == "TOPIC" else word for word in words]
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED, *words],
        stdout=stuck.write_end,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        timeout=GUARD,
        check=False,
    )
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr


# Dissects a capture, and sends a signal to it while it computes: some lines are not written yet.
BUFFERED = """
import signal, sys
from zaichik.cli import main
from zaichik.cli.commands import dissect

def frames(fields):
    sys.stdout.write("a line")
    signal.raise_signal(signal.SIGINT)

dissect._frames = frames
sys.exit(main.main(["dissect", sys.argv[1]]))
"""


@pytest.mark.parametrize("has_room", [False, True])
def test_what_is_buffered_does_not_wait_for_a_stuck_reader_at_the_end(
    pipe, tmp_path, monkeypatch, has_room
):
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    (tmp_path / "capture").write_bytes(encode(Ping(7)))
    out = pipe(is_blocking=True)
    if not has_room:
        fill(out.write_end)
    ended = subprocess.run(
        [sys.executable, "-c", BUFFERED, str(tmp_path / "capture")],
        stdout=out.write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=GUARD,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (130, "")
    if has_room:
        assert os.read(out.read_end, 100) == b"a line"


@pytest.mark.parametrize("kind", ["socket", "terminal"])
def test_a_slow_socket_or_terminal_gets_everything(kind):
    if kind == "socket":
        ours, theirs = socket.socketpair()
        reading, writing = ours.detach(), theirs.detach()
    else:
        reading, writing = pty.openpty()
        tty.setraw(writing)
    whole = bytes(range(256)) * 4096

    def write():
        with Whole(writing) as out:
            out.write(whole)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    came = b""
    while len(came) < len(whole):
        came += os.read(reading, 1000)
    thread.join()
    assert came == whole
    # The descriptor is shared with other programs.
    assert os.get_blocking(writing)
    os.close(reading)
    os.close(writing)


@pytest.mark.usefixtures("connected")
def test_an_ignored_ctrl_c_cuts_nothing_off(start, until, pipe, full):
    stuck = pipe(is_blocking=True)
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    words = ["subscribe", full, "--count", str(LINES)]
    process = start(*words, before=ignoring, stdout=stuck.write_end)
    until(stuck.is_full, process)
    process.send_signal(signal.SIGINT)
    stuck.close_writing()
    with open(stuck.read_end, closefd=False) as reader:
        assert len(reader.readlines()) == LINES
    assert process.wait() == 0


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["topics", "--help"], ["topics"], ["describe", "--json"],
     ["dissect", "capture"], ["explain", "NO_SUCH_TOPIC"]],
    ids=" ".join,
)  # fmt: skip
def test_a_full_disk_is_one_sentence_and_an_exit_code(
    start, tmp_path, monkeypatch, words, unbuffered
):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    (tmp_path / "capture").write_bytes(encode(Ping(7)))
    with open("/dev/full", "w") as disk:  # noqa: PTH123
        process = start(*words, stdout=disk, cwd=tmp_path)
    assert process.communicate()[1] == "zaichik: No space left on device\n"
    assert process.returncode == 1


def test_a_log_line_that_does_not_fit_into_a_pipe_waits_and_is_not_cut(pipe):
    slow = pipe(is_blocking=False)
    out = log.unbuffered(os.fdopen(slow.write_end, "w", closefd=False))
    line = "x" * 300_000 + "\n"
    writing = threading.Thread(target=out.write, args=(line,), daemon=True)
    writing.start()
    came = b""
    while not came.endswith(b"\n"):
        came += os.read(slow.read_end, 65536)
    writing.join()
    assert came.decode() == line


def test_nothing_is_written_after_an_error_that_is_final():
    """A buffer keeps the rest, and the interpreter would try it again when it exits."""
    with open("/dev/full", "wb") as disk:  # noqa: PTH123
        out = Whole(disk.fileno(), error_is_final=True)
        with pytest.raises(OSError, match="No space left"):
            out.write(b"one")
        assert out.write(b"two") == 3


def test_standard_error_is_tried_anew_after_an_error(tmp_path, monkeypatch):
    """A line that could not be written is not put before the next one."""
    with open("/dev/full", "wb") as disk, (tmp_path / "log").open("wb") as room:  # noqa: PTH123
        stream = os.fdopen(os.dup(disk.fileno()), "w", buffering=1)
        monkeypatch.setattr(streams, "STDERR", stream.fileno())
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        with stream:
            streams.write_all()
            for _ in range(2):
                with pytest.raises(OSError, match="No space left"):
                    print("one", file=sys.stderr)
            os.dup2(room.fileno(), stream.fileno())
            print("two", file=sys.stderr)
    assert (tmp_path / "log").read_text() == "two\n"


def test_input_that_is_not_blocking_is_read_to_its_end(start, tmp_path):
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    process = start("dissect", "-", "--json", stdin=read_end, cwd=tmp_path)
    os.close(read_end)
    ping = encode(Ping(7))
    with open(write_end, "wb", buffering=0) as file:  # noqa: PTH123
        file.writelines(ping[number : number + 1] for number in range(len(ping)))
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert bytes.fromhex("".join(json.loads(line)["bytes"] for line in out.splitlines())) == ping
