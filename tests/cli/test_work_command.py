"""`zaichik work`, with a broker."""

import json
import os
import signal
import subprocess
import sys

import pytest

from zaichik.cli.commands.work import _timeout

pytestmark = pytest.mark.usefixtures("connected")

KEPT = (
    "--retention",
    "forever",
    "--overflow",
    "reject",
    "--capacity",
    "100",
    "--max-bytes",
    "1MiB",
)
# Jobs that wait end with their worker, which a test may kill.
WAIT = "while [ ! -e $1 ] && kill -0 $PPID; do sleep 0.01; done"
RUNNING = f"echo started; {WAIT}"


@pytest.fixture
def topic(zaichik, topic):
    """A topic that loses nothing, and takes little room."""
    zaichik("create", topic, *KEPT)
    return topic


@pytest.fixture
def publish(zaichik, topic):
    def send(*payloads, key=None):
        options = [] if key is None else ["--key", key]
        assert zaichik("publish", topic, *options, *payloads).code == 0

    return send


@pytest.fixture
def work(start, topic):
    """Start a worker."""

    def run(*words, options=(), **settings):
        return start("work", topic, "--name", "n", *options, "--", *words, **settings)

    return run


@pytest.fixture
def finished(work):
    """Have a worker empty the queue; its exit code, and what it wrote."""

    def run(*words, options=()):
        process = work(*words, options=("--until-empty", *options))
        out, err = process.communicate()
        return process.returncode, out, err

    return run


def line(err, number):
    return err.splitlines()[number]


class TestAJob:
    def test_the_payload_is_its_standard_input(self, finished, publish):
        """SHR-12."""
        publish("two apples")
        assert finished("cat")[:2] == (0, "two apples")

    def test_what_the_message_says_is_in_the_command_and_in_the_environment(
        self, finished, publish, topic
    ):
        """SHR-12."""
        publish("x", key="{offset}")
        script = 'echo "$@ $ZAICHIK_TOPIC $ZAICHIK_OFFSET $ZAICHIK_KEY"'
        _, out, _ = finished("sh", "-c", script, "sh", "{topic}", "{offset}", "--", "-{key}")
        assert out == f"{topic} 0 -- -{{offset}} {topic} 0 {{offset}}\n"

    def test_all_that_is_in_the_queue_is_done_once(self, finished, publish):
        publish(*map(str, range(30)))
        code, out, err = finished("sh", "-c", "cat; echo", options=["--jobs", "8"])
        assert (code, sorted(map(int, out.split()))) == (0, list(range(30)))
        assert ": 30 done, " in err

    def test_so_many_run_at_a_time(self, work, publish, tmp_path):
        publish(*map(str, range(3)))
        process = work("sh", "-c", RUNNING, "sh", str(tmp_path / "go"), options=["--jobs", "2"])
        assert [process.stdout.readline() for _ in range(2)] == ["started\n"] * 2
        (tmp_path / "go").touch()
        assert process.stdout.readline() == "started\n"

    def test_one_that_fails_is_tried_again_until_it_is_dead(
        self, finished, publish, zaichik, topic
    ):
        """SHR-5, SHR-12."""
        publish("x")
        code, out, err = finished(
            "sh", "-c", "echo no such image >&2; exit 3", options=["--max-deliveries", "2"]
        )
        assert (code, out) == (1, "")
        assert err.splitlines()[1:-1] == [
            "no such image",
            f"{topic}, offset 0: exit code 3; it will be tried again (delivery 1 of 2)",
            "no such image",
            f"{topic}, offset 0: exit code 3; dead after 2 deliveries",
        ]
        assert ": 0 done, 1 failed, 1 dead, " in err
        (dead,) = zaichik("dead", topic, "--name", "n", "--json").json_lines
        assert (dead["deliveries"], dead["reason"]) == (2, "exit code 3: no such image")

    def test_exit_code_65_is_a_message_that_can_never_succeed(
        self, finished, publish, zaichik, topic
    ):
        """SHR-12."""
        publish("x")
        code, _, err = finished("sh", "-c", "exit 65")
        assert code == 1
        assert f"{topic}, offset 0: exit code 65; dead after 1 delivery\n" in err
        (dead,) = zaichik("dead", topic, "--name", "n", "--json").json_lines
        assert (dead["deliveries"], dead["reason"]) == (1, "exit code 65")

    def test_one_that_takes_too_long_is_ended(self, finished, publish):
        publish("x")
        options = ["--timeout", "50ms", "--max-deliveries", "1"]
        code, _, err = finished("sleep", "1000", options=options)
        assert code == 1
        assert "offset 0: took longer than 0.05 s; dead after 1 delivery\n" in err

    def test_messages_of_a_key_are_done_in_their_order(self, finished, publish):
        """SHR-8."""
        publish(*map(str, range(10)), key="k")
        code, out, _ = finished("sh", "-c", "cat; echo", options=["--by-key", "--jobs", "4"])
        assert (code, out.split()) == (0, list(map(str, range(10))))

    def test_two_workers_share_the_messages(self, work, publish, tmp_path):
        """SHR-2."""
        publish("one", "two")
        words = ("sh", "-c", f"cat; echo; {WAIT}", "sh")
        both = [work(*words, str(tmp_path / "go")) for _ in range(2)]
        assert sorted(process.stdout.readline() for process in both) == ["one\n", "two\n"]


