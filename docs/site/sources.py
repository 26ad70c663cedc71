"""Files of the repository that pages link to, as pages with numbered and coloured lines.

A folder that is linked is a list of its files, each of which is a page.
"""

import html
import os
import subprocess
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from docs.site.pages import ROOT

FOLDER = Path("source")
STYLES = FOLDER / "source.css"

# Of the same families as those of the book, by contrast.
LIGHT, DARK = "default", "github-dark"

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · zaichik</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}/source/source.css">
<script src="{root}/theme/colours.js"></script>
</head>
<body>
<header><a href="{root}/index.html">zaichik</a> <strong>{title}</strong></header>
<main>
{body}
</main>
</body>
</html>
"""


def place(path: Path) -> Path:
    """Returns where a file or a folder of the repository is in the site."""
    name = FOLDER / path.relative_to(ROOT)
    if path.is_dir():
        return name / "index.html"
    return name.with_name(f"{name.name}.html")


def write(linked: set[Path], target: Path) -> None:
    """Write the pages of these files and folders, and what is in the folders."""
    files = {path for path in linked if path.is_file()}
    folders = {path for path in linked if path.is_dir()}
    for folder in sorted(folders):
        inside = _inside(folder)
        files.update(inside)
        links = [
            f'<li><a href="{os.path.relpath(place(path), place(folder).parent)}">'
            f"{html.escape(path.relative_to(folder).as_posix())}</a></li>"
            for path in inside
        ]
        _write_page(folder, "<ul>\n" + "\n".join(links) + "\n</ul>", target)
    for path in sorted(files):
        _write_page(path, _highlighted(path), target)
    (target / STYLES).write_text(_styles(), encoding="utf-8")


def _inside(folder: Path) -> list[Path]:
    """Returns the files of a folder that git tracks; without git or a clone, all but caches."""
    command = ["git", "ls-files", "-z"]
    try:
        listed = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        listed = b""
    tracked = [folder / name for name in listed.decode().split("\0") if name]
    # An unpacked archive may be in the clone of another project, which tracks none of its files.
    files = tracked or [path for path in folder.rglob("*") if path.parent.name != "__pycache__"]
    return sorted(path for path in files if path.is_file())


def _highlighted(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    # The style sheet counts the lines, which makes pages half as large.
    lines: HtmlFormatter[str] = HtmlFormatter(linespans="line", cssclass="source")
    return str(highlight(text, lexer, lines))


def _styles() -> str:
    light = HtmlFormatter(style=LIGHT).get_style_defs(".source")
    dark = HtmlFormatter(style=DARK).get_style_defs(".source")
    own = (Path(__file__).parent / "theme" / "source.css").read_text(encoding="utf-8")
    return f"{light}\n[data-theme='dark'] {{\n{dark}\n}}\n{own}"


def _write_page(path: Path, body: str, target: Path) -> None:
    there = place(path)
    page = PAGE.format(
        title=html.escape(path.relative_to(ROOT).as_posix()),
        root=os.path.relpath(".", there.parent),
        body=body,
    )
    file = target / there
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
