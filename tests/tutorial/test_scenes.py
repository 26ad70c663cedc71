"""Chapters lead to the scenes of the stage that show what they explain."""

import re

from chapter import TUTORIAL, all_chapters
from offenders import each

from zaichik.apps.web.stage.knobs import parsed, values
from zaichik.apps.web.stage.scenes import SCENES

ADDRESS = re.compile(r"[\w.:/]*/stage#?[^\s`)]*")
LINK = re.compile(r"- `http://127\.0\.0\.1:8080/stage#(?P<scene>[^\s`]+)`: \*(?P<title>.+)\*")
BEFORE = "See it move: `zaichik web`, then\n\n"
TEXTS = [TUTORIAL / "README.md", *(chapter.text for chapter in all_chapters())]


def links(text):
    """The scenes, knobs and titles of the lists that begin as they all do."""
    for told in text.split(BEFORE)[1:]:
        for match in map(LINK.fullmatch, told.partition("\n<!--")[0].splitlines()):
            assert match, told
            yield *parsed(match["scene"]), match["title"]


@each("path", TEXTS, shown=lambda path: path.parent.name)
def test_every_link_to_the_stage_names_a_scene_and_its_knobs(path):
    text = path.read_text(encoding="utf-8").replace("](../docs/teach/stage.md)", "")
    found = [*links(text)]
    assert len(ADDRESS.findall(text)) == len(found), "one has other words"
    for slug, knobs, title in found:
        scene = SCENES[slug]
        assert values(scene.knobs, knobs).keys() >= knobs.keys()
        assert title == scene.words["title"]


@each("scene", SCENES.values())
def test_a_scene_is_linked_from_its_chapter_and_from_no_other(scene):
    found = {
        path.parent.name: {slug for slug, *_ in links(path.read_text(encoding="utf-8"))}
        for path in TEXTS
    }
    linked = [folder for folder, slugs in found.items() if scene.slug in slugs]
    assert linked == [name for name in [scene.words["chapter"]] if name]
