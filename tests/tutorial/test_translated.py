"""The Russian pages say what the English ones say: paragraphs changed in English are named."""

# ruff: noqa: RUF001 (Russian letters are meant, those that look like Latin ones, too)

import re
import shutil

import pytest
import translated
from chapter import TUTORIAL
from offenders import each

ENGLISH = """\
# Apples

Two apples for Alice.

<!-- [[[cog weave.new("apples.py") ]]] -->
**New file `apples.py`:**

```python
apples = 2


print(apples)
```
<!-- [[[end]]] -->

- one for you,
- one for me

```console
$ python3 apples.py
2
```

Three pears for Bob.
"""
RUSSIAN = """\
# Яблоки

Два яблока для Алисы.

- одно вам,
- одно мне

Три груши для Боба.
"""


def names(paragraph):
    """The code in it, and the pages that it links."""
    code = {" ".join(words.split()) for words in re.findall(r"`([^`]+)`", paragraph.text)}
    pages = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", paragraph.text)}
    return code | {page.replace(translated.RUSSIAN, translated.ENGLISH) for page in pages}


def shape(paragraph):
    """How its lines begin where that matters: headings, rows, items, pictures, quotations."""
    return re.findall(r"^(?:#+ |\||- |!\[|> \*\*|<details>)", paragraph.text, re.MULTILINE)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A small Russian page, beside its English one."""
    page = tmp_path / translated.RUSSIAN
    monkeypatch.setattr(translated, "PAGES", [page])
    page.with_name(translated.ENGLISH).write_text(ENGLISH, encoding="utf-8")
    page.write_text(RUSSIAN, encoding="utf-8")
    assert translated.main(["--accept", *(f"{page}:{line}" for line in (1, 3, 5, 8))]) == 0
    return page


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def told(page):
    """The line and the kind of everything that is open; of copies the kind only."""
    matches = [
        re.match(r".*?README\.ru\.md:(\d*):? (\w+):", problem)
        for problem in translated.problems(page)
    ]
    return [f"{match[1]} {match[2]}".strip() for match in matches]


@each("page", translated.PAGES, shown=lambda page: page.parent.name)
def test_a_russian_page_says_what_the_english_one_says(page):
    assert "\n".join(translated.problems(page)) == ""


@pytest.mark.parametrize("page", translated.PAGES, ids=lambda page: page.parent.name)
def test_whichever_english_paragraph_changes_its_translation_is_named(page, tmp_path):
    copy, source = tmp_path / translated.RUSSIAN, tmp_path / translated.ENGLISH
    shutil.copy(page, copy)
    text = page.with_name(translated.ENGLISH).read_text(encoding="utf-8")
    lines = text.splitlines()
    for english, russian, _ in [*translated.pairs(page)]:
        last = english.line + english.text.count("\n")
        source.write_text(
            "\n".join([*lines[:last], "More of it.", *lines[last:]]), encoding="utf-8"
        )
        assert [(pair[1], pair[2]) for pair in translated.open_pairs(copy)] == [
            (russian, russian.line)
        ]


@each("page", translated.PAGES, shown=lambda page: page.parent.name)
def test_a_translation_has_the_code_the_links_and_the_form_of_its_english(page):
    for english, russian, line in translated.pairs(page):
        assert names(english) <= names(russian), line
        assert shape(english) == shape(russian), line


@each("page", translated.PAGES, shown=lambda page: page.parent.name)
def test_what_stands_above_generated_code_is_in_russian(page):
    generated = [
        block.text
        for block in translated.blocks(page)
        if block.text.startswith(translated.GENERATED)
    ]
    captions = re.findall(r"^\*\*.+\*\*$", "\n".join(generated), re.MULTILINE)
    assert [caption for caption in captions if not re.search(r"[а-я]", caption)] == []


def test_the_tutorial_names_its_russian_pages():
    first_page = (TUTORIAL / translated.ENGLISH).read_text(encoding="utf-8")
    for page in translated.PAGES[1:]:
        assert f"]({page.relative_to(TUTORIAL)})" in first_page


def test_a_page_is_made_of_translations_and_copies(page):
    text = page.read_text(encoding="utf-8")
    assert re.sub(r"<!-- en: [0-9a-f]{8} -->\n", "", text) == (
        ENGLISH.replace("# Apples", "# Яблоки")
        .replace("New file", "Новый файл")
        .replace("Two apples for Alice", "Два яблока для Алисы")
        .replace("Three pears for Bob", "Три груши для Боба")
        .replace("one for you", "одно вам")
        .replace("one for me", "одно мне")
    )


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("Two apples for Alice.", "Three apples for Alice.", ["4 stale"]),
        ("Two apples for Alice.", "Two apples\nfor Alice.", []),
        ("one for me\n", "one for me,\n- one for Bob\n", ["18 stale"]),
        ("Two apples for Alice.", "Two apples for Alice.\n\nAnd what is an apple?", ["18 missing"]),
        ("Two apples for Alice.\n\n", "", ["4 extra"]),
        ("Three pears for Bob.\n", "Three pears for Bob.\n\nThe end.\n", ["29 missing"]),
        ("print(apples)", "print(apples, 3)", ["outdated"]),
        ("$ python3 apples.py", "$ python apples.py", ["outdated"]),
    ],
    ids=[
        "a word",
        "a line break",
        "an item",
        "a new one",
        "one less",
        "a new one at the end",
        "code",
        "a command",
    ],
)
def test_a_change_of_the_english_page_is_noticed(page, old, new, found):
    change(page.with_name(translated.ENGLISH), old, new)
    assert told(page) == found


def test_paragraphs_in_another_order_are_noticed(page):
    change(page.with_name(translated.ENGLISH), "Two apples for Alice.", "Three.")
    change(page.with_name(translated.ENGLISH), "Three pears for Bob.", "Two apples for Alice.")
    change(page.with_name(translated.ENGLISH), "Three.", "Three pears for Bob.")
    kinds = {problem.partition(" ")[2] for problem in told(page)}
    assert kinds >= {"missing", "extra"}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("\n\n<!-- en: fde39c7d -->\nТри груши для Боба.", "", ["missing"]),
        ("Три груши для Боба.", "Три груши для Боба.\n\nА яблоки?", ["extra"]),
        ("apples = 2", "apples = 3", ["outdated"]),
        ("$ python3 apples.py\n", "", ["outdated"]),
    ],
    ids=["one less", "one without a mark", "code", "a command"],
)
def test_a_change_of_the_russian_page_is_noticed(page, old, new, found):
    change(page, old, new)
    assert [problem.split()[-1] for problem in told(page)] == found


def test_what_is_reported_says_what_changed_and_what_to_do(page):
    change(page.with_name(translated.ENGLISH), "Two apples for Alice.", "Three apples for Alice.")
    (problem,) = translated.problems(page)
    assert f"{translated.ENGLISH}:3:\n    | Three apples for Alice.\n" in problem
    assert problem.count(f"{translated.RUSSIAN}:4") == 3
    assert "--accept" in problem
    assert "--later" in problem


def test_a_new_translation_is_accepted(page, capsys):
    change(page.with_name(translated.ENGLISH), "Two apples for Alice.", "Three apples for Alice.")
    change(page, "Два яблока", "Три яблока")
    assert translated.main([]) == 1
    assert translated.main(["--accept", f"{page}:4"]) == 0
    assert told(page) == []
    assert "Три яблока" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert translated.main([]) == 0
    assert capsys.readouterr().out == ""


def test_without_a_translation_the_english_is_shown_and_counted(page, capsys):
    source = page.with_name(translated.ENGLISH)
    change(source, "Two apples for Alice.", "Three apples for Alice.")
    assert translated.main(["--later", f"{page}:4"]) == 0
    assert "1 not translated yet" in capsys.readouterr().out
    assert "\nThree apples for Alice.\n" in page.read_text(encoding="utf-8")
    change(source, "Three apples for Alice.", "Four apples for Alice.")
    assert told(page) == ["outdated"]
    assert translated.main(["--refresh"]) == 0
    assert "\nFour apples for Alice.\n" in page.read_text(encoding="utf-8")


def test_what_was_not_translated_is_when_somebody_has_done_it(page, capsys):
    change(page.with_name(translated.ENGLISH), "Two apples for Alice.", "Three apples for Alice.")
    translated.main(["--later", f"{page}:4"])
    change(page, "Three apples for Alice.", "Три яблока для Алисы.")
    capsys.readouterr()
    assert translated.main(["--refresh"]) == 0
    assert capsys.readouterr().out == ""
    assert "not translated yet" not in page.read_text(encoding="utf-8")
    assert "Три яблока" in page.read_text(encoding="utf-8")


def test_a_page_that_is_empty_can_be_all_english_first(page):
    page.write_text("", encoding="utf-8")
    assert translated.main(["--later", f"{page}:1"]) == 0
    assert len([block for block in translated.blocks(page) if block.is_later]) == 4


def test_copying_leaves_translations_alone_and_does_not_fail(page, capsys):
    source = page.with_name(translated.ENGLISH)
    change(source, "Two apples for Alice.", "Three apples for Alice.")
    change(source, "apples = 2", "apples = 3")
    assert translated.main(["--refresh"]) == 0
    assert "stale" in capsys.readouterr().out
    assert "apples = 3" in page.read_text(encoding="utf-8")
    assert told(page) == ["4 stale"]


def test_a_link_of_a_generated_line_leads_to_the_russian_page_where_there_is_one(page):
    other = page.parent / "other" / translated.RUSSIAN
    line = (
        "<!-- [[[cog weave.links() ]]] -->\n[All chapters](../README.md) · "
        "[Other](other/README.md)\n<!-- [[[end]]] -->"
    )
    change(
        page.with_name(translated.ENGLISH),
        "Three pears for Bob.",
        f"Three pears for Bob.\n\n{line}",
    )
    translated.main(["--refresh"])
    assert "[Все главы](../README.md) · [Other](other/README.md)" in page.read_text(
        encoding="utf-8"
    )
    other.parent.mkdir()
    other.write_text("# Другая\n", encoding="utf-8")
    translated.main(["--refresh"])
    assert "[Все главы](../README.md) · [Другая](other/README.ru.md)" in page.read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("where", ["README.ru.md:4", "nowhere.md:4", "README.ru.md"])
def test_where_nothing_is_open_nothing_is_accepted(page, monkeypatch, capsys, where):
    monkeypatch.chdir(page.parent)
    with pytest.raises(SystemExit):
        translated.main(["--accept", where])
    assert where in capsys.readouterr().err