class TestTheEnd:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_the_first_signal_lets_jobs_finish(
        self, work, publish, zaichik, topic, tmp_path, number
    ):
        """SHR-12: and what waits is released."""
        publish("one", "two", "three")
        process = work("sh", "-c", RUNNING, "sh", str(tmp_path / "go"), options=["--jobs", "2"])
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(number)
        process.stderr.readline()
        assert process.stderr.readline() == (
            f"{topic}: 2 jobs are still running; a second signal ends what runs\n"
        )
        # A terminal that is closed sends it twice.
        if number == signal.SIGHUP:
            process.send_signal(number)
        (tmp_path / "go").touch()
        out, err = process.communicate()
        assert (process.returncode, out) == (130, "")
        assert ": 2 done, " in err
        assert _shared(zaichik, topic)["done"] == 2

    def test_the_second_signal_ends_them_and_gives_their_messages_back(
        self, work, publish, zaichik, topic
    ):
        """SHR-12: nothing was done, and nothing is counted."""
        publish("x")
        script = f"trap 'echo tidy; exit 0' TERM; {RUNNING}"
        process = work("sh", "-c", script, "sh", "never")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
        assert (process.returncode, out) == (130, "tidy\n")
        assert ": 0 done, 1 given back, " in err
        shared = _shared(zaichik, topic)
        assert (shared["open"], shared["done"]) == (1, 0)

    def test_the_third_signal_waits_for_nothing(self, work, publish):
        publish("x")
        process = work(
            "sh", "-c", "trap 'echo no' TERM; echo $$; while kill -0 $PPID; do sleep 0.01; done"
        )
        leader = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        for _ in range(2):
            process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "no\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        with pytest.raises(ProcessLookupError):
            os.kill(leader, 0)

    def test_ctrl_c_that_was_ignored_stays_ignored(self, work, publish, tmp_path):
        """A script's `&` does that."""
        publish("one", "two")
        ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
        process = work("sh", "-c", "echo started; cat >&2", before=ignoring)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 130

    def test_a_reader_of_its_output_that_goes_away_ends_it(self, topic, publish):
        publish("one", "two")
        script = (
            f"{sys.executable} -m zaichik work {topic} --name n -- sh -c 'cat; echo' | head -n 1; "
            "echo ${PIPESTATUS[0]}"
        )
        result = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, timeout=120, check=True
        )
        assert result.stdout in {"one\n0\n", "two\n0\n"}

    def test_an_empty_queue_is_empty_at_once(self, finished):
        assert finished("true")[:2] == (0, "")

    def test_a_job_that_waits_to_be_tried_again_is_left(self, finished, publish, tmp_path):
        """So the end of the queue waits for it."""
        publish("x")
        script = "mkdir $1 && exit 1; echo done"
        code, out, _ = finished("sh", "-c", script, "sh", str(tmp_path / "once"))
        assert (code, out) == (0, "done\n")

    def test_those_that_died_before_do_not_count(self, finished, publish):
        publish("x")
        assert finished("sh", "-c", "exit 65")[0] == 1
        publish("y")
        assert finished("true")[0] == 0

    def test_a_queue_that_cannot_become_empty_says_why(self, start, topic, zaichik, monkeypatch):
        """SHR-12: as many are dead as may be."""
        process = start("serve", "--port", "0", "--json", "--limit", "max_dead=1")
        ready = json.loads(process.stdout.readline())
        monkeypatch.setenv("ZAICHIK_CONNECT", f"{ready['host']}:{ready['port']}")
        zaichik("create", topic, *KEPT)
        zaichik("publish", topic, "one", "two")
        words = ("work", topic, "--name", "n", "--until-empty", "--", "sh", "-c", "exit 65")
        worker = start(*words)
        _, err = worker.communicate()
        assert worker.returncode == 1
        assert (
            f"{topic}: nothing is handed out; it waits for room: as many messages are dead" in err
        )


