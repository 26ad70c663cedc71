"""Signals that end a command: all of them do what Ctrl-C does."""

import io
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import anyio
import pytest

from zaichik.cli import interrupts
from zaichik.cli.commands import serve
from zaichik.cli.failure import Failure
from zaichik.core.settings import TopicSettings
from zaichik.storage.recovery import topic_file
from zaichik.storage.segment import TopicHeader

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
SHELL = ["sh", "-c"]
IGNORING = {
    # What shells do for a script's `&`, and what nohup does.
    number: [*SHELL, f'trap "" {number.name.removeprefix("SIG")}; exec "$@"', "sh"]
    for number in ENDING
}
# The first process of a namespace, as of a container: signals without a handler never reach it.
FIRST_PROCESS = ["unshare", "--pid", "--fork", "--kill-child"]


@pytest.mark.usefixtures("connected")
class TestACommandThatRunsOn:
    """It ends in order at each of them, with the exit code of Ctrl-C."""

    @pytest.fixture
    def topic(self, zaichik, topic):
        zaichik("publish", topic, "one")
        return topic

    @pytest.mark.parametrize("number", ENDING)
    def test_a_subscription_ends_with_its_summary(self, start, topic, number):
        process = start("subscribe", topic)
        assert process.stdout.readline() == "one\n"
        process.send_signal(number)
        out, err = process.communicate()
        assert (process.returncode, out) == (130, "")
        assert err.startswith(f"{topic}: 1 message, ")

    @pytest.mark.unmeasured
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_recording_that_follows_is_saved(self, start, until, topic, tmp_path, number):
        following = start("record", topic, "--into", str(tmp_path), "--follow")
        until(lambda: list(tmp_path.rglob(".unfinished.parquet")), following)
        following.send_signal(number)
        out, err = following.communicate()
        assert (following.returncode, err) == (130, "")
        begun, ended = out.splitlines()
        assert begun == f"{topic}: recording into {tmp_path} from offset 0"
        assert ended == f"{topic}: 1 message recorded into {tmp_path} (offsets 0 to 0)"
        assert len(list(tmp_path.rglob("*-0-1.parquet"))) == 1

    @pytest.mark.unmeasured
    def test_sigterm_ends_what_has_to_ignore_ctrl_c(self, start, topic):
        process = start("subscribe", topic, before=IGNORING[signal.SIGINT])
        assert process.stdout.readline() == "one\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 130
        assert "Traceback" not in process.stderr.read()

    @pytest.mark.unmeasured
    def test_a_signal_that_was_ignored_stays_ignored(self, start, zaichik, topic):
        process = start("subscribe", topic, before=IGNORING[signal.SIGHUP])
        assert process.stdout.readline() == "one\n"
        process.send_signal(signal.SIGHUP)
        zaichik("publish", topic, "two")
        assert process.stdout.readline() == "two\n"

    @pytest.mark.unmeasured
    @pytest.mark.parametrize("words", [["web"], ["legacy"]], ids=" ".join)
    def test_what_serves_ends_when_its_terminal_is_closed(self, start, words):
        process = start(*words, "--port", "0", "--json")
        assert json.loads(process.stdout.readline())["pid"] == process.pid
        process.send_signal(signal.SIGHUP)
        assert process.wait() == 130

    @pytest.mark.unmeasured
    def test_sigterm_ends_the_first_process_of_a_container(self, start, topic):
        if subprocess.run([*FIRST_PROCESS, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no namespaces here")
        outer = start("subscribe", topic, before=FIRST_PROCESS)
        assert outer.stdout.readline() == "one\n"
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii")
        os.kill(int(children), signal.SIGTERM)
        assert outer.wait() == 130


class TestACommandThatBlocksItsLoop:
    """The loop's own handler would note the signal, and nothing would come of it."""

    @pytest.mark.parametrize("number", ENDING)
    def test_one_that_waits_for_its_input_ends(self, start, tmp_path, number):
        os.mkfifo(tmp_path / "input")
        process = start("dissect", str(tmp_path / "input"))
        with (tmp_path / "input").open("wb"):  # waits until it is opened for reading
            process.send_signal(number)
            assert process.wait() == 130
        assert process.stderr.read() == ""

    @pytest.mark.usefixtures("connected")
    @pytest.mark.parametrize("number", ENDING)
    def test_one_that_waits_for_the_writer_of_a_fifo_ends(
        self, zaichik, topic, tmp_path, monkeypatch, number
    ):
        def opened(*_):
            signal.raise_signal(number)
            pytest.fail("it went on")

        monkeypatch.setattr("zaichik.cli.lines.open", opened, raising=False)
        assert zaichik("publish", topic, "--file", str(tmp_path / "fifo")).code == 130

    @pytest.mark.parametrize("number", ENDING)
    def test_one_that_waits_for_a_secret_ends(self, zaichik, monkeypatch, number):
        class Waiting(io.StringIO):
            def readline(self, *_):
                signal.raise_signal(number)
                pytest.fail("it went on")

        monkeypatch.setattr("sys.stdin", Waiting())
        monkeypatch.setattr("zaichik.cli.streams.check_readable", lambda: None)
        assert zaichik("login").code == 130

    def test_a_recorder_that_waits_for_a_silent_broker_ends(self, start):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            process = start("record", "t", "--connect", address)
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                process.send_signal(signal.SIGTERM)
                assert process.wait() == 130


class TestABrokerThatStarts:
    """A folder of durable topics may take minutes to read, in a thread that cannot be stopped."""

    @pytest.fixture
    def reading(self, start, tmp_path):
        """Start a broker that reads a topic without end: its file is a pipe.

        The log has a line about the folder before, so the start has begun.
        """
        copy = tmp_path / "topics/a.0123456789abcdef.7"
        copy.mkdir(parents=True)
        header = TopicHeader("orders", 7, TopicSettings(durable=1).by_name())
        (copy / "topic").write_bytes(topic_file(header))
        endless = tmp_path / "topics/b.0123456789abcdef.7"
        endless.mkdir()
        os.mkfifo(endless / "topic")
        process = start("serve", "--port", "0", "--json", "--data", str(tmp_path))
        assert "a.0123456789abcdef.7 is not opened" in process.stderr.readline()
        return process

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
    def test_it_ends_at_once_with_the_same_exit_code(self, reading, number, code):
        """And announces no port that is about to close."""
        reading.send_signal(number)
        assert reading.wait() == code
        assert reading.stdout.read() == ""

    def test_sighup_does_not_stop_it(self, reading):
        reading.send_signal(signal.SIGHUP)
        reading.send_signal(signal.SIGTERM)
        assert reading.wait() == 0

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
    def test_once_all_is_read_it_is_stopped_in_order(self, zaichik, monkeypatch, number, code):
        """Its new tokens are said once, so they must be said."""
        prepare = serve.serve_access.prepare

        def signalled(*about):
            signal.raise_signal(number)
            return prepare(*about)

        monkeypatch.setattr(serve.serve_access, "prepare", signalled)
        result = zaichik("serve", "--port", "0", "--json")
        assert result.code == code
        assert result.json["port"]
        assert f"{number.name}: stopping" in result.err

    def test_afterwards_all_handlers_are_as_before(self, zaichik, monkeypatch):
        def failing(*_):
            raise Failure("there is no address")

        monkeypatch.setattr(serve, "_listening", failing)
        before = [signal.getsignal(number) for number in ENDING]
        assert zaichik("serve", "--port", "0").code == 1
        assert [signal.getsignal(number) for number in ENDING] == before


def test_a_second_sighup_is_no_second_ctrl_c():
    """A closed terminal sends it twice, and what the first one began is to be finished."""
    with interrupts.like_ctrl_c(), interrupts.noted() as asked:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert asked()


def test_a_second_ctrl_c_is_at_once():
    with interrupts.like_ctrl_c(), interrupts.noted():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_what_the_loop_would_note_ends_code_that_blocks_it(number):
    with (
        interrupts.like_ctrl_c(),
        anyio.open_signal_receiver(number),
        interrupts.at_once(),
        pytest.raises(KeyboardInterrupt),
    ):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", ENDING)
def test_what_the_loop_has_only_noted_ends_code_that_is_about_to_block_it(number):
    """As a recorder that was told to end while it was imported."""

    async def run():
        with interrupts.tracked():
            signal.raise_signal(number)
            with interrupts.at_once():
                pytest.fail("it went on")

    before = [signal.getsignal(number) for number in ENDING]
    with interrupts.like_ctrl_c(), pytest.raises(KeyboardInterrupt):
        anyio.run(run)
    assert [signal.getsignal(number) for number in ENDING] == before


@pytest.fixture
def ignoring_ctrl_c():
    """As in a script's `zaichik record t &`: its Ctrl-C means others."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignoring_ctrl_c")
class TestWhereCtrlCIsIgnored:
    """It stays ignored; the other signals mean us."""

    def test_code_that_blocks_the_loop_goes_on(self):
        with interrupts.like_ctrl_c(), interrupts.at_once():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)

    def test_it_is_not_noted(self):
        with interrupts.like_ctrl_c(), interrupts.noted() as asked:
            signal.raise_signal(signal.SIGINT)
            assert not asked()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_the_others_are_noted_and_a_second_one_is_at_once(self, number):
        with interrupts.like_ctrl_c(), interrupts.at_once(), interrupts.noted() as asked:
            signal.raise_signal(number)
            assert asked()
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)

    def test_a_second_sighup_is_no_second_ctrl_c(self):
        with interrupts.like_ctrl_c(), interrupts.noted() as asked:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGHUP)
            assert asked()

    def test_afterwards_all_handlers_are_as_before(self):
        before = [signal.getsignal(number) for number in ENDING]
        with interrupts.like_ctrl_c(), interrupts.at_once(), interrupts.noted():
            pass
        assert [signal.getsignal(number) for number in ENDING] == before


def test_afterwards_all_handlers_are_as_before():
    before = [signal.getsignal(number) for number in ENDING]
    with interrupts.like_ctrl_c(), interrupts.at_once(), interrupts.noted():
        pass
    assert [signal.getsignal(number) for number in ENDING] == before
