"""learn.toml, what init writes, and the file that remembers."""

import json

import pytest

from zaichik.learn import config, folder, progress
from zaichik.learn.config import BadConfig
from zaichik.learn.progress import Progress


@pytest.mark.parametrize("python", [True, False])
def test_what_init_writes_can_be_read(tmp_path, python):
    written = folder.init(tmp_path / "new" / "broker", python=python)
    settings = config.read(tmp_path / "new" / "broker" / "learn.toml")
    assert settings.port_variable == "PORT"
    assert (settings.start_s, settings.stop_s) == (10, 5)
    assert settings.folder == tmp_path / "new" / "broker"
    assert {path.name for path in written} == (
        {"learn.toml", "broker.py"} if python else {"learn.toml"}
    )


@pytest.mark.parametrize("language", ["Go", "Rust"])
def test_what_init_writes_has_a_command_for(tmp_path, language):
    """It can be put in the place of the one that is there."""
    folder.init(tmp_path, python=False)
    text = (tmp_path / "learn.toml").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.endswith(f"# {language}")]
    (tmp_path / "learn.toml").write_text(f"[server]\n{line.removeprefix('#')}\n", encoding="utf-8")
    command = config.read(tmp_path / "learn.toml").command
    assert command[:2] == ("sh", "-c")
    assert " && exec " in command[2]


def test_init_leaves_what_is_there(tmp_path):
    (tmp_path / "broker.py").write_text("mine", encoding="utf-8")
    written = folder.init(tmp_path, python=True)
    assert [path.name for path in written] == ["learn.toml"]
    assert (tmp_path / "broker.py").read_text(encoding="utf-8") == "mine"
    assert folder.init(tmp_path, python=True) == []


def test_a_command_may_be_a_string_and_name_its_port(tmp_path):
    path = tmp_path / "learn.toml"
    path.write_text("[server]\ncommand = \"./run --at 127.0.0.1:{port} 'a b'\"\n", encoding="utf-8")
    assert config.read(path).command_at(7, "") == ["./run", "--at", "127.0.0.1:7", "a b"]


@pytest.mark.parametrize(
    ("words", "names"), [("--port {port}", False), ("--data={data}/topics", True)]
)
def test_a_command_may_name_a_folder(tmp_path, words, names):
    path = tmp_path / "learn.toml"
    path.write_text(f'[server]\ncommand = "./run {words}"\n', encoding="utf-8")
    settings = config.read(path)
    assert settings.names_a_folder == names
    assert settings.command_at(7, "/x")[-1] == ("--data=/x/topics" if names else "7")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no section"),
        ("[server]\n", "command must be a list"),
        ("[server]\ncommand = []\n", "command must be a list"),
        ("[server]\ncommand = [1]\n", "command must be a list"),
        ('[server]\ncommand = "x"\nport = 5\n', "unknown in .server.: port; known are command"),
        (
            '[server]\ncommand = "x"\nstart_seconds = "long"\n',
            'start_seconds = "long" makes no sense',
        ),
        ('[server]\ncommand = "x"\nstop_seconds = true\n', "stop_seconds = true makes no sense"),
        ("server = ", "cannot be read"),
    ],
)
def test_a_wrong_file_is_told_in_a_sentence(tmp_path, text, problem):
    path = tmp_path / "learn.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig, match=problem):
        config.read(path)


def test_a_missing_file_tells_how_to_make_one(tmp_path):
    with pytest.raises(
        BadConfig, match=r"there is no .*/learn\.toml; create one with: zaichik learn init"
    ):
        config.read(tmp_path / "learn.toml")
    with pytest.raises(
        BadConfig, match=r"there is no .*/go\.toml; create a learn\.toml to copy with: zaichik"
    ):
        config.read(tmp_path / "go.toml")


def test_progress_is_kept_in_a_readable_file(tmp_path):
    known = Progress(stage=2, passed=[0, 1], failed="S2.1", seed=5, hints={"S2.1": 1})
    progress.write(tmp_path, known)
    assert progress.read(tmp_path) == known
    assert json.loads((tmp_path / "learn-progress.json").read_text(encoding="utf-8"))["passed"] == [
        0,
        1,
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["learn-progress.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"unknown": 1}', "\xff"])
def test_a_spoiled_file_begins_anew(tmp_path, text):
    (tmp_path / "learn-progress.json").write_text(text, encoding="latin-1")
    assert progress.read(tmp_path) == Progress()


def test_a_stage_that_fails_again_has_been_passed_all_the_same():
    known = Progress(passed=[0, 1])
    known.record(1, "S1.2", 7)
    assert (known.passed, known.failed, known.seed) == ([0, 1], "S1.2", 7)
    known.record(0, "", None)
    assert known.failed == "S1.2"
    known.record(1, "", None)
    assert (known.passed, known.failed, known.seed) == ([0, 1], "", None)
