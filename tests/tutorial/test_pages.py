"""A chapter's page: its headings, its minutes, its links, its lines (I10)."""

import re

import minutes
from chapter import TUTORIAL, all_chapters
from fences import lexed
from offenders import each

from zaichik.learn import chapters

CHAPTERS = all_chapters()
FIRST, BETWEEN = (
    ["Goal", "You need"],
    {"Type", "Checkpoint", "Predict", "Break it"},
)  # between, as a chapter needs them
MAY = {"Read"}  # what is there and is not typed
LONGEST_BLOCK, LONGEST_WITHOUT_A_RUN, COLUMNS = 25, 40, 80
SHIPPED, WIDE = (
    "From `real/",
    120,
)  # the broker's own files are as wide as the project is; they are read in an editor
LAST = ["Exercises", "What real systems do", "Design note", "Recap", "For teachers"]


def ids(chapter):
    return chapter.folder.name


def typed_lines(fence) -> int:
    """How many lines of a fence somebody types who follows the text."""
    if fence.kind != "edit":
        return 0
    lines = [
        line
        for line in fence.text.splitlines()
        if fence.language == "python" or line.startswith("+")
    ]
    return sum(bool(line.strip("+ ")) for line in lines)


@each("chapter", CHAPTERS, shown=ids)
def test_a_chapter_has_all_its_headings_in_order(chapter):
    text = chapter.text.read_text(encoding="utf-8")
    assert text.startswith(f"# {chapter.number:02} {chapter.title}\n")
    found = [heading.partition(":")[0] for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)]
    assert found[: len(FIRST)] == FIRST
    assert found[-len(LAST) :] == LAST
    assert set(found[len(FIRST) : -len(LAST)]) - MAY == BETWEEN


@each("chapter", CHAPTERS, shown=ids)
def test_every_prediction_has_its_answer_folded_away(chapter):
    text = chapter.text.read_text(encoding="utf-8")
    predictions = re.split(r"^## Predict.*$", text, flags=re.MULTILINE)[1:]
    assert predictions
    for prediction in predictions:
        assert "<details><summary>Answer</summary>" in prediction.partition("\n## ")[0]
    assert text.count("<details>") == text.count("</details>")


@each("chapter", CHAPTERS, shown=ids)
def test_every_chapter_breaks_something_in_a_way_that_is_run(chapter):
    """What is run is compared (test_reading.py), so the failure is the one that is told."""
    sections = re.split(r"^## ", chapter.text.read_text(encoding="utf-8"), flags=re.MULTILINE)
    broken = [section for section in sections if section.startswith("Break it")]
    assert [section for section in broken if "```console\n$ " in section]


@each("chapter", CHAPTERS, shown=ids)
def test_what_the_minutes_count_as_typed_is_what_the_robot_types(chapter):
    amounts = minutes.amounts(chapter.text.read_text(encoding="utf-8"))
    fences = lexed(chapter.text)
    assert amounts.typed_lines == sum(map(typed_lines, fences))
    assert amounts.commands == sum(
        fence.text.count("$ ") for fence in fences if fence.kind == "console"
    )


@each("chapter", CHAPTERS, shown=ids)
def test_nobody_types_for_long_without_running_anything(chapter):
    since = 0
    for fence in lexed(chapter.text):
        since = 0 if fence.language == "console" else since + typed_lines(fence)
        assert since <= LONGEST_WITHOUT_A_RUN, f"{since} lines, up to: {fence.caption}"


@each("chapter", CHAPTERS, shown=ids)
def test_blocks_are_short_and_fit_a_terminal(chapter):
    for fence in lexed(chapter.text):
        lines = fence.text.splitlines()
        columns = WIDE if fence.caption.startswith(SHIPPED) else COLUMNS
        assert max(map(len, lines), default=0) <= columns, fence.caption
        if fence.kind in {"edit", "excerpt"}:
            assert len(lines) <= LONGEST_BLOCK, f"{len(lines)} lines: {fence.caption}"


@each(
    "path",
    [
        TUTORIAL / "README.md",
        *(chapter.text for chapter in CHAPTERS),
        *sorted(TUTORIAL.glob("*/README.ru.md")),
    ],
    shown=lambda path: f"{path.parent.name}/{path.name}",
)
def test_links_lead_somewhere(path):
    text = re.sub(
        r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    links = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert links
    for target in links:
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve()
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            }
            assert anchor in slugs, target


@each("chapter", CHAPTERS, shown=ids)
def test_what_is_said_of_real_systems_has_its_source(chapter):
    text = chapter.text.read_text(encoding="utf-8")
    section = text.partition("## What real systems do\n")[2].partition("\n## ")[0]
    assert section.count("](https://") >= 2


def test_every_number_of_a_chapter_is_used_once():
    assert [chapter.number for chapter in CHAPTERS] == list(chapters.CHAPTERS)


def test_no_two_experiments_have_one_name():
    names = [path.name for path in TUTORIAL.glob("*/experiments/*.py")]
    assert len(names) == len(set(names)), "goto brings them all into one folder"
