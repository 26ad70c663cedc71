"""A copy of the clone for a class: what is tracked, without the solutions and without the programs of the chapters.

python tutorial/tools/handout.py FOLDER
"""

import shutil
import subprocess
import sys
from pathlib import Path

from zaichik.learn import snapshots
from zaichik.learn.chapters import CHAPTERS, TUTORIAL

ROOT = TUTORIAL.parent


class NotAClone(Exception):
    """This copy is not a clone: nobody can tell what belongs to the project and what was made here."""


def hand_out(target: Path) -> int:
    """Copy the clone to a folder that is not there yet. Returns the number of files left out.

    Raises:
        FileExistsError: the folder is there.
        NotAClone: this copy of the project is not a clone.
    """
    if not (ROOT / ".git").exists():
        raise NotAClone(f"{ROOT} is not a clone of the project, out of which alone a copy for a class is made")
    left_out = [TUTORIAL / "solutions"]
    left_out += [chapter.path / step for chapter in CHAPTERS.values() for step in snapshots.steps(chapter.path)]
    target.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    count = 0
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        path = ROOT / name
        if any(path.is_relative_to(folder) for folder in left_out):
            count += 1
        else:
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
    return count


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    try:
        left = hand_out(folder)
    except (FileExistsError, NotAClone) as error:
        sys.exit(f"no copy: {error}")
    sys.stdout.write(f"{folder}: the project, without {left} files that would give the answers away\n")
