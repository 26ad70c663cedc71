"""`zaichik watch`: once in a pipe, and live on a terminal, which it gives back as it was."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pytest

from zaichik.cli.terminal import FullScreen
from zaichik.learn.server import free_port

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\x1b\]52[^\x07]*\x07")


@pytest.mark.usefixtures("connected")
class TestInAPipe:
    """A snapshot."""

    def test_a_topic_is_drawn_once(self, zaichik, topic):
        zaichik("publish", topic, "one", "two", "--key", "k")
        result = zaichik("watch", topic)
        assert (result.code, result.err) == (0, "")
        assert "\x1b" not in result.out
        lines = result.out.splitlines()
        assert lines[0].startswith(f" {topic}  retention forever · capacity 10,000 · evict")
        assert lines[1].split()[:8] == ["published", "2", "=", "stored", "2", "+", "compacted", "0"]
        assert any("1 k two" in line for line in lines)
        assert all(len(line) <= 100 for line in lines)

    def test_all_topics_are_listed(self, zaichik, topic):
        zaichik("publish", topic, "x")
        result = zaichik("watch")
        assert result.code == 0
        (row,) = [line.split() for line in result.out.splitlines() if line.startswith(f" {topic} ")]
        assert (row[1], row[2], row[-1]) == ("0/s", "1", "0")

    def test_a_pattern_lists_the_topics_that_match_it(self, zaichik, topic):
        """PAT-2."""
        for name in (f"{topic}.a", f"{topic}.b.c", f"{topic}x", f"{topic}.*"):
            zaichik("publish", name, "x")
        result = zaichik("watch", f"{topic}.*")
        title, _, *rows = result.out.splitlines()
        assert f"2 topics like {topic}.*" in title
        assert sorted(row.split()[0] for row in rows) == [f"{topic}.*", f"{topic}.a"]
        assert zaichik("watch", f"{topic}.*", "--exact").out.startswith(f" {topic}.*  retention")

    def test_a_pattern_that_can_match_nothing_is_refused(self, zaichik):
        result = zaichik("watch", "$jour*")
        assert (result.code, result.out) == (2, "")
        assert "can match nothing" in result.err

    def test_ascii(self, zaichik, topic):
        zaichik("publish", topic, "x")
        assert zaichik("watch", topic, "--ascii").out.isascii()
        assert zaichik("watch", "--ascii").out.isascii()

    def test_a_topic_that_is_not_there_is_not_made(self, zaichik, topic):
        result = zaichik("watch", topic)
        assert (result.code, result.out) == (1, "")
        assert result.err == f"zaichik: there is no topic '{topic}'; see: zaichik topics\n"
        assert topic not in zaichik("topics").out

    def test_strangers_letters_do_not_reach_the_terminal(self, zaichik, topic):
        zaichik("publish", topic, "\x1b[2Jx\u202e", "--key", "\x9bk")
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", zaichik("watch", topic).out)


def test_without_a_broker_it_says_so(zaichik, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", "127.0.0.1:1")
    result = zaichik("watch", "t")
    assert (result.code, result.out) == (1, "")
    assert "no broker answers" in result.err


class Terminal:
    """A command on a terminal, and what it has shown there."""

    def __init__(self, start, *words, size=(24, 80), **environment):
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        env = {**os.environ, "TERM": "xterm", **environment}
        env.pop("COLUMNS", None)
        self.process = start(
            *words, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        self.slave = slave
        self.output = ""

    def resize(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys):
        """Type these, and wait until they have been read."""
        os.write(self.master, keys.encode())
        while (
            struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, bytes(4)))[0]
            and self.process.poll() is None
        ):
            time.sleep(0.01)

    def until(self, text, seconds=60):
        """What was written since the last call, up to where this text was."""
        end = time.monotonic() + seconds
        while text not in (shown := ESCAPES.sub(" ", self.output)):
            left = end - time.monotonic()
            assert left > 0, f"{text!r} was not shown, but: {shown[-2000:]}"
            if select.select([self.master], [], [], left)[0]:
                self.output += os.read(self.master, 65536).decode(errors="replace")
        self.output, before = "", self.output
        return before

    def end(self):
        """The exit code; the terminal must be as it was."""
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.05)[0]:
                self.output += os.read(self.master, 65536).decode(errors="replace")
        while select.select([self.master], [], [], 0)[0]:
            self.output += os.read(self.master, 65536).decode(errors="replace")
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.slave)
        os.close(self.master)
        return self.process.returncode


@pytest.mark.usefixtures("connected")
class TestOnATerminal:
    """Live."""

    @pytest.fixture
    def terminal(self, start, zaichik, topic):
        zaichik("publish", topic, "x", "--key", "k")
        return lambda *words, **options: Terminal(start, "watch", *words, **options)

    def test_it_draws_until_q_and_gives_the_terminal_back(self, terminal, topic):
        shown = terminal(topic)
        assert ENTER in shown.until("● live")
        shown.type("q")
        assert shown.end() == 0
        assert shown.output.rstrip().endswith(LEAVE)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_ends_it_as_cleanly(self, terminal, topic, number):
        shown = terminal(topic)
        shown.until("● live")
        shown.process.send_signal(number)
        assert shown.end() == 130
        assert LEAVE in shown.output
        assert "Traceback" not in shown.output

    def test_new_messages_are_drawn_and_only_what_has_changed_is_written(
        self, terminal, topic, zaichik
    ):
        shown = terminal(topic)
        shown.until("● live")
        zaichik("publish", topic, "later")
        written = shown.until("published 2 = stored 2")
        # A machine that stands still for seconds has the first line changed as well: it says so,
        # and then no longer.
        assert "retention" not in written or "no answer for" in written
        shown.type("q")
        assert shown.end() == 0

    def test_keys(self, terminal, topic):
        shown = terminal(topic)
        shown.until("● live")
        shown.type("\x1b[5~")  # Page Up, which does nothing
        shown.type(" ")
        shown.until("held, 0 newer")
        shown.type(" t")
        shown.until("reader")
        shown.type("tc")
        assert "\x1b]52;c;" in shown.until(f"copied: zaichik describe {topic}")
        shown.type("/nobody")
        shown.until("/nobody_")
        shown.type("\x1b")
        shown.until("q quit")
        shown.type("q")
        assert shown.end() == 0

    def test_enter_opens_a_topic_of_the_table_and_q_leads_back(self, terminal, topic):
        shown = terminal()
        # Enter does nothing before there is a row. Other tests' topics may fill the screen.
        shown.until("%")
        shown.type(f"/{topic}\n")
        shown.until(f"/{topic}  ")
        shown.type("\n")
        shown.until("published 1 = stored 1")
        shown.type("q")
        shown.until("▼")
        shown.type("q")
        assert shown.end() == 0

    def test_the_picture_follows_the_size_of_the_terminal_and_its_user_may_want_no_colours(
        self, terminal, topic
    ):
        shown = terminal(topic, NO_COLOR="1")
        written = shown.until("published 1 = stored 1")
        shown.resize(8, 40)
        shown.process.send_signal(signal.SIGWINCH)
        smaller = shown.until("next 1")
        assert not re.search(r"\x1b\[[0-9;]*m", written + smaller)
        lines = re.split(r"\x1b\[\d+;1H\x1b\[K", smaller.partition("\x1b[2J")[2])
        assert len(lines) > 4
        assert all(len(ESCAPES.sub("", line)) <= 40 for line in lines)
        shown.type("q")
        assert shown.end() == 0

    @pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
    def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(self, terminal, topic, number):
        shown = terminal(topic)
        shown.until("● live")
        taken = termios.tcgetattr(shown.slave)
        shown.process.send_signal(number)
        os.waitid(os.P_PID, shown.process.pid, os.WSTOPPED | os.WNOWAIT)
        if number == signal.SIGTSTP:
            assert termios.tcgetattr(shown.slave) == shown.before
        # What a shell does for itself.
        termios.tcsetattr(shown.slave, termios.TCSANOW, shown.before)
        shown.output = ""
        shown.process.send_signal(signal.SIGCONT)
        assert ENTER in shown.until("● live")
        assert termios.tcgetattr(shown.slave) == taken
        shown.type("q")
        assert shown.end() == 0

    @pytest.mark.parametrize("words", [["TOPIC"], []], ids=["topic", "table"])
    def test_a_terminal_that_does_not_know_its_size_has_a_usual_one(self, terminal, topic, words):
        shown = terminal(*[topic for _ in words], size=(0, 0))
        shown.until("● live")
        shown.type("q")
        assert shown.end() == 0


def test_a_broker_that_goes_and_comes_back_is_told_and_polled_again(start):
    def serve(port):
        process = start("serve", "--port", str(port), "--json", "--log-level", "error")
        return process, json.loads(process.stdout.readline())["port"]

    broker, port = serve(free_port())
    shown = Terminal(start, "watch", ZAICHIK_CONNECT=f"127.0.0.1:{port}")
    shown.until("● live")
    broker.terminate()
    broker.wait()
    shown.until("○")
    serve(port)
    shown.until("● live")
    shown.type("q")
    assert shown.end() == 0


def test_only_lines_that_have_changed_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((10, 3)))
    path = tmp_path / "terminal"
    with path.open("w") as file:
        screen = FullScreen(file)
        screen.draw(["one", "two"])
        screen.draw(["one", "three"])
        screen.draw(["one", "three"])
    assert path.read_text().count("one") == 1
    assert path.read_text().endswith("\x1b[?2026h\x1b[2;1H\x1b[Kthree\x1b[?2026l")
