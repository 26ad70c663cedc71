"""Whether `zaichik learn check` refuses brokers with one bug each: `python -m tests.learn.mutation
--broker go`.

brokers/README.md describes the brokers, their mutants and what the verdicts mean.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

BROKERS = Path(__file__).parent / "brokers"
NOT_COPIED = ("mutants", "broker", "learn-progress.json", "__pycache__")
NOT_AGAIN = "not again: "  # begins the text of a verdict that chance has made
CHECK_SECONDS, ALL_SECONDS, BUILD_SECONDS = 120, 400, 300  # a suite that takes longer hangs


class Broken(Exception):
    """The mutant itself is wrong: its text is not found once, or it does not build."""


class Missing(Exception):
    """A program that the broker needs is not installed."""


@dataclass(frozen=True)
class Edit:
    """Replaces text that occurs exactly once in a file."""

    file: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        path = folder / self.file
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise Broken(f"{self.file}: `old` occurs {count} times: {self.old.strip()[:60]!r}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """One planted bug, and the check that should find it ("": none does yet)."""

    kind: str  # the name of its file: what class of bug it is
    name: str
    edits: tuple[Edit, ...]
    breaks: str
    expect: str
    why: str = ""


@dataclass
class Verdict:
    """What became of a mutant.

    `outcome` is killed, survived, broken or hung; `checks` are those that refused it.
    """

    mutant: Mutant
    outcome: str
    checks: list[str] = field(default_factory=list)
    text: str = ""

    @property
    def is_by_chance(self) -> bool:
        """Whether the check that refused it passed when it was run again."""
        return self.text.startswith(NOT_AGAIN)

    @property
    def is_as_told(self) -> bool:
        """Whether it was killed, or survived and the list says why."""
        known = not self.mutant.expect and bool(self.mutant.why)
        return (self.outcome == "killed" and (known or not self.is_by_chance)) or (
            self.outcome == "survived" and known
        )


@dataclass(frozen=True)
class Broker:
    """A broker's folder: how it is built, and the bugs that are planted in it."""

    folder: Path
    build: tuple[str, ...]
    needs: tuple[str, ...]
    time_scale: float
    near: dict[str, list[str]]  # by class: the stages that could notice its mutants

    @classmethod
    def load(cls, name: str) -> "Broker":
        folder = BROKERS / name
        told = tomllib.loads((folder / "mutation.toml").read_text(encoding="utf-8"))
        return cls(
            folder,
            tuple(told["build"]),
            tuple(told["needs"]),
            told.get("time_scale", 1.0),
            told.get("near", {}),
        )

    def missing(self) -> list[str]:
        return [program for program in self.needs if shutil.which(program) is None]

    def mutants(self) -> Iterator[Mutant]:
        """In the order of the files and of what is in them; a name that is there twice is a
        ValueError.
        """
        seen = set()
        for path in sorted(self.folder.glob("mutants/*.toml")):
            for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
                if entry["name"] in seen:
                    raise ValueError(f"two mutants are called {entry['name']}")
                seen.add(entry["name"])
                edits = [
                    Edit(each.get("file", entry["file"]), each["old"], each["new"])
                    for each in entry.get("also", [])
                ]
                first = Edit(entry["file"], entry["old"], entry["new"])
                yield Mutant(
                    path.stem,
                    entry["name"],
                    (first, *edits),
                    entry["breaks"],
                    entry["expect"],
                    entry.get("why", ""),
                )

    def prepare(self, folder: Path, edits: tuple[Edit, ...] = ()) -> Path:
        """A copy of the broker with the edits made, built; its path."""
        copy = folder / "broker"
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        for edit in edits:
            edit.apply(copy)
        if self.build:
            built = subprocess.run(
                self.build, cwd=copy, capture_output=True, text=True, timeout=BUILD_SECONDS
            )
            if built.returncode:
                raise Broken(f"it does not build: {built.stderr.strip()[-400:]}")
        return copy


