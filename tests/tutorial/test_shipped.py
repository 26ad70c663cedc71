"""Chapter 16 and the shipped broker's files: what is shown of them, and the mistakes that are
planted in a copy.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import anyio
import parts
import pytest
import shipped
from chapter import TUTORIAL, all_chapters
from fences import EXCERPT, lexed
from robot import Reading
from sybil import Document, Example, Region

from zaichik.learn import snapshots
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.config import read
from zaichik.learn.runner import run_check
from zaichik.learn.server import Launcher
from zaichik.learn.stages import CHECKS
from zaichik.learn.trial import Pace

pytestmark = pytest.mark.unmeasured  # the tester, and the broker, have tests of their own

HERE = next(chapter for chapter in all_chapters() if chapter.number == 16)
FENCES = lexed(HERE.text)
PLANTED = [fence for fence in FENCES if fence.language == "diff"]
FAILS = re.compile(r"^FAIL (S\d+\.\d+) ", re.MULTILINE)


def experiment(name, folder, **variables):
    """What an experiment writes, run in a folder as a reader runs it."""
    (folder / "experiments").mkdir(exist_ok=True)
    shutil.copy2(HERE.folder / "experiments" / f"{name}.py", folder / "experiments")
    path = os.pathsep.join(map(str, (TUTORIAL.parent, TUTORIAL.parent / "protocol")))
    result = subprocess.run(
        [sys.executable, "-m", f"experiments.{name}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path} | variables,
    )
    return result.stdout


@pytest.fixture
def copy(tmp_path):
    """A reader's folder with a copy of the shipped broker."""
    experiment("borrow", tmp_path)
    return tmp_path


def test_lines_are_found_by_words_of_the_first_and_the_last():
    text = "one\ntwo\nthree\ntwo\n"
    assert shipped.between(text, "one", "two") == "one\ntwo\n"
    assert shipped.between(text, "three", "") == "three\ntwo\n"
    assert shipped.between(text, "", "") == text


@pytest.mark.parametrize(
    ("first", "last", "problem"),
    [
        ("four", "", "0 lines have 'four'"),
        ("two", "", "2 lines have 'two'"),
        ("three", "one", "no line after it"),
    ],
)
def test_lines_that_are_gone_or_there_twice_are_noticed(first, last, problem):
    with pytest.raises(parts.NoSuchPart, match=problem):
        shipped.between("one\ntwo\nthree\ntwo\n", first, last)


def test_a_function_is_found_in_any_file_and_missed_if_it_is_gone():
    assert shipped.function("zaichik_protocol/codec.py", "encode").startswith("def encode(frame")
    assert shipped.function("zaichik/core/ring.py", "BroadcastRing.append").startswith(
        "    def append(self"
    )
    with pytest.raises(parts.NoSuchPart, match="has 0 times"):
        shipped.function("zaichik/core/ring.py", "BroadcastRing.prepend")


def test_a_mistake_can_only_be_planted_where_the_right_lines_are():
    change = shipped.planted(
        "zaichik/core/ring.py", "BroadcastRing.append", "            wake()\n", "            pass\n"
    )
    assert "-            wake()\n+            pass\n" in change
    assert len(change.splitlines()) < 8
    with pytest.raises(parts.NoSuchPart, match="append has 0 times"):
        shipped.planted("zaichik/core/ring.py", "BroadcastRing.append", "sleep()", "pass")


def test_every_stop_has_the_reader_s_lines_and_the_shipped_ones():
    """Headings that begin with Read are the stops; the reader's own lines come first."""
    stops = re.split(r"^## ", HERE.text.read_text(encoding="utf-8"), flags=re.MULTILINE)
    stops = [stop for stop in stops if stop.startswith("Read: ")]
    assert len(stops) >= 8
    for stop in stops:
        files = re.findall(r"^\*\*From `(.+)`:\*\*$", stop, re.MULTILINE)
        assert [file.startswith(f"{shipped.FOLDER}/") for file in files[:2]] == [False, True], (
            stop.partition("\n")[0]
        )
        own = snapshots.program(CHAPTERS[14])
        assert all(file in own for file in files if not file.startswith(f"{shipped.FOLDER}/"))


def test_the_copy_has_what_is_shown_and_a_change_in_it_is_put_back(copy):
    for fence in FENCES:
        if (told := EXCERPT.fullmatch(fence.caption)) and told["file"].startswith(shipped.FOLDER):
            assert fence.text in (copy / told["file"]).read_text(encoding="utf-8")
    ring = copy / shipped.FOLDER / "zaichik/core/ring.py"
    right = ring.read_text(encoding="utf-8")
    ring.write_text("", encoding="utf-8")
    assert experiment("borrow", copy).splitlines()[0] == "put back: real/zaichik/core/ring.py"
    assert ring.read_text(encoding="utf-8") == right
    assert "put back" not in experiment("borrow", copy)


def test_the_copy_is_what_runs_and_not_what_is_installed(copy):
    """A file that neither can do without says so: in `along`, and in the broker that the copy's
    learn.toml starts.
    """
    (copy / shipped.FOLDER / "zaichik/core/ring.py").write_text(
        "raise SystemExit('mine')\n", encoding="utf-8"
    )
    with pytest.raises(subprocess.CalledProcessError) as failed:
        experiment("along", copy, PYTHONPATH=shipped.FOLDER)
    assert failed.value.stderr == "mine\n"
    known = read(copy / shipped.FOLDER / "learn.toml")
    command = [sys.executable, *known.command_at(0, str(copy / "data"))[1:]]
    result = subprocess.run(
        command, cwd=known.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stderr == "mine\n"


def test_every_planted_line_has_its_own_failure_in_the_text():
    failing = [
        found[1]
        for fence in FENCES
        if fence.language == "console" and (found := FAILS.search(fence.text))
    ]
    assert len(PLANTED) == 3
    assert [*dict.fromkeys(failing)] == ["S12.5", "S9.2", "S13.5"]


PROVEN = {
    "S12.5": ["S9.2", "S13.5"],
    "S9.2": ["S12.5", "S9.1"],
    "S13.5": ["S12.5", "S9.2"],
}  # checks that pass


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize(("place", "fails"), [*enumerate(PROVEN)], ids=PROVEN)
async def test_a_planted_line_fails_its_check_and_not_those_of_the_others(place, fails, copy):
    """So the prediction can be wrong."""
    reading = Reading(HERE, copy)
    example = Example(Document("", ""), 1, 1, Region(0, 0, PLANTED[place]), {})
    assert reading.edit(example) is None
    reading.terminals.close()
    known = read(copy / shipped.FOLDER / "learn.toml")
    launcher = Launcher(replace(known, command=(sys.executable, *known.command[1:])))
    try:
        outcomes = {}
        for name in (fails, *PROVEN[fails]):
            pace = Pace(scale=0.5, patience=2.0 if name == fails else 20.0)
            outcomes[name] = (await run_check(CHECKS[name], launcher, [0], pace)).outcome
            if (
                outcomes[name] == "inconclusive"
            ):  # the machine was too busy for times as short as these
                pace = Pace(scale=2.0, patience=20.0)
                outcomes[name] = (await run_check(CHECKS[name], launcher, [0], pace)).outcome
    finally:
        with anyio.CancelScope(shield=True):
            await launcher.stop()
    assert outcomes == dict.fromkeys(PROVEN[fails], "passed") | {fails: "failed"}
