"""The pages of the site say what the pages of the repository say, and their pictures move."""

from pathlib import Path

import pytest

from docs.site import book
from docs.site.pages import ROOT
from zaichik.apps.web.stage.knobs import parsed, values
from zaichik.apps.web.stage.scenes import SCENES

CHAPTER = "tutorial/11-compaction/README.md"
TEXT = """![A window](policies.svg)

See it move: `zaichik web`, then

- `http://127.0.0.1:8080/stage#window`: *First one wins*
"""


def test_scenes_are_opened_in_the_page():
    assert book.with_scenes(TEXT, CHAPTER) == (
        "![A window](policies.svg)\n\n"
        '<button type="button" class="live" data-stage="../../stage/index.html#window">'
        "See it move</button>\n\n"
        "See it move, here and now:\n\n"
        "- [*First one wins*](../../stage/index.html#window)\n"
    )


def test_a_picture_without_a_scene_stays_a_picture():
    assert book.with_scenes("![A torn end](torn.svg)\n", CHAPTER) == "![A torn end](torn.svg)\n"


@pytest.mark.parametrize("picture", book.SCENES)
def test_a_picture_that_moves_is_in_the_chapter_of_its_scene(picture):
    slug, chosen = parsed(book.SCENES[picture])
    values(SCENES[slug].knobs, chosen)
    chapter = Path(picture).parent
    assert SCENES[slug].words["chapter"] == chapter.name
    text = (ROOT / chapter / "README.md").read_text(encoding="utf-8")
    assert "data-stage" in book.with_scenes(text, f"{chapter}/README.md")


def test_every_chapter_that_names_scenes_has_links_to_them():
    for slug, scene in SCENES.items():
        chapter = scene.words["chapter"]
        if not chapter:
            continue
        page = f"tutorial/{chapter}/README.md"
        text = book.with_scenes((ROOT / page).read_text(encoding="utf-8"), page)
        assert f"(../../stage/index.html#{slug}" in text
        assert "127.0.0.1:8080/stage" not in text


def test_a_page_that_lost_an_element_is_named(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<nav><ul></ul></nav><article><p>- one</p></article>", encoding="utf-8")
    fault = book._difference("page.md", "- one\n", page)
    assert fault == "page.md has other elements than in the repository: 1 li, here 0, 1 ul, here 0"
    page.write_text("<article><ul><li>one</li></ul></article>", encoding="utf-8")
    assert book._difference("page.md", "- one\n", page) == ""
