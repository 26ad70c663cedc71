"""The picture as SVG: the one in docs/pictures comes out the same, and can be read in the light and
in the dark.
"""

import re
import xml.etree.ElementTree as ET

import pictures
import pytest
import ring_picture
from picture_svg import BOXES, strip_width, svg
from style import DARK, DARK_FILLS, LIGHT, LIGHT_FILLS, sheet
from test_picture import made

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import picture


@pytest.fixture(scope="module")
def drawn():
    return ring_picture.draw()


def test_the_picture_of_the_readme_comes_out_the_same(drawn):
    """If not: make pictures."""
    assert ring_picture.PATH.read_text(encoding="utf-8") == drawn


def test_it_is_small_and_needs_nothing_else(drawn):
    assert len(drawn.encode()) <= 60_000
    assert "http" not in drawn.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"<script|url\(|href", drawn)


def test_it_has_a_state_for_each_step_and_stands_still_for_those_who_want_that(drawn):
    root = ET.fromstring(drawn)  # noqa: S314 (our own)
    states = [child for child in root if child.tag.endswith("}g")]
    assert len(states) == ring_picture.STEPS
    before, after = drawn.split("@media(prefers-reduced-motion:no-preference)")
    assert "animation:" not in before.replace("animation-delay:", "")
    assert "animation:" in after
    assert "is told that it missed 4 messages" in drawn


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_has_contrast(palette):
    """4.5 to 1 is what WCAG asks for text; boxes have text on them, in the colour of the paper."""
    paper = luminance(palette["paper"])
    for name, colour in palette.items():
        lighter, darker = sorted((luminance(colour), paper), reverse=True)
        assert name == "paper" or (lighter + 0.05) / (darker + 0.05) >= 4.5, name


@pytest.mark.parametrize(
    ("ink", "fills"),
    [(LIGHT["ink"], LIGHT_FILLS), (DARK["ink"], DARK_FILLS)],
    ids=["light", "dark"],
)
def test_text_on_every_fill_has_contrast(ink, fills):
    for name, colour in fills.items():
        lighter, darker = sorted((luminance(colour), luminance(ink)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 7, name


@pytest.mark.parametrize("name", [*pictures.PICTURES, "ring"])
def test_a_picture_has_no_colour_but_those_of_the_style_sheet(name, drawn):
    """What has a colour of its own looks the same in the dark, where it cannot be read."""
    image = pictures.PICTURES.get(name, drawn)
    (style,) = re.findall("<style>(.*?)</style>", image)
    assert style.startswith(sheet().removeprefix("<style>").removesuffix("</style>"))
    assert not re.search(r"""(fill|stroke)=|style=|#[0-9a-f]{3}\b""", strip_style(image))


def strip_style(image):
    """What is drawn, without the sheet, the states' delays and the link to the arrow's tip."""
    drawn = re.sub("<style>.*?</style>", "", image)
    return re.sub(r' style="animation-delay:[-.\d]+s"|url\(#tip\)', "", drawn)


def test_every_kind_of_zone_has_a_colour():
    assert {colour for colour, _, _ in BOXES.values()} <= LIGHT.keys() == DARK.keys()


def test_what_strangers_wrote_is_no_markup():
    state = made(0, 10, [(5, 1)])
    row = {**state.readers[0], "client": '<script>"&'}
    state = type(state)(state.now_us, state.boot, {**state.topic, "name": "<b>"}, (row,))
    image = svg([(picture(state, Memory(), strip_width(600)), "<i>")], 600)
    ET.fromstring(image)  # noqa: S314 (it is what is looked for)
    assert not re.search("<script|<b>|<i>", image)
    assert "animation:" not in image
