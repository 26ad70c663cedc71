"""`zaichik learn`, as somebody uses it."""

import json
import os
import pty
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from gated import gated_broker

from zaichik.cli import learn_check, learn_doctor
from zaichik.learn import chapters, files, sentences
from zaichik.learn.drawing import FILE_NAME, Drawing, Step
from zaichik.learn.failure import Failure
from zaichik.learn.stages import CHECKS, STAGES, s14_ends

SERVER = """
import os, socket
listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
clients = []
while True:
    clients.append(listener.accept()[0])
"""
SPEAKS_FIRST = """
import contextlib, os, socket
listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
clients = []
while True:
    clients.append(listener.accept()[0])
    with contextlib.suppress(OSError):
        # Enough to see that it is no frame: a part would be waited for.
        clients[-1].send(b"hello, who is there?")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a server that listens and no more, and the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    command = json.dumps([sys.executable, "-E", "-S", "server.py"])
    (tmp_path / "learn.toml").write_text(f"[server]\ncommand = {command}\n", encoding="utf-8")
    return tmp_path


def test_init_makes_a_folder_and_says_how_to_go_on(zaichik, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = zaichik("learn", "init", "mine", "--python")
    assert result.code == 0
    assert result.out.splitlines() == [
        "wrote mine/learn.toml",
        "wrote mine/broker.py",
        "Next: cd mine; look at learn.toml; zaichik learn watch",
        f"To read, the wire protocol: {chapters.TUTORIAL.parent / 'protocol' / 'README.md'}",
    ]
    assert (
        "already exists and stays as it is; it starts: python3 broker.py\n"
        in zaichik("learn", "init", "mine").out
    )
    assert "Next: look at learn.toml; zaichik learn watch\n" in zaichik("learn", "init", ".").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["init"], "init needs a folder"),
        (["check", "S99"], "'S99' is not a stage (S0 to S18)"),
        (["hint", "S99"], "'S99' is not a stage"),
        (["list", "S99"], "'S99' is not a stage"),
        (["check", "--time-scale", "0"], "not a time scale"),
        (["check", "--time-scale", "x"], "not a time scale"),
        (["dance"], "invalid choice"),
        (["next", "S1"], "next takes no WHAT"),
        (["doctor", "S1"], "doctor takes no WHAT"),
        (["watch", "S1"], "watch takes an exercise (such as 2.1), or no WHAT for your stage"),
    ],
)
def test_wrong_usage_is_one_line(zaichik, folder, words, said):
    result = zaichik("learn", *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("action", ["check", "watch"])
def test_without_a_learn_toml_it_says_how_to_make_one(zaichik, tmp_path, monkeypatch, action):
    monkeypatch.chdir(tmp_path)
    result = zaichik("learn", action)
    assert result.code == 1
    assert "there is no learn.toml; create one with: zaichik learn init" in result.err


def test_list_shows_the_stages_and_one_with_its_text(zaichik, folder):
    lines = zaichik("learn", "list").out.splitlines()
    assert len(lines) == 1 + len(STAGES)
    assert lines[1].startswith("here")
    text = zaichik("learn", "list", "S10").out
    assert "S10  Lag, reported exactly" in text
    assert "chapter 09" in text
    assert all(check.title in text for check in STAGES[10].checks)
    listed = zaichik("learn", "list", "--json").json_lines
    assert [stage["stage"] for stage in listed] == [stage.id for stage in STAGES]
    assert sum(len(stage["checks"]) for stage in listed) == len(CHECKS)
    assert listed[0]["checks"][1]["sentences"] == ["connect.3"]


def test_list_shows_a_check_with_the_sentences_that_it_tests(
    zaichik, folder, monkeypatch, tmp_path
):
    """In full where the text is, else by their ids."""
    shown = zaichik("learn", "list", "s0.2").out
    assert "S0.2  the server waits for the client to speak first" in shown
    assert "connect.3: The client speaks first." in shown
    assert "protocol/README.md" in shown
    monkeypatch.setattr(sentences, "TEXT", tmp_path / "README.md")
    assert "sentences        connect.3\n" in zaichik("learn", "list", "S0.2").out


def test_from_the_first_stage_to_the_first_failure(zaichik, folder):
    """check, next, check, hint, hint: what a beginner does."""
    assert "S0 has not passed yet" in zaichik("learn", "next").err
    result = zaichik("learn", "check")
    assert result.code == 0
    assert "3 passed\nS0 has passed; for the next stage: zaichik learn next" in result.out
    assert "S1  One frame back" in zaichik("learn", "next").out
    result = zaichik("learn", "check", "--seed", "5")
    assert result.code == 1
    assert "seed 5\n" in result.out
    assert "FAIL S1.1  Hello is answered with Welcome" in result.out
    assert "wrong            nothing came within 3 s; Welcome with id 1 was due" in result.out
    assert "run it again     zaichik learn check S1.1 --seed 5" in result.out
    hints = CHECKS["S1.1"].hints
    for number in range(3):
        lines = zaichik("learn", "hint").out.splitlines()
        assert lines[1 : 2 + number] == [
            f"{n + 1}. {hint}" for n, hint in enumerate(hints[: number + 1])
        ]
    assert "that was the last hint; chapter 02" in lines[-1]
    assert zaichik("learn", "hint", "S5.3").out.splitlines()[1] == f"1. {CHECKS['S5.3'].hints[0]}"
    known = json.loads((folder / "learn-progress.json").read_text(encoding="utf-8"))
    assert (known["stage"], known["passed"], known["failed"], known["seed"]) == (1, [0], "S1.1", 5)


def test_without_a_failure_there_is_nothing_to_hint_at(zaichik, folder):
    assert "no check has failed" in zaichik("learn", "hint").err


def test_results_for_programs(zaichik, folder):
    (folder / "server.py").write_text(SPEAKS_FIRST, encoding="utf-8")
    result = zaichik(
        "learn", "check", "S0", "--json", "--keep-going", "--repeat", "2", "--junit", "out.xml"
    )
    assert result.code == 1
    *checks, last = result.json_lines
    assert [state["check"] for state in checks] == ["S0.1", "S0.2", "S0.3"] * 2
    assert [state["outcome"] for state in checks] == ["passed", "failed", "passed"] * 2
    assert last == {
        "summary": {"passed": 4, "failed": 2, "inconclusive": 0, "skipped": 0},
        "trouble": [],
    }
    assert len(ET.parse(folder / "out.xml").getroot().findall(".//failure")) == 2  # noqa: S314 (our own)


def test_what_failed_is_listed_at_the_end(zaichik, folder):
    """With --keep-going: outcome, check, what must hold, what is wrong."""
    (folder / "server.py").write_text(SPEAKS_FIRST, encoding="utf-8")
    lines = zaichik("learn", "check", "0-1", "--keep-going").out.splitlines()
    table = lines[next(number for number, line in enumerate(lines) if "what is wrong" in line) :]
    assert [line.split()[:2] for line in table[1 : table.index("")]] == [
        ["FAIL", name] for name in CHECKS if name == "S0.2" or name.startswith("S1.")
    ]
    assert "the server spoke before it was spoken to" in table[1]
    assert table[-1] == "for a hint: zaichik learn hint"


def test_messages_name_the_file_that_was_given(zaichik, folder):
    (folder / "learn.toml").rename(folder / "my go.toml")
    option = ("--config", "my go.toml")
    suggested = " --config 'my go.toml'"
    assert (
        f"run its checks with: zaichik learn check{suggested}\n"
        in zaichik("learn", "next", *option).err
    )
    assert f"zaichik learn check{suggested}, or name one" in zaichik("learn", "hint", *option).err
    assert (
        f"for the next stage: zaichik learn next{suggested}"
        in zaichik("learn", "check", *option).out
    )
    failed = zaichik("learn", "check", "S1.1", "--seed", "5", *option).out
    assert f"zaichik learn check S1.1 --seed 5{suggested}  (frames" in failed
    assert f"for a hint: zaichik learn hint{suggested}\n" in failed
    (folder / "my go.toml").write_text("[server]\ncommand = 'no-such-program'\n", encoding="utf-8")
    assert "the command in my go.toml cannot be started" in zaichik("learn", "check", *option).out
    assert "  ok my go.toml   no-such-program" in zaichik("learn", "doctor", *option).out


def test_a_stage_that_is_named_is_listed_with_its_text_for_programs(zaichik, folder):
    (state,) = zaichik("learn", "list", "S9", "--json").json_lines
    assert (state["stage"], state["goal"], len(state["checks"])) == (
        "S9",
        STAGES[9].goal,
        len(STAGES[9].checks),
    )
    assert zaichik("learn", "list", "S9.1", "--json").json == state["checks"][0]
    assert [state["stage"] for state in zaichik("learn", "list", "5-7", "--json").json_lines] == [
        "S5",
        "S6",
        "S7",
    ]
    told = zaichik("learn", "list", "S5-S6").out
    assert all(STAGES[number].goal in told for number in (5, 6))


def test_after_the_last_stage_it_says_that_you_are_done(zaichik, folder):
    """A stage that is passed again is not the last one to be passed."""
    passed = {"stage": 0, "passed": list(range(len(STAGES)))}
    (folder / "learn-progress.json").write_text(json.dumps(passed), encoding="utf-8")
    assert "all 19 stages passed: you have built a broker" in zaichik("learn", "check").out
    (folder / "learn-progress.json").write_text(
        json.dumps(passed | {"stage": STAGES[-1].number}), encoding="utf-8"
    )
    assert "There is no next stage; all 19 stages passed" in zaichik("learn", "next").out


def test_results_that_cannot_be_written_are_one_sentence(zaichik, folder):
    result = zaichik("learn", "check", "S0", "--junit", "nowhere/out.xml")
    assert (result.code, result.err) == (
        1,
        "zaichik: nowhere/out.xml cannot be written: No such file or directory\n",
    )


def test_a_drawing_is_written_beside_learn_toml(zaichik, folder, monkeypatch):
    """And its name is told, unless it cannot be written."""
    drawing = Drawing(
        "a gap", ("broker", "reader 1"), (Step(0.5, "broker", "reader 1", "Messages"),)
    )

    async def fail(_trial):
        raise Failure("a gap", drawing=drawing)

    monkeypatch.setitem(CHECKS, "S0.1", replace(CHECKS["S0.1"], function=fail))
    assert f"as a picture     {FILE_NAME}\n" in zaichik("learn", "check", "S0.1").out
    assert (folder / FILE_NAME).read_text(encoding="utf-8") == drawing.svg()
    (folder / FILE_NAME).unlink()
    (folder / FILE_NAME).mkdir()
    assert "as a picture" not in zaichik("learn", "check", "S0.1").out


def test_the_first_failure_ends_all_rounds(zaichik, folder):
    (folder / "server.py").write_text(SPEAKS_FIRST, encoding="utf-8")
    result = zaichik("learn", "check", "all", "--json", "--repeat", "2")
    assert [state.get("outcome") for state in result.json_lines] == ["passed", "failed", None]


def test_a_server_that_does_not_start_is_told_at_the_end(zaichik, folder):
    (folder / "server.py").write_text("print('no config')\nraise SystemExit(3)\n", encoding="utf-8")
    result = zaichik("learn", "check")
    assert result.code == 1
    assert "the command in learn.toml ended by itself with exit code 3" in result.out
    assert "no config" in result.out


WRITES_ITS_NUMBER = """
import os, time
open('pid.new', 'w').write(str(os.getpid()))
os.rename('pid.new', 'pid')
time.sleep(60)
"""
IGNORING_CTRL_C = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]  # what shells do for scripts' `&`


@pytest.mark.parametrize("action", ["check", "watch"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_learn_ends_the_server_too(start, until, folder, action, number):
    (folder / "server.py").write_text(WRITES_ITS_NUMBER)
    check_both_end(start("learn", action, cwd=folder), until, folder, number)


@pytest.mark.unmeasured
def test_what_has_to_ignore_ctrl_c_heeds_sigterm(start, until, folder):
    (folder / "server.py").write_text(WRITES_ITS_NUMBER)
    check_both_end(
        start("learn", "check", before=IGNORING_CTRL_C, cwd=folder), until, folder, signal.SIGTERM
    )


@pytest.mark.unmeasured
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_answer_that_is_being_judged_ends_too(start, until, folder, number):
    (folder / "exercise_1_1.py").write_text(WRITES_ITS_NUMBER)
    check_both_end(start("learn", "check", "1.1", cwd=folder), until, folder, number)


def check_both_end(process, until, folder, number):
    """By that signal: learn, and the program it has started, once that has written its process's
    number.
    """
    until((folder / "pid").exists, process)
    process.send_signal(number)
    assert process.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)


def test_a_running_broker_is_checked_where_it_is(zaichik, broker, tmp_path, monkeypatch):
    """No learn.toml is needed, no progress is kept, and what needs a process is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(s14_ends, "MANY_MORE", 50)  # all of them are sent in tests/learn
    monkeypatch.setattr(
        learn_check, "PATIENCE_S", 60.0
    )  # on a machine that stands still no broker is wrong
    result = zaichik("learn", "check", "S14", "--connect", broker, "--time-scale", "0.5")
    assert result.code == 0
    assert "  -- S14.5" in result.out
    assert "10 passed, 2 skipped" in result.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.unmeasured