def check(
    copy: Path, what: str, time_scale: float, *, keep_going: bool = False
) -> tuple[list[str], str]:
    """The checks that failed and what the first one said.

    A suite that does not end is a TimeoutError.
    """
    command = [
        sys.executable,
        "-m",
        "zaichik",
        "learn",
        "--config",
        str(copy / "learn.toml"),
        "--json",
    ]
    command += [
        "--time-scale",
        str(time_scale),
        *(["--keep-going"] if keep_going else []),
        "check",
        what,
    ]
    limit = ALL_SECONDS if what == "all" else CHECK_SECONDS
    process = subprocess.Popen(
        command,
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit * time_scale)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise TimeoutError(f"check {what} did not end") from None
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    results = [line for line in lines if "check" in line]
    if not results:
        raise Broken(f"check {what} told nothing: {(err or out).strip()[-400:]}")
    failed = [line for line in results if line["outcome"] == "failed"]
    text = next((str((line.get("failure") or {}).get("summary", "")) for line in failed), "")
    return [line["check"] for line in failed], text


def judge(broker: Broker, mutant: Mutant, *, quick: bool = False) -> Verdict:
    """Runs the check that should refuse the mutant, and all checks if it does not; if `quick`, the
    stages near it.
    """
    more = broker.near.get(mutant.kind, ["all"]) if quick else ["all"]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        try:
            copy = broker.prepare(Path(folder), mutant.edits)
            for what in ([mutant.expect] if mutant.expect else []) + more:
                failed, text = check(copy, what, broker.time_scale)
                if (
                    failed
                    and failed != [mutant.expect]
                    and not check(copy, failed[0], broker.time_scale)[0]
                ):
                    text = f"{NOT_AGAIN}{text}"  # a chance, of the mutant's or of a busy machine's
                if failed:
                    return Verdict(mutant, "killed", failed, text)
        except Broken as broken:
            return Verdict(mutant, "broken", text=str(broken))
        except TimeoutError as hung:
            return Verdict(mutant, "hung", text=str(hung))
    return Verdict(
        mutant, "survived", text="" if more == ["all"] else f"only {', '.join(more)} were run"
    )


def row(verdict: Verdict) -> str:
    mutant = verdict.mutant
    by = ", ".join(verdict.checks)
    if verdict.checks and mutant.expect not in verdict.checks:
        by += f" (expected {mutant.expect or 'none'})"
    if verdict.is_by_chance:
        by += " once"
    return f"{verdict.outcome:9} {mutant.kind:13} {mutant.name:45} {by}"


def markdown(verdicts: list[Verdict]) -> str:
    lines = [
        "| class | mutant | outcome | by | breaks | why |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for verdict in verdicts:
        mutant = verdict.mutant
        cells = [
            mutant.kind,
            mutant.name,
            verdict.outcome,
            ", ".join(verdict.checks),
            mutant.breaks,
            mutant.why,
        ]
        lines.append(
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        )
    return "\n".join(lines) + "\n"


def named(text: str, name: str, check: str) -> str:
    """A list's text with `check` as what mutant `name` expects, and no `why` for it: the rest is as
    it was.
    """
    begins = text.index(f'name = "{name}"\n')
    ends = text.find("\n[[mutant", begins)
    entry = text[begins:] if ends < 0 else text[begins:ends]
    entry = re.sub(r'^expect = ".*"$', f'expect = "{check}"', entry, count=1, flags=re.MULTILINE)
    entry = re.sub(r"\nwhy = .*$", "", entry, count=1, flags=re.MULTILINE)
    return text[:begins] + entry + ("" if ends < 0 else text[ends:])


def record(broker: Broker, told: Iterable[str]) -> int:
    """Names in the lists the first check that killed each mutant whose expected one did not; how
    many there were.

    Args:
        broker: whose lists.
        told: lines as `--json` writes them. What chance has killed is left out.
    """
    new = 0
    for line in told:
        verdict = json.loads(line)
        mutant, checks = verdict["mutant"], verdict["checks"]
        if checks and mutant["expect"] not in checks and not verdict["text"].startswith(NOT_AGAIN):
            path = broker.folder / "mutants" / f"{mutant['kind']}.toml"
            path.write_text(
                named(path.read_text(encoding="utf-8"), mutant["name"], checks[0]), encoding="utf-8"
            )
            new += 1
    return new


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", required=True, help="a folder of tests/learn/brokers")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="a mutant, or a class of them; may be repeated",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants, picked at random")
    parser.add_argument("--seed", type=int, default=0, help="picks another sample")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="mutants that are judged at once"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="instead of all checks, those of the stages near a mutant",
    )
    parser.add_argument(
        "--expected",
        choices=("yes", "no"),
        help="only mutants with, or without, a check to kill them",
    )
    parser.add_argument(
        "--build-only", action="store_true", help="apply and build the mutants, and check nothing"
    )
    parser.add_argument(
        "--json", type=Path, help="a file to append the verdicts to, one a line, as they come"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="JSON",
        help="write such a file's kills into the lists, run none",
    )
    parser.add_argument("--markdown", type=Path, help="where to write them as a table")
    return parser.parse_args(argv)


