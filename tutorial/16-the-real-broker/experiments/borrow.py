"""A copy of the shipped broker in the folder real/, to read and to break.

Whatever you've changed in it is put back.
"""

import shutil
from pathlib import Path

from zaichik.learn.chapters import TUTORIAL

REAL = Path("real")
PACKAGES = ("zaichik", "protocol/zaichik_protocol")
COMMAND = """\
[server]
command = ["python3", "-m", "zaichik", "serve", "--port", "{port}",
           "--data", "{data}"]
"""


def bring(source: Path, target: Path) -> None:
    """Bring a file, and say so if another one was there."""
    if target.exists():
        if target.read_bytes() == source.read_bytes():
            return
        print(f"put back: {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


for package in PACKAGES:
    folder = TUTORIAL.parent / package
    for source in folder.rglob("*"):
        if source.is_file() and source.suffix not in {".pyc", ".so"}:
            inside = source.relative_to(folder.parent)
            bring(source, REAL / inside)
(REAL / "learn.toml").write_text(COMMAND)
print("real/ is a copy of the shipped broker")
