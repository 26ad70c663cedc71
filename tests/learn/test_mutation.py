"""The brokers of other hands, and the bugs planted in them: the lists are sound, the runner tells
right from wrong.
"""

import json
import shutil
from dataclasses import asdict, replace

import mutation
import pytest
from mutation import (
    Broken,
    Broker,
    Edit,
    Missing,
    Mutant,
    Verdict,
    check,
    judge,
    markdown,
    record,
    row,
    run,
)

NAMES = sorted(path.parent.name for path in mutation.BROKERS.glob("*/mutation.toml"))


def broker(name):
    found = Broker.load(name)
    if found.missing():
        pytest.skip(f"not installed: {', '.join(found.missing())}")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_mutant_changes_its_broker_at_one_place(tmp_path, name):
    found = Broker.load(name)
    mutants = list(found.mutants())
    assert len(mutants) >= 110
    for mutant in mutants:
        for name in {edit.file for edit in mutant.edits}:
            shutil.copy(found.folder / name, tmp_path)
        for edit in mutant.edits:
            edit.apply(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_each_mutant_names_the_rule_it_breaks_and_a_check_there_is(name):
    from zaichik.learn.stages import CHECKS

    for mutant in Broker.load(name).mutants():
        assert mutant.breaks
        assert mutant.expect in {"", *CHECKS}, mutant.name
        assert bool(mutant.expect) != bool(mutant.why), (
            f"{mutant.name}: a check that kills it, or why none does"
        )


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", NAMES)
def test_the_broker_is_right_where_its_mutant_is_wrong(tmp_path, name):
    right = broker(name)
    assert check(right.prepare(tmp_path), "S9.1", right.time_scale) == ([], "")
    wrong = next(mutant for mutant in right.mutants() if mutant.expect == "S9.1")
    verdict = judge(right, wrong)
    assert (verdict.outcome, verdict.checks) == ("killed", ["S9.1"])
    assert "S9.1" in row(verdict)
    assert f"| {wrong.name} | killed | S9.1 |" in markdown([verdict])


@pytest.mark.soak
@pytest.mark.unmeasured
@pytest.mark.parametrize("name", NAMES)
def test_the_broker_passes_everything(tmp_path, name):
    right = broker(name)
    assert check(right.prepare(tmp_path), "all", right.time_scale, keep_going=True) == ([], "")


def made(tmp_path, monkeypatch, *, old="right", needs=(), build=()):
    folder = tmp_path / "tiny"
    (folder / "mutants").mkdir(parents=True)
    (folder / "server.txt").write_text("right\n", encoding="utf-8")
    told = [f"needs = {list(needs)}", f"build = {list(build)}"]
    (folder / "mutation.toml").write_text("\n".join(told), encoding="utf-8")
    entry = [
        "[[mutant]]",
        'name = "wrong"',
        'file = "server.txt"',
        f'old = "{old}"',
        'new = "wrong"',
    ]
    entry += ['breaks = "a rule"', 'expect = ""', ""]
    (folder / "mutants" / "kind.toml").write_text("\n".join(entry), encoding="utf-8")
    monkeypatch.setattr(mutation, "BROKERS", tmp_path)
    return Broker.load("tiny")


def test_a_mutant_that_cannot_be_made_is_broken_and_not_killed(tmp_path, monkeypatch):
    [mutant] = (found := made(tmp_path, monkeypatch, old="elsewhere")).mutants()
    assert judge(found, mutant).outcome == "broken"


def test_a_mutant_that_does_not_build_is_broken_and_not_killed(tmp_path, monkeypatch):
    [mutant] = (found := made(tmp_path, monkeypatch, build=("false",))).mutants()
    verdict = judge(found, mutant)
    assert verdict.outcome == "broken"
    assert "does not build" in verdict.text


def test_an_edit_is_made_once_or_not_at_all(tmp_path):
    (tmp_path / "a.txt").write_text("one one", encoding="utf-8")
    with pytest.raises(Broken, match="occurs 2 times"):
        Edit("a.txt", "one", "two").apply(tmp_path)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one one"


def test_the_expected_check_comes_first_and_all_only_for_survivors(tmp_path, monkeypatch):
    found = made(tmp_path, monkeypatch)
    asked = []

    def fails(_copy, what, _scale):
        asked.append(what)
        return failing.get(what, []), ""

    monkeypatch.setattr(mutation, "check", fails)
    mutant = Mutant("kind", "wrong", (Edit("server.txt", "right", "wrong"),), "a rule", "S1.1")
    failing = {"S1.1": ["S1.1"]}
    assert judge(found, mutant).outcome == "killed"
    assert asked == ["S1.1"]
    asked.clear()
    failing = {}
    assert judge(found, mutant).outcome == "survived"
    assert asked == ["S1.1", "all"]


def told(mutant, *checks, text=""):
    return json.dumps(
        asdict(Verdict(mutant, "killed" if checks else "survived", list(checks), text))
    )


def test_the_first_check_that_kills_a_mutant_is_named_in_its_list_and_nothing_else_changes(
    tmp_path, monkeypatch
):
    found = made(tmp_path, monkeypatch)
    path = found.folder / "mutants" / "kind.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        f"# a list\n{text}why = 'none yet'\n\n[[mutant.also]]\n\n{text.replace('wrong', 'worse')}"
    )
    wrong, worse = (Mutant("kind", name, (), "a rule", "") for name in ("wrong", "worse"))
    assert (
        record(
            found,
            [told(wrong, "S1.2", "S2.2"), told(worse, "S1.1", text=f"{mutation.NOT_AGAIN}late")],
        )
        == 1
    )
    named = text.replace('expect = ""', 'expect = "S1.2"')
    assert (
        path.read_text()
        == f"# a list\n{named}\n[[mutant.also]]\n\n{text.replace('wrong', 'worse')}"
    )
    assert record(found, [told(worse), told(replace(wrong, expect="S1.2"), "S1.2")]) == 0


@pytest.mark.parametrize(
    ("expect", "why", "outcome", "text", "is_as_told"),
    [
        ("S1.1", "", "killed", "", True),
        ("S1.1", "", "killed", f"{mutation.NOT_AGAIN}late", False),
        ("S1.1", "", "survived", "", False),
        ("", "90 s", "survived", "", True),
        ("", "90 s", "killed", f"{mutation.NOT_AGAIN}late", True),
        ("", "", "survived", "", False),
        ("", "90 s", "broken", "", False),
        ("", "90 s", "hung", "", False),
    ],
)
def test_only_survivors_that_the_list_explains_may_survive(
    tmp_path, monkeypatch, expect, why, outcome, text, is_as_told
):
    found = made(tmp_path, monkeypatch)
    [mutant] = found.mutants()
    verdict = Verdict(replace(mutant, expect=expect, why=why), outcome, ["S1.1"], text)
    assert verdict.is_as_told == is_as_told
    monkeypatch.setattr(mutation, "judge", lambda *_, **__: verdict)
    assert mutation.main(["--broker", "tiny", "--json", str(tmp_path / "verdicts")]) == (
        0 if is_as_told else 1
    )
    assert json.loads((tmp_path / "verdicts").read_text(encoding="utf-8"))["outcome"] == outcome


def test_what_is_not_installed_is_told(tmp_path, monkeypatch, capsys):
    found = made(tmp_path, monkeypatch, needs=("no-such-compiler",))
    with pytest.raises(Missing, match="no-such-compiler"):
        run(found, [], 1, judge)
    assert mutation.main(["--broker", "tiny"]) == 0
    assert "skipped: not installed: no-such-compiler" in capsys.readouterr().out