def test_the_same_seed_may_be_run_again_at_the_same_broker(zaichik, broker, tmp_path):
    """A broker that runs on keeps its topics; the names of a new run are new all the same."""
    words = [
        sys.executable,
        "-m",
        "zaichik",
        "learn",
        "check",
        "S5.1",
        "--seed",
        "3",
        "--connect",
        broker,
    ]
    for _ in range(2):
        done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert "1 passed" in done.stdout


def test_a_server_that_cannot_start_is_shown_with_what_it_wrote(zaichik, folder):
    """By a check that runs its seeds concurrently, by doctor, and with the wrong line."""
    (folder / "server.py").write_text("def (\n", encoding="utf-8")
    for words in (["check", "S5"], ["doctor"]):
        result = zaichik("learn", *words)
        assert (result.code, result.err) == (1, "")
        assert (
            'server.py", line 1\n    def (\n        ^\nSyntaxError: invalid syntax\n' in result.out
        )


def test_doctor_looks_at_everything(zaichik, folder):
    pytest.importorskip("watchfiles")
    result = zaichik("learn", "doctor")
    words = {line.split(None, 2)[1]: line.split(None, 2)[0] for line in result.out.splitlines()}
    assert words.keys() == {
        "versions",
        "ports",
        "file",
        "clock",
        "terminal",
        "learn.toml",
        "program",
        "server",
    }
    assert {name for name, word in words.items() if word != "ok"} <= {"clock"}


