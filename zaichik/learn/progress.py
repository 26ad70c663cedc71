"""The learner's progress: one readable file next to learn.toml. Delete it to start over."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE_NAME = "learn-progress.json"


@dataclass(slots=True)
class Progress:
    """What the file holds.

    Attributes:
        stage: the current one; it changes when the learner says so, or passes all stages up to a
            later one.
        passed: stages of which all checks have passed in one run.
        failed: the check that failed last; "" if none did.
        seed: the seed it failed with.
        hints: how many hints have been shown, by check.
    """

    stage: int = 0
    passed: list[int] = field(default_factory=list)
    failed: str = ""
    seed: int | None = None
    hints: dict[str, int] = field(default_factory=dict)

    def record(self, stage: int, failed: str, seed: int | None) -> None:
        """Record the run of a whole stage; `failed` is "" if all checks passed."""
        if failed:  # which takes nothing away: it has passed
            self.failed, self.seed = failed, seed
            return
        self.passed = sorted({*self.passed, stage})
        if self.failed.partition(".")[0] == f"S{stage}":
            self.failed, self.seed = "", None
        if set(range(stage + 1)) <= set(self.passed):
            self.stage = max(self.stage, stage)


def read(folder: Path) -> Progress:
    """The progress kept in a folder; a new one if there is none, or if the file is damaged."""
    try:
        progress = Progress(**json.loads((folder / FILE_NAME).read_text(encoding="utf-8")))
        makes_sense = _makes_sense(progress)
    # A ValueError: it is neither JSON nor text. A RecursionError: it is nested too deeply for that.
    except (FileNotFoundError, ValueError, TypeError, RecursionError):
        return Progress()
    if not makes_sense:
        return Progress()
    return progress


def _makes_sense(progress: Progress) -> bool:
    """Whether everything is of its type: somebody may have edited the file."""
    values = asdict(progress)
    numbers = [values["stage"], *_items(values["passed"]), *_items(values["hints"])]
    if values["seed"] is not None:
        numbers.append(values["seed"])
    for name, kind in (("failed", str), ("passed", list), ("hints", dict)):
        if not isinstance(values[name], kind):
            return False
    return all(type(number) is int for number in numbers)


def _items(values: object) -> list[object]:
    """Returns what should be numbers in a list, or in an object."""
    if isinstance(values, dict):
        return list(values.values())
    if isinstance(values, list):
        return list(values)
    return []


def write(folder: Path, progress: Progress) -> None:
    """Write it, completely or not at all."""
    path = folder / FILE_NAME
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(progress), indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