def _rows(zaichik, topic):
    return zaichik("describe", topic, "--json").json["subscriptions"]


def _shared(zaichik, topic):
    (row,) = [row for row in _rows(zaichik, topic) if "shared" in row]
    return row["shared"]


class TestACommandThatCannotBeRun:
    def test_it_ends_before_anything_is_handed_out(self, work, publish, zaichik, topic):
        """SHR-12."""
        publish("x")
        process = work("nowhere-to-be-found")
        out, err = process.communicate()
        assert (process.returncode, out) == (127, "")
        assert err == "zaichik: nowhere-to-be-found: there is no such command\n"
        assert _rows(zaichik, topic) == []

    def test_one_that_depends_on_the_message_releases_it(self, work, publish, zaichik, topic):
        """SHR-12: nothing is burnt."""
        publish("x", key="nowhere-to-be-found")
        process = work("{key}")
        _, err = process.communicate()
        assert process.returncode == 127
        assert line(err, -1) == "zaichik: nowhere-to-be-found: No such file or directory"
        assert ": 0 done, 1 released, " in err
        assert _shared(zaichik, topic)["dead"] == 0

    def test_one_that_may_not_be_executed(self, work, publish, tmp_path):
        (tmp_path / "job").write_text("")
        process = work(str(tmp_path / "job"))
        assert process.wait() == 126


class TestTheTopic:
    def test_a_topic_that_can_lose_jobs_is_never_worked_on_in_silence(self, start, zaichik, topic):
        """SHR-9."""
        zaichik("create", f"{topic}.lossy", "--retention", "0")
        process = start("work", f"{topic}.lossy", "--name", "n", "--until-empty", "--", "true")
        _, err = process.communicate()
        assert line(err, 0).startswith(
            f"{topic}.lossy can lose jobs: what is published before the first worker comes is not "
            "kept; when it is full, the oldest messages are evicted; a restart of the broker loses "
            "everything."
        )

    def test_a_topic_that_it_makes_loses_none(self, start, zaichik, topic, tmp_path, monkeypatch):
        """SHR-9: durable if the broker has a folder, lossless and kept for ever."""
        process = start(
            "serve", "--port", "0", "--json", "--log-level", "error", "--data", str(tmp_path)
        )
        ready = json.loads(process.stdout.readline())
        monkeypatch.setenv("ZAICHIK_CONNECT", f"{ready['host']}:{ready['port']}")
        worker = start("work", "images", "--name", "n", "--until-empty", "--", "true")
        _, err = worker.communicate()
        assert worker.returncode == 0
        settings = zaichik("describe", "images", "--json").json["topic"]["settings"]
        assert (settings["durable"], settings["overflow"]) == (1, 1)
        assert settings["retention_ttl_ms"] == 2**64 - 1
        assert "can lose" not in err

    def test_in_memory_it_can_lose_only_by_a_restart(self, start, zaichik, topic):
        """SHR-9."""
        name = f"{topic}.made"
        process = start("work", name, "--name", "n", "--until-empty", "--", "true")
        _, err = process.communicate()
        assert process.returncode == 0
        assert f"{name} can lose jobs: a restart of the broker loses everything. " in line(err, 0)
        assert "serve --data DIR" in line(err, 0)
        zaichik("delete", name)