def test_doctor_names_what_is_missing(zaichik, tmp_path, monkeypatch):
    async def unwatched(_folder):
        raise files.Unwatched("the library watchfiles is missing")
        yield

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "changes", unwatched)
    monkeypatch.setattr(learn_doctor, "LATE_S", -1)
    (tmp_path / "learn.toml").write_text(
        '[server]\ncommand = "no-such-program"\n', encoding="utf-8"
    )
    result = zaichik("learn", "doctor")
    assert result.code == 1
    assert "  !! file watcher the library watchfiles is missing" in result.out
    assert "  !! clock        sleepers wake up to" in result.out
    assert "  !! program      no-such-program was not found" in result.out
    assert (
        "  !! server       the command in learn.toml cannot be started: no-such-program"
        in result.out
    )


# -- watch ---------------------------------------------------------------------------------------


def test_watch_without_a_terminal_prints_and_ends_with_ctrl_c(start, folder):
    pytest.importorskip("watchfiles")
    process = start("learn", "watch")
    lines = []
    while not lines or "Ctrl-C ends" not in lines[-1]:
        lines.append(process.stdout.readline())
    assert (
        lines[0].startswith("zaichik learn  [-------------------] 0 of 19 stages")
        or "1 of 19" in lines[0]
    )
    assert "     S0 has passed\n" in lines
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130


