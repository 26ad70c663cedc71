"""Every code of the wire and of the client, explained: one table.

`zaichik explain` and docs/use/errors.md show it. A name may stand for two codes:
TAKEN_OVER is an Error to the reader that asks for a name too late, and the end of the one that had
it. A number stands for up to three, one in each kind of frame.
"""

import difflib
import re

from zaichik.cli.errors.section import Section
from zaichik.cli.errors.sections.client_side import CLIENT_SIDE, STATISTICS
from zaichik.cli.errors.sections.ends import ENDS, GOODBYES
from zaichik.cli.errors.sections.fatal import FATAL
from zaichik.cli.errors.sections.publishing import PUBLISHING
from zaichik.cli.errors.sections.refusals import REFUSALS
from zaichik.cli.errors.sections.spark_side import SPARK_SIDE

GROUPS = {
    "The client": CLIENT_SIDE,
    "The broker refuses a batch": PUBLISHING,
    "The broker refuses a request": REFUSALS,
    "The broker ends the connection with an error": FATAL,
    "The broker ends a subscription": ENDS,
    "The broker says goodbye": GOODBYES,
    "Statistics": STATISTICS,
    "Tables in Spark": SPARK_SIDE,
}
SECTIONS = tuple(section for group in GROUPS.values() for section in group)

MOST_PROPOSED = 3


def find(text: str) -> list[Section]:
    """Returns the sections of a code, given by name or number; none if there is no such code.

    A name may be written as it is shown or typed: TOPIC_FULL, [TOPIC_FULL], topic-full, TopicFull.
    """
    if _is_number(text):
        return [section for section in SECTIONS if section.number == text]
    return [section for section in SECTIONS if _plain(section.name) == _plain(text)]


def nearest(text: str) -> list[str]:
    """Returns the names of the codes most similar to one that does not exist.

    At most three, perhaps none.
    """
    if _is_number(text):
        wanted = int(text[:6])  # no code has more digits
        numbered = [section for section in SECTIONS if section.number]
        close = sorted(numbered, key=lambda section: abs(int(section.number) - wanted))
        return [section.name for section in close[:MOST_PROPOSED]]
    names = {_plain(section.name): section.name for section in SECTIONS}
    return [names[name] for name in difflib.get_close_matches(_plain(text), names, MOST_PROPOSED)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _plain(name: str) -> str:
    return re.sub(r"[][_-]", "", name).lower()
