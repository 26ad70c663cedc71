"""Seven slips, one at a time in a copy of your program: does a story find each?

It needs `stories.py` as it is at the end of the chapter.
"""

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

MINE = Path.cwd()
STEPS = 6
SLIPS = {  # the file, what is right, and what is wrong
    "a window that is closed at both ends": (
        "windows.py",
        "now < self._ends.get(key, 0)",
        "now <= self._ends.get(key, 0)",
    ),
    "a repeat that prolongs its window": (
        "windows.py",
        "dropped |= 1 << place",
        "dropped |= 1 << place; self._ends[key] = now + window_us",
    ),
    "a message that lives too long": (
        "topics.py",
        "self._drop(bisect_right(",
        "self._drop(bisect_left(",
    ),
    "one message too many in a full row": (
        "topics.py",
        "self._drop(len(self.row) - capacity)",
        "self._drop(len(self.row) - capacity - 1)",
    ),
    "a credit that is exceeded by one": (
        "readers.py",
        "len(self._in_flight) < self.credit",
        "len(self._in_flight) <= self.credit",
    ),
    "a gap that is one message longer than told": (
        "readers.py",
        "self.cursor = end\n",
        "self.cursor = end + 1\n",
    ),
    "a commit that settles one too many": (
        "readers.py",
        "self._in_flight[0][0] < self.committed",
        "self._in_flight[0][0] <= self.committed",
    ),
}


def told(file: str, right: str, wrong: str) -> str:
    """What `stories.py` says in a copy of the program with a slip."""
    if right not in (MINE / file).read_text(encoding="utf-8"):
        return f"not tried: your {file} has no `{right}`"
    with tempfile.TemporaryDirectory() as folder:
        for path in MINE.glob("*.py"):
            text = path.read_text(encoding="utf-8")
            if path.name == file:
                text = text.replace(right, wrong)
            (Path(folder) / path.name).write_text(text, encoding="utf-8")
        explored = subprocess.run(
            [sys.executable, "stories.py", str(STEPS)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    said = explored.stdout or explored.stderr  # which has why it can't run
    return said.strip().splitlines()[-1]


for slip, lines in SLIPS.items():
    print(slip)
    print(textwrap.indent(told(*lines), "    "))
