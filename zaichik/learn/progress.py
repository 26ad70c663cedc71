"""How far somebody is: one readable file beside learn.toml. Who deletes it begins anew; nothing else is kept."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE_NAME = "learn-progress.json"


@dataclass(slots=True)
class Progress:
    """What the file holds.

    Attributes:
        stage: the one being worked on; it changes only when the learner says so.
        passed: stages whose every check has passed, when they were last run.
        failed: the check that failed last; "" if none did.
        seed: the seed it failed with.
        hints: how many hints have been read, by check.
    """

    stage: int = 0
    passed: list[int] = field(default_factory=list)
    failed: str = ""
    seed: int | None = None
    hints: dict[str, int] = field(default_factory=dict)

    def judged(self, stage: int, failed: str, seed: int | None) -> None:
        """A whole stage was run; `failed` is "" if all went well."""
        others = [number for number in self.passed if number != stage]
        self.passed = others if failed else sorted([*others, stage])
        if failed:
            self.failed, self.seed = failed, seed
        elif self.failed.partition(".")[0] == f"S{stage}":
            self.failed, self.seed = "", None


def read(folder: Path) -> Progress:
    """The progress kept in a folder; a new one if there is none, or if the file was spoiled."""
    try:
        content = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        return Progress(**content)
    except (FileNotFoundError, ValueError, TypeError):  # what is no JSON, and no text, is a ValueError
        return Progress()


def write(folder: Path, progress: Progress) -> None:
    """Keep it, whole or not at all."""
    path = folder / FILE_NAME
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(asdict(progress), indent=2) + "\n", encoding="utf-8")
    beside.replace(path)
