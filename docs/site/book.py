"""The pages of the repository as pages of the site.

The Markdown is copied, with a few differences: links to files of the repository lead to their
copies in the site (`sources`), and where the stage is built, *See it move* has links instead of
commands, and a picture that can move has a button. Then zensical makes HTML of it. What it would
read in another way than the repository's host does, is an error.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt

from docs.site import lists, sources
from docs.site.pages import ROOT, navigation, pages

HERE = Path(__file__).parent

# Of the pictures in chapters, those that show what a scene does.
SCENES = {
    "tutorial/07-one-row-many-cursors/ring.svg": "evict?capacity=5",
    "tutorial/09-commit-and-credit/cursors.svg": "gate",
    "tutorial/10-retention/life.svg": "ttl",
    "tutorial/11-compaction/policies.svg": "window",
    "tutorial/12-slow-consumers/tank.svg": "wall",
    "tutorial/13-the-client-library/lost.svg": "twice",
}

# As `weave.scenes` writes it.
SEE_IT_MOVE = "See it move: `zaichik web`, then\n"
SCENE = re.compile(r"^- `http://127\.0\.0\.1:8080/stage#(.+?)`: \*(.+?)\*$", re.MULTILINE)

# What generates a part of a page, and where that ends: of no use to a reader.
GENERATED = re.compile(r"^<!-- \[\[\[.*?\]\]\] -->\n", re.MULTILINE | re.DOTALL)

PICTURE = re.compile(r"^!\[.*?\]\((.+?)\)$", re.MULTILINE)

# Elements that must be as many in the HTML of both. Not paragraphs: in an item of a list there may
# be one or none.
COUNTED = {
    "blockquote",
    "code",
    "h1",
    "h2",
    "h3",
    "h4",
    "img",
    "li",
    "ol",
    "pre",
    "strong",
    "table",
    "td",
    "ul",
}

AS_ON_THE_HOST = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def build(folder: Path, *, has_stage: bool) -> list[str]:
    """Make all pages, in `html` of that folder.

    Returns:
        What zensical has read in another way than the repository's host does, a sentence for each
        page.

    Raises:
        CalledProcessError: zensical has failed, and printed why.
    """
    staged = folder / "markdown"
    shutil.rmtree(folder, ignore_errors=True)
    texts = _stage_pages(staged, has_stage=has_stage)
    shutil.copytree(HERE / "theme", staged / "theme")
    menu = json.dumps(navigation(has_stage=has_stage), ensure_ascii=False)
    settings = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text(
        f"{settings}docs_dir: markdown\nsite_dir: html\nnav: {menu}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "zensical", "build"]
    quiet = {**os.environ, "NO_COLOR": "1"}
    subprocess.run(command, cwd=folder, env=quiet, stdout=subprocess.DEVNULL, check=True)
    html = folder / "html"
    differences = [_difference(page, text, html_of(html, page)) for page, text in texts.items()]
    return [difference for difference in differences if difference]


def html_of(site: Path, page: str) -> Path:
    """Returns the file that a page becomes."""
    path = site / page
    if path.name == "README.md":
        return path.with_name("index.html")
    return path.with_suffix(".html")


def _stage_pages(target: Path, *, has_stage: bool) -> dict[str, str]:
    """Write all pages, and whatever they show or link to.

    Returns the pages, each with its text before it was prepared for zensical.
    """
    book = pages()
    texts = {}
    linked: set[Path] = set()
    for page in book:
        text = (ROOT / page).read_text(encoding="utf-8")
        if has_stage:
            text = with_scenes(text, page)
        texts[page] = text
        text = lists.indented(GENERATED.sub("", text), AS_ON_THE_HOST)
        text = text.replace("<details>", "<details markdown>")
        for link in _local_links(text):
            aim = (ROOT / page).parent / link
            path = Path(os.path.normpath(aim))
            name = path.relative_to(ROOT).as_posix()
            if name in book:
                continue
            if path.suffix in {".svg", ".png"}:
                _copy(path, target / name)
                continue
            linked.add(path)
            there = os.path.relpath(sources.place(path), Path(page).parent)
            text = re.sub(rf"\]\({re.escape(link)}(?=[)#])", f"]({there}", text)
        copy = target / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    sources.write(linked, target)
    return texts


def with_scenes(text: str, page: str) -> str:
    """Returns a page whose scenes can be opened where they are named, and in their picture."""
    folder = Path(page).parent
    stage = os.path.relpath("stage/index.html", folder)

    def button(picture: re.Match[str]) -> str:
        scene = SCENES.get((folder / picture[1]).as_posix())
        if scene is None:
            return picture[0]
        live = (
            f'<button type="button" class="live" data-stage="{stage}#{scene}">See it move</button>'
        )
        return f"{picture[0]}\n\n{live}"

    text = PICTURE.sub(button, text)
    text = text.replace(SEE_IT_MOVE, "See it move, here and now:\n")
    return SCENE.sub(rf"- [*\2*]({stage}#\1)", text)


def _local_links(text: str) -> list[str]:
    """Returns what a page links to and shows within the repository, without anchors."""
    found: dict[str, None] = {}
    for block in AS_ON_THE_HOST.parse(text):
        for token in block.children or []:
            aim = str(token.attrGet("href") or token.attrGet("src") or "")
            path = unquote(aim.partition("#")[0])
            if path and ":" not in path and not path.endswith("stage/index.html"):
                found[path] = None
    return list(found)


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


class _Elements(HTMLParser):
    """Counts elements; in a page of the site, those of the article."""

    def __init__(self, *, is_inside: bool) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self._is_inside = is_inside

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self._is_inside = True
        if self._is_inside and tag in COUNTED:
            self.count[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._is_inside = False


def _difference(page: str, text: str, html: Path) -> str:
    """Returns in what a page of the site differs from its Markdown; "" if it doesn't."""
    there, here = _Elements(is_inside=True), _Elements(is_inside=False)
    there.feed(AS_ON_THE_HOST.render(text))
    here.feed(html.read_text(encoding="utf-8"))
    different = [
        f"{there.count[tag]} {tag}, here {here.count[tag]}"
        for tag in sorted(COUNTED)
        if there.count[tag] != here.count[tag]
    ]
    if not different:
        return ""
    return f"{page} has other elements than in the repository: {', '.join(different)}"
