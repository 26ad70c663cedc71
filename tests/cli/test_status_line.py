"""A line of progress on a terminal: all else goes above it, and nothing blocks the event loop."""

import io
import logging
import os
import pty

import anyio
import pytest
from rich.text import Text

from zaichik.cli import status_line as module
from zaichik.cli.status_line import StatusLine, status_line
from zaichik.cli.streams import Whole

pytestmark = pytest.mark.anyio

GUARD = 60
MUCH = 2_000_000  # bytes: more than any pipe holds
ERASE = b"\r\x1b[K"


def stream(descriptor):
    """A standard stream as a command has it."""
    return io.TextIOWrapper(Whole(descriptor), "utf-8", line_buffering=True)


class Pipes:
    """Pipes in the place of both standard streams."""

    def __init__(self):
        self.out, writing = os.pipe()
        self.err, writing_errors = os.pipe()
        self._writing = [writing, writing_errors]
        self.stdout = stream(writing)
        self.stderr = stream(writing_errors)
        for descriptor in (self.out, self.err):
            os.set_blocking(descriptor, False)

    async def read(self, descriptor, size):
        found = b""
        with anyio.fail_after(GUARD):
            while len(found) < size:
                await anyio.wait_readable(descriptor)
                found += os.read(descriptor, MUCH)
        return found

    def close(self):
        for descriptor in [self.out, self.err, *self._writing]:
            os.close(descriptor)


@pytest.fixture
def pipes():
    made = Pipes()
    yield made
    made.close()


class Terminal:
    """A terminal in the place of both standard streams."""

    def __init__(self, monkeypatch):
        self.master, self._slave = pty.openpty()
        os.set_blocking(self.master, False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "40")
        self.stream = stream(self._slave)
        self.all = b""

    async def until(self, text):
        """Read what it shows, until that has come."""
        with anyio.fail_after(GUARD):
            while text not in self.all:
                await anyio.wait_readable(self.master)
                self.all += os.read(self.master, MUCH)

    def hang_up(self):
        os.close(self.master)
        self.master = None

    def close(self):
        for descriptor in (self.master, self._slave):
            if descriptor is not None:
                os.close(descriptor)


@pytest.fixture
def terminal(monkeypatch):
    made = Terminal(monkeypatch)
    yield made
    made.close()


async def test_what_is_written_goes_above_the_line(terminal):
    async with status_line(terminal.stream, terminal.stream) as line:
        line.show(Text("3 running"))
        await terminal.until(b"3 running")
        await line.write(b"an image\n")
        await line.write_errors(b"a warning")
        await line.say("offset 7: exit code 3")
    await terminal.until(b"exit code 3\r\n3 running" + ERASE)
    shown = terminal.all.split(ERASE)
    assert shown[:5] == [
        b"",
        b"3 running",
        b"an image\r\n3 running",
        # A line without an end gets one.
        b"a warning\r\n3 running",
        b"offset 7: exit code 3\r\n3 running",
    ]


async def test_the_line_is_gone_at_the_end(terminal):
    async with status_line(terminal.stream, terminal.stream) as line:
        line.show(Text("3 running"))
        await terminal.until(b"3 running")
    terminal.stream.write("the end\n")
    await terminal.until(b"the end")
    assert terminal.all.endswith(ERASE + b"the end\r\n")


async def test_the_line_is_cut_to_the_width_of_the_terminal(terminal):
    """A longer one would be folded, and erased in part."""
    async with status_line(terminal.stream, terminal.stream) as line:
        line.show(Text("x" * 100))
        await terminal.until("…".encode())
    assert "x" * 38 + "…" in terminal.all.decode()
    assert "x" * 39 not in terminal.all.decode()


async def test_what_is_logged_goes_above_the_line(terminal):
    async with status_line(terminal.stream, terminal.stream) as line:
        line.show(Text("3 running"))
        await terminal.until(b"3 running")
        logging.getLogger("zaichik.client").warning("the connection is lost")
        await terminal.until(b"lost\r\n")
        # It is drawn again.
        await terminal.until(b"lost\r\n" + ERASE + b"3 running")
    assert ERASE + b"zaichik: the connection is lost\r\n" in terminal.all


