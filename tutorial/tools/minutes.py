"""How long a chapter takes: to read its words and the code that is only shown, to type, and to run its commands.

A model, not a measurement: people differ by more than it can be wrong by. The exercises are not counted.
"""

import math
import re
from dataclasses import dataclass

WORDS_A_MINUTE = 200  # of a text that one thinks about
SHOWN_LINES_A_MINUTE = 8  # of code that is read and not typed
TYPED_LINES_A_MINUTE = 3  # found, typed, compared with the page
A_COMMAND_S = 40  # typed, and what it prints is read
ROUNDED_TO = 5  # minutes, upwards: nobody shall be late

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"^\*\*(?:(?P<edit>New file |In )|(?P<shown>From )).*:\*\*$")


@dataclass(frozen=True)
class Amounts:
    """What there is to do in a chapter."""

    words: int
    shown_lines: int
    typed_lines: int
    commands: int

    @property
    def minutes(self) -> int:
        """How long that takes."""
        needed = (
            self.words / WORDS_A_MINUTE
            + self.shown_lines / SHOWN_LINES_A_MINUTE
            + self.typed_lines / TYPED_LINES_A_MINUTE
            + self.commands * A_COMMAND_S / 60
        )
        return math.ceil(needed / ROUNDED_TO) * ROUNDED_TO


def amounts(text: str) -> Amounts:
    """What there is to do in the text of a chapter."""
    shown = typed = commands = 0
    for fence in FENCE.finditer(text):
        above = CAPTION.fullmatch(text[: fence.start()].rstrip().rpartition("\n")[2])
        if fence["language"] == "console":
            commands += fence["text"].count("$ ")
        elif above and above["shown"]:
            shown += _written(fence["text"])
        elif above and fence["language"] == "diff":
            typed += _written("\n".join(re.findall(r"^\+(.*)", fence["text"], re.MULTILINE)))
        elif above:
            typed += _written(fence["text"])
    return Amounts(len(FENCE.sub("", text).split()), shown, typed, commands)


def _written(text: str) -> int:
    """Lines that are not empty."""
    return sum(bool(line.strip()) for line in text.splitlines())
