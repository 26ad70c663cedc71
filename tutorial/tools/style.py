"""The style sheet of all pictures: colours for light and dark, and a halo behind every text.

A page shows a picture as an image, which gets nothing from the page but whether the reader prefers dark. So the sheet
is inside each of them. The halo has the colour of what the text stands on (`--under`), and keeps lines from running
through words.
"""

# By Okabe and Ito, but darker on white: each is read as text, too, so it has a contrast of 4.5 to 1 at least.
LIGHT = {
    "paper": "#ffffff", "ink": "#1a1a1a", "line": "#555555", "resident": "#0072b2", "in_flight": "#7b3f98",
    "lag": "#8a6100", "lost": "#b34700", "committed": "#00694e", "gone": "#6b6b6b", "redelivered": "#a0457a",
}  # fmt: skip
DARK = {
    "paper": "#14171a", "ink": "#eceff1", "line": "#9aa4ad", "resident": "#56b4e9", "in_flight": "#c9a0dc",
    "lag": "#e69f00", "lost": "#ff8a4c", "committed": "#2bc79b", "gone": "#9aa4ad", "redelivered": "#e39cc5",
}  # fmt: skip

# What a box is filled with that has its text in ink.
LIGHT_FILLS = {"good": "#cfe8cf", "some": "#f6e7b4", "bad": "#f3c6c1", "spent": "#e8e8e8"}
DARK_FILLS = {"good": "#1e5038", "some": "#5a4a14", "bad": "#732f28", "spent": "#363c42"}

HALO = 4  # pixels, half of which are outside of the letters


def sheet(rules: str = "") -> str:
    """Returns the `style` element, with rules of one kind of pictures after those of all."""
    fills = "".join(f".{name}{{--under:var(--{name})}}" for name in LIGHT_FILLS)
    return (
        f"<style>{_colours(LIGHT | LIGHT_FILLS)}@media(prefers-color-scheme:dark){{{_colours(DARK | DARK_FILLS)}}}"
        "svg{--under:var(--paper)}.paper{fill:var(--paper)}"
        f"text{{fill:var(--ink);stroke:var(--under);stroke-width:{HALO}px;stroke-linejoin:round;paint-order:stroke}}"
        f"{fills}{rules}</style>"
    )


def _colours(palette: dict[str, str]) -> str:
    return ":root{" + "".join(f"--{name}:{colour};" for name, colour in palette.items()) + "}"