def test_watch_with_neither_keys_nor_a_watcher_has_nothing_to_wait_for(start, folder):
    (folder / "watchfiles.py").write_text("raise ImportError\n", encoding="utf-8")
    process = start("learn", "watch")
    assert process.wait() == 1
    said = process.stderr.read()
    assert said.startswith(
        "zaichik: the library watchfiles is missing; get it with `make .venv/.installed-learn`"
    )
    assert said.endswith("zaichik learn check\n")


class Doing:
    """A key, and something that is done just before it is typed."""

    def __init__(self, key, do, *words):
        self._key, self._do, self._words = key, do, words

    def encode(self):
        self._do(*self._words)
        return self._key.encode()


@pytest.fixture
def typing(start):
    """Run a command on a terminal, and type keys when something is shown.

    Its exit code, and all it wrote.
    """

    def run(*words, steps, columns=100, lines=40):
        master, slave = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)}
        process = start(*words, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        output, shown, waiting = b"", 0, list(steps)
        try:
            while chunk := os.read(master, 4096):
                output += chunk
                if waiting and waiting[0][0].encode() in output[shown:]:
                    shown = len(output)
                    os.write(master, waiting.pop(0)[1].encode())
        except OSError:  # that is how Linux tells that the other side is closed
            pass
        os.close(master)
        return process.wait(), output.decode()

    return run


def test_watch_goes_on_only_when_it_is_told_to(typing, folder):
    """S0 is passed; n goes to S1, which fails; t says what it is about; h hints, twice; q ends."""
    keys = [
        ("n next stage", "n"),
        ("h hint", "t"),
        ("t back", "t"),
        ("h hint", "h"),
        (CHECKS["S1.1"].hints[0][:40], "h"),
        ("top bit set", "q"),
    ]
    code, output = typing("learn", "watch", steps=keys)
    assert code == 0
    assert "running, 3 to go" in output
    assert "1 of 19 stages" in output
    assert "Hello (0x01)" in output
    known = json.loads((folder / "learn-progress.json").read_text(encoding="utf-8"))
    assert (known["stage"], known["hints"]) == (1, {"S1.1": 2})


@pytest.mark.long
def test_watch_says_at_the_last_stage_that_you_are_done(typing, folder):
    command = json.dumps([sys.executable, "-m", "zaichik", "serve", "--port", "{port}"])
    (folder / "learn.toml").write_text(f"[server]\ncommand = {command}\n", encoding="utf-8")
    known = json.dumps({"stage": len(STAGES) - 1, "passed": list(range(len(STAGES) - 1))})
    (folder / "learn-progress.json").write_text(known, encoding="utf-8")
    code, output = typing("learn", "watch", steps=[("you have built a broker", "q")])
    assert code == 0
    assert "all 19 stages passed: you have built a broker" in output


@pytest.mark.unmeasured
def test_watch_runs_again_when_a_file_has_changed(typing, folder):
    pytest.importorskip("watchfiles")
    (folder / "server.py").write_text("raise SystemExit(3)\n", encoding="utf-8")

    mend = Doing("x", (folder / "server.py").write_text, SERVER)
    code, output = typing("learn", "watch", steps=[("exit code 3", mend), ("S0 has passed", "q")])
    assert code == 0
    assert "waiting for files to change" in output


def test_watch_reads_again_what_is_beside_the_server(typing, folder):
    """A learn.toml that was wrong, and one that is mended; a step made elsewhere with `zaichik
    learn next`.
    """
    path = folder / "learn.toml"
    right = path.read_text(encoding="utf-8")
    path.write_text('[server]\ncommand = "no-such-program"\n', encoding="utf-8")
    step = json.dumps({"stage": 1, "passed": [0]})
    keys = [
        ("cannot be started", Doing("r", path.write_text, "")),
        ("no section [server]", Doing("r", path.write_text, right)),
        ("S0 has passed", Doing("r", (folder / "learn-progress.json").write_text, step)),
        ("S1  One frame back", "q"),
    ]
    assert typing("learn", "watch", steps=keys)[0] == 0
    assert json.loads((folder / "learn-progress.json").read_text(encoding="utf-8"))["stage"] == 1


def test_watch_says_when_files_are_not_watched(typing, folder):
    """The library is hidden; r still runs the checks."""
    (folder / "watchfiles.py").write_text("raise ImportError\n", encoding="utf-8")
    code, output = typing(
        "learn",
        "watch",
        steps=[("NOT watching", "r"), ("S0 has passed", "q")],
        columns=50,
        lines=12,
    )
    assert code == 0
    assert "the library watchfiles is missing" in output


@pytest.mark.unmeasured
def test_watch_ends_with_ctrl_c_and_gives_the_terminal_back(on_terminal, folder):
    code, output = on_terminal("learn", "watch", interrupt_at=b"q quit")
    assert code == 130
    assert "Traceback" not in output


@pytest.mark.parametrize("is_encrypted", [True, False], ids=["TLS", "plain"])
@pytest.mark.parametrize("what", ["all", "S1.1", "S5"])
def test_a_broker_that_asks_for_a_login_is_told_in_one_sentence(
    zaichik, tmp_path, monkeypatch, what, is_encrypted
):
    """And not as a mistake of its own, with the bytes of its answer."""
    monkeypatch.chdir(tmp_path)
    with gated_broker(tmp_path, is_encrypted=is_encrypted) as gated:
        result = zaichik("learn", "check", what, "--connect", f"127.0.0.1:{gated.port}")
        as_json = zaichik("learn", "check", what, "--connect", f"127.0.0.1:{gated.port}", "--json")
    sentence = "this broker requires a login; without --connect, chapters run their own"
    assert (result.code, result.out.count(sentence), "FAIL" in result.out) == (1, 1, False)
    assert as_json.json_lines[-1]["trouble"] == [sentence]