async def test_it_is_drawn_only_when_it_has_changed(terminal, monkeypatch):
    monkeypatch.setattr(module, "DRAWING_SECONDS", 0)
    async with status_line(terminal.stream, terminal.stream) as line:
        for text in ("one", "one", "two"):
            line.show(Text(text))
            await terminal.until(text.encode())
    assert (terminal.all.count(b"one"), terminal.all.count(b"two")) == (1, 1)


async def test_a_terminal_that_was_closed_ends_nothing(terminal):
    """Its jobs are to finish."""
    async with status_line(terminal.stream, terminal.stream) as line:
        line.show(Text("3 running"))
        await terminal.until(b"3 running")
        terminal.hang_up()
        await line.write(b"an image\n")
        await line.say("a remark")
        line.show(Text("2 running"))
        await anyio.wait_all_tasks_blocked()


async def test_no_line_where_there_is_no_terminal(pipes):
    async with status_line(pipes.stdout, pipes.stderr) as line:
        line.show(Text("3 running"))
        await line.write(b"an image\n")
        await line.say("a remark")
        await line.write_errors(b"a warning")
    assert os.read(pipes.out, MUCH) == b"an image\n"
    assert os.read(pipes.err, MUCH) == b"a remark\na warning"


@pytest.mark.parametrize("name", ["TERM", "TTY_COMPATIBLE"])
async def test_no_line_on_a_terminal_that_cannot_move_its_cursor(terminal, monkeypatch, name):
    monkeypatch.setenv(name, {"TERM": "dumb", "TTY_COMPATIBLE": "0"}[name])
    async with status_line(terminal.stream, terminal.stream) as line:
        line.show(Text("3 running"))
        await line.write(b"an image\n")
    await terminal.until(b"image\r\n")
    assert terminal.all == b"an image\r\n"


async def test_a_reader_that_waits_holds_up_nothing_else(pipes):
    """Not the heartbeats of the connection, nor what goes elsewhere."""
    async with status_line(pipes.stdout, pipes.stderr) as line, anyio.create_task_group() as tasks:
        tasks.start_soon(line.write, b"x" * MUCH)
        await anyio.wait_all_tasks_blocked()
        assert len(await pipes.read(pipes.out, MUCH)) == MUCH


async def test_two_that_write_do_not_mix(pipes):
    async with status_line(pipes.stdout, pipes.stderr) as line, anyio.create_task_group() as tasks:
        tasks.start_soon(line.write, b"x" * MUCH)
        tasks.start_soon(line.write, b"y" * MUCH)
        found = await pipes.read(pipes.out, 2 * MUCH)
    assert found in {b"x" * MUCH + b"y" * MUCH, b"y" * MUCH + b"x" * MUCH}


async def test_what_nobody_can_read_is_dropped():
    reading, writing = os.pipe()
    os.close(reading)
    out = stream(writing)
    await StatusLine(out, out).write(b"an image\n")
    os.close(writing)


async def test_a_full_disk_is_an_error():
    if not os.path.exists("/dev/full"):  # noqa: PTH110, ASYNC240
        pytest.skip("there is no full disk")
    with open("/dev/full", "wb") as file:  # noqa: PTH123, ASYNC230
        out = stream(file.fileno())
        with pytest.raises(OSError, match="No space"):
            await StatusLine(out, out).write(b"an image\n")


async def test_a_file_needs_no_waiting(tmp_path):
    with (tmp_path / "out").open("wb") as file:
        out = stream(file.fileno())
        await StatusLine(out, out).write(b"x" * MUCH)
    assert (tmp_path / "out").stat().st_size == MUCH


async def test_a_stream_that_is_not_ours():
    out = io.TextIOWrapper(io.BytesIO())
    line = StatusLine(out, out)
    await line.write(b"\xffan image\n")
    await line.say("a remark")
    assert out.buffer.getvalue() == b"\xffan image\na remark\n"
