"""The page's files: their colours, their size, and what they must not do."""

import gzip
import re
from pathlib import Path

import pytest

import zaichik

KIB = 1024
SHEET = Path(zaichik.__file__).parent / "apps" / "web" / "static" / "page.css"


def palettes():
    """The colours of the light and of the dark page."""
    named = re.findall(
        r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)",
        SHEET.read_text(encoding="utf-8"),
    )
    return {name: light for name, light, _ in named}, {name: dark for name, _, dark in named}


def test_every_colour_of_the_picture_can_be_told_from_the_paper():
    for palette in palettes():
        paper = palette.pop("paper")
        lines, marks = {"rule", "raised"}, palette.keys()
        assert {"ink", "resident", "in-flight", "lag", "lost", "ok", "gone", "again"} < marks
        for name in marks - lines:
            assert contrast(paper, palette[name]) >= 4.5, name


def test_no_colour_is_used_that_has_no_name():
    assert len(re.findall("#[0-9a-fA-F]{3,8}\\b", SHEET.read_text(encoding="utf-8"))) == 2 * len(
        palettes()[0]
    )


def test_the_page_is_small():
    page = [file.read_bytes() for file in sorted(SHEET.parent.iterdir())]
    # Grown by a kilobyte for tables: the holes in the strip, and what a full one says.
    assert sum(map(len, page)) <= 86 * KIB
    assert len(gzip.compress(b"".join(page), mtime=0)) <= 27 * KIB


def test_a_script_imports_what_it_uses_and_exports_what_others_use():
    scripts = {file.name: file.read_text(encoding="utf-8") for file in SHEET.parent.glob("*.js")}
    imported = set()
    for name, script in scripts.items():
        for names, source in re.findall(
            r'^import \{ ([^}]*) \} from "\./([^"]*)";$', script, re.MULTILINE
        ):
            for word in names.split(", "):
                imported.add((source, word))
                assert len(re.findall(rf"\b{word}\b", script)) > 1, f"{name}: {word}"
    for name, script in scripts.items():
        for word in re.findall(
            r"^export (?:async )?(?:const|function|class) (\w+)", script, re.MULTILINE
        ):
            assert (name, word) in imported, f"{name}: {word}"


@pytest.mark.parametrize(
    "words",
    [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "http:",
        "https:",
        " style=",
    ],
)
def test_nothing_on_the_page_can_turn_text_into_markup_or_load_from_elsewhere(words):
    for file in SHEET.parent.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert words not in text, file.name


def contrast(one, other):
    """The ratio of two colours' luminance, as WCAG defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [value / 255 for value in bytes.fromhex(colour.removeprefix("#"))]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
