"""Writes what the commands in the chapters print today into the chapters.

    python tests/tutorial/rerun.py [NUMBER ...]

For whoever changes a chapter. Blocks that are still true stay as they are, and so do those with
`...`, which are only reported: where to put it, only you know. Read the difference before you
commit it: this makes the text true, not good.
"""

import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tutorial" / "tools")]

import robot  # noqa: E402 (where it lies is known only now)
from chapter import all_chapters  # noqa: E402
from terminals import TOOK, is_as_shown  # noqa: E402

SEEDS = "seeds ... to ..."
# What is another each time.
CHANGES = [(re.compile(r"^seeds \d+ to \d+$", re.MULTILINE), SEEDS), (TOOK, "")]


def main(numbers: list[int]) -> None:
    """Work through these chapters, or all."""
    for chapter in all_chapters():
        if numbers and chapter.number not in numbers:
            continue
        with tempfile.TemporaryDirectory() as folder:
            reading = robot.read(chapter, Path(folder), stop_at_failures=False)
        text = reading.document.text
        for start, end, fence, came in reversed(reading.seen):
            if "..." not in fence.text.replace(SEEDS, "") and not is_as_shown(fence.text, came):
                for pattern, shown in CHANGES:
                    came = pattern.sub(shown, came)
                text = f"{text[:start]}```console\n{came}```{text[end:]}"
        chapter.text.write_text(text, encoding="utf-8")
        sys.stdout.write(
            f"{chapter.text}\n" + "".join(f"    {failure}\n" for failure in reading.failures)
        )
        if reading.missed:
            sys.stdout.write(f"    the folder was never as in {', '.join(reading.missed)}\n")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