def chosen(broker: Broker, asked: argparse.Namespace) -> list[Mutant]:
    mutants = list(broker.mutants())
    if asked.only:
        mutants = [mutant for mutant in mutants if {mutant.name, mutant.kind} & set(asked.only)]
    if asked.expected:
        mutants = [mutant for mutant in mutants if bool(mutant.expect) == (asked.expected == "yes")]
    if asked.sample is not None:
        mutants = random.Random(asked.seed).sample(mutants, min(asked.sample, len(mutants)))
    return mutants


def builds(broker: Broker, mutant: Mutant) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        try:
            broker.prepare(Path(folder), mutant.edits)
        except Broken as broken:
            return Verdict(mutant, "broken", text=str(broken))
    return Verdict(mutant, "builds")


Judge = Callable[[Broker, Mutant], Verdict]


def run(
    broker: Broker,
    mutants: list[Mutant],
    jobs: int,
    do: Callable[[Broker, Mutant], Verdict],
    told: IO[str] | None = None,
) -> list[Verdict]:
    """The verdicts in the order of the mutants; each is printed, and written to `told` as JSON,
    when it is there.
    """
    if missing := broker.missing():
        raise Missing(f"not installed: {', '.join(missing)}")
    verdicts: dict[str, Verdict] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(do, broker, mutant) for mutant in mutants]):
            verdict = done.result()
            verdicts[verdict.mutant.name] = verdict
            print(
                row(verdict),
                f"  {verdict.text}" if verdict.outcome in {"broken", "hung"} else "",
                flush=True,
            )
            if told:
                print(json.dumps(asdict(verdict)), file=told, flush=True)
    return [verdicts[mutant.name] for mutant in mutants]


def main(argv: list[str] | None = None) -> int:
    asked = arguments(argv)
    broker = Broker.load(asked.broker)
    if asked.record:
        print(
            f"{record(broker, asked.record.read_text(encoding='utf-8').splitlines())} mutants have "
            "a new check"
        )
        return 0
    mutants = chosen(broker, asked)
    do = builds if asked.build_only else partial(judge, quick=asked.quick)
    try:
        with asked.json.open("a", encoding="utf-8") if asked.json else nullcontext() as told:
            verdicts = run(broker, mutants, asked.jobs, do, told)
    except Missing as missing:
        print(f"skipped: {missing}")
        return 0
    print(
        ", ".join(
            f"{count} {outcome}"
            for outcome, count in Counter(each.outcome for each in verdicts).items()
        )
    )
    if asked.markdown:
        asked.markdown.write_text(markdown(verdicts), encoding="utf-8")
    return (
        0 if all(verdict.outcome == "builds" or verdict.is_as_told for verdict in verdicts) else 1
    )


if __name__ == "__main__":
    sys.exit(main())