class TestARestartOfTheBroker:
    def test_does_no_job_twice(self, start, zaichik, tmp_path, monkeypatch):
        """SHR-4a: the worker comes back, and says which messages it has."""

        def serve(port):
            words = ("--json", "--log-level", "error", "--data", str(tmp_path / "data"))
            process = start("serve", "--port", str(port), *words)
            return process, json.loads(process.stdout.readline())["port"]

        broker, port = serve(0)
        monkeypatch.setenv("ZAICHIK_CONNECT", f"127.0.0.1:{port}")
        words = ("work", "images", "--name", "n", "--jobs", "2", "--", "sh", "-c", RUNNING)
        worker = start(*words, "sh", str(tmp_path / "go"))
        while not zaichik("topics", "images", "--json").json:
            assert worker.poll() is None
        zaichik("publish", "images", "one", "two")
        for _ in range(2):
            assert worker.stdout.readline() == "started\n"
        broker.terminate()
        assert broker.wait() == 0
        serve(port)
        while "reconnected" not in worker.stderr.readline():
            assert worker.poll() is None
        (tmp_path / "go").touch()
        while _shared(zaichik, "images")["done"] != 2:
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate()
        assert (out, ": 2 done, " in err) == ("", True)


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (["--jobs", "0"], "argument --jobs: 0 is too small; it must be at least 1"),
            (["--jobs", "-1"], "argument --jobs: '-1' is not a whole number"),
            (["--jobs", "100000"], "argument --jobs: '100000' is too large; at most 10000"),
            (["--max-deliveries", "65536"], "'65536' is too large; at most 65535"),
            (["--timeout", "24.1h"], "argument --timeout: '24.1h' is longer than a day"),
            (["--timeout", "soon"], "argument --timeout: 'soon' is not a duration"),
            (["--name", ""], "argument --name: '' is no name"),
        ],
    )
    def test_of_an_option(self, zaichik, topic, options, text):
        result = zaichik("work", topic, "--name", "n", *options, "--", "true")
        assert (result.code, result.out) == (2, "")
        assert text in result.err

    @pytest.mark.parametrize(
        ("words", "missing"),
        [
            (["--name", "n"], "COMMAND"),
            (["--name", "n", "--"], "COMMAND"),
            (["--", "true"], "--name"),
        ],
    )
    def test_what_is_missing(self, zaichik, topic, words, missing):
        result = zaichik("work", topic, *words)
        assert (result.code, missing in result.err) == (2, True)

    def test_a_key_in_a_script_is_warned_of(self, zaichik, topic):
        """It could hold commands."""
        result = zaichik(
            "work", topic, "--name", "n", "--until-empty", "--", "sh", "-c", "echo {key}"
        )
        assert "a key could hold commands" in result.err

    def test_workers_of_a_name_agree(self, work, zaichik, topic, publish, tmp_path):
        """SHR-1."""
        publish("x")
        first = work("sh", "-c", RUNNING, "sh", str(tmp_path / "go"))
        first.stdout.readline()
        other = work("true", options=["--max-deliveries", "3"])
        _, err = other.communicate()
        assert (other.returncode, "max_deliveries 5" in err) == (1, True)


@pytest.mark.parametrize(("text", "seconds"), [("24h", 86_390), ("23h", 82_800)])
def test_a_job_may_take_a_day(text, seconds):
    """But for the seconds that the broker waits for longer than the job may take."""
    assert _timeout(text) == seconds


class TestWhatIsShown:
    def test_json_has_an_object_for_each_message(self, finished, publish, topic):
        publish("x", key="k")
        code, out, err = finished("sh", "-c", "echo printed; exit 65", options=["--json"])
        assert (code, err.splitlines()[-1]) == (1, "printed")
        assert json.loads(out) == {
            "topic": topic,
            "offset": 0,
            "key": "k",
            "delivery": 1,
            "outcome": "reject",
            "reason": "exit code 65",
            "dead": True,
            "late": False,
        }

    def test_a_terminal_has_a_line_of_progress(self, on_terminal, publish, topic):
        """It is gone at the end; what jobs print stays."""
        publish("x")
        words = ("work", topic, "--name", "n", "--", "sh", "-c", "echo started; sleep 0.3")
        code, shown = on_terminal(*words, interrupt_at=b"started")
        assert code == 130
        assert f"{topic}: 1 running, 0 done" in shown
        assert "waiting for 1 job; Ctrl-C ends them" in shown
        # The last thing is the summary: a line that was erased left nothing.
        assert f"{topic}: 1 done, " in shown.rpartition("\n")[0].rpartition("\n")[2]

    def test_a_terminals_ctrl_c_does_not_reach_the_jobs(self, on_terminal, publish, topic):
        """SHR-12: they have sessions of their own."""
        publish("x")
        script = "trap 'echo hit' INT; echo started; sleep 0.3; echo finished"
        words = ("work", topic, "--name", "n", "--", "sh", "-c", script)
        _, shown = on_terminal(*words, interrupt_at=b"started")
        assert ("finished" in shown, "hit" in shown) == (True, False)
