"""The generated parts of `protocol/README.md`.

They are byte drawings, field tables, hexdumps, error tables and indexes.

`make docs` runs it through cog, which keeps the output inside the document; a test checks that it
is current. Everything here is derived: drawings and tables from `zaichik_protocol.frames`, hexdumps
from `vectors/`, indexes from the ids of the sentences in the text itself.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from zaichik.cli.dissection import dissect
from zaichik.learn import sentences
from zaichik.learn.sentences import Sentence
from zaichik_protocol import EndCode, ErrorCode, GoAwayCode, frames
from zaichik_protocol.layout import BATCH_COLUMNS, HEADER, Field

VECTORS = Path(__file__).parent / "vectors"

# Of each request, the topics whose sentences all concern it. Others are found by the names of its
# frames.
_TOPICS = {
    "Hello": "hello welcome",
    "CreateTopic": "create setting topic durable table",
    "Publish": "publish published producer batch time compaction retention ring durable table",
    "Subscribe": (
        "subscribe name owner start credit lag until fair messages ended table shared follow"
    ),
    "Unsubscribe": "unsubscribe",
    "Commit": "commit credit",
    "Ping": "ping",
    "Close": "close",
    "Describe": "describe",
    "Delete": "delete deletion",
    "Disconnect": "disconnect",
    "Explain": "explain",
    "AdvanceClock": "clock",
    "Settle": "settle shared",
    "Dead": "dead",
}

Column = tuple[str, str, str]  # a field's name, type and meaning


def columns_of(fields: Iterable[Field]) -> list[Column]:
    """Returns what is told of each of these fields."""
    return [(field.name, field.kind.name, field.meaning) for field in fields]


def drawing(fields: Sequence[Column]) -> str:
    """The fields side by side, as boxes."""
    columns = [(name, kind) for name, kind, _ in fields]
    widths = [max(map(len, column)) + 2 for column in columns]
    edge = "+" + "+".join("-" * width for width in widths) + "+"
    rows = [
        "|"
        + "|".join(column[row].center(width) for column, width in zip(columns, widths, strict=True))
        + "|"
        for row in (0, 1)
    ]
    return "\n".join(["```text", edge, *rows, edge, "```"])


def table(fields: Sequence[Column]) -> str:
    """The fields one below the other, with their meaning."""
    rows = [f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in fields]
    return "\n".join(["| field | type | meaning |", "| --- | --- | --- |", *rows])


def body(name: str) -> str:
    """Drawing and table of a frame's body, and its flag bits."""
    cls = getattr(frames, name)
    parts = []
    if fields := columns_of(cls.FIELDS):
        parts += [drawing(fields), table(fields)]
    else:
        parts.append("The body is empty.")
    if cls.FLAGS:
        bits = ", ".join(
            f"bit {bit.bit_length() - 1} (`0x{bit:02x}`) {flag.upper()}"
            for flag, bit in cls.FLAGS.items()
        )
        parts.append(f"Flags: {bits}.")
    return "\n\n".join(parts)


def header() -> str:
    """Drawing and table of the header."""
    fields = columns_of(HEADER)
    return f"{drawing(fields)}\n\n{table(fields)}"


def columns() -> str:
    """Drawing and table of a batch."""
    return f"{drawing(BATCH_COLUMNS)}\n\n{table(BATCH_COLUMNS)}"


def types() -> str:
    """All frames with their numbers."""
    lines = [
        "| type | request | type | reply | type | event |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    width = max(len(frames.REQUESTS), len(frames.REPLIES))
    for row in range(width):
        cells = [
            f"0x{group[row].TYPE:02x} | {group[row].__name__}" if row < len(group) else " | "
            for group in (frames.REQUESTS, frames.REPLIES, frames.EVENTS)
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def hexdump(name: str) -> str:
    """A golden frame, field by field."""
    vectors = json.loads((VECTORS / "frames.json").read_text(encoding="utf-8"))
    return dump(bytes.fromhex(next(vector["hex"] for vector in vectors if vector["name"] == name)))


def dump(data: bytes) -> str:
    """The frames in these bytes, field by field."""
    lines = []
    for field in dissect(data):
        text = field.data.hex(" ")
        for start in range(0, max(len(text), 1), 24):
            label = f"{field.name} = {_shown(field.value)}" if start == 0 else ""
            lines.append(
                f"{field.offset + start // 3:4}  {text[start : start + 24].rstrip():<24} "
                f"{label}".rstrip()
            )
    return "\n".join(["```text", *lines, "```"])


def _shown(value: object) -> str:
    match value:
        case bytes():
            return repr(value)[1:].replace("'", '"')
        case list():
            return str(
                [
                    {k: v for k, v in item.items() if k != "_io"}
                    if isinstance(item, dict)
                    else item
                    for item in value
                ]
            )
        case _:
            return str(value)


def errors() -> str:
    """The table of error codes."""
    lines = ["| code | name | connection | retry | meaning |", "| --- | --- | --- | --- | --- |"]
    for code in ErrorCode:
        fate = "ends" if code.fatal else "goes on"
        lines.append(
            f"| {code.value} | `{code.name}` | {fate} | {'yes' if code.retryable else ''} | "
            f"{code.meaning} |"
        )
    return "\n".join(lines)


def ends() -> str:
    """The codes of SubscriptionEnded and GoAway."""
    lines = ["| frame | code | name | meaning |", "| --- | --- | --- | --- |"]
    for frame, codes in (("SubscriptionEnded", EndCode), ("GoAway", GoAwayCode)):
        lines += [f"| {frame} | {code.value} | `{code.name}` | {code.meaning} |" for code in codes]
    return "\n".join(lines)


def index_of_requests() -> str:
    """Returns for each request where the sentences about it stand.

    They are those of its topics, and those that name its frames.

    The topics of no request come first: they concern every one, or the connection.
    """
    known = list(sentences.load().values())
    placed = " ".join(_TOPICS.values()).split()
    shared = _ranges(each for each in known if _topic(each) not in placed)
    lines = [f"For every request and every connection: {shared}.", ""]
    lines += ["| request | its sentences | others that name it |", "| --- | --- | --- |"]
    for request, reply in zip(frames.REQUESTS, frames.REPLIES, strict=False):
        topics = _TOPICS[request.__name__].split()
        named = re.compile(rf"`({request.__name__}|{reply.__name__})\b")
        own = [each for topic in topics for each in known if _topic(each) == topic]
        others = [each for each in known if each not in own and named.search(each.words)]
        lines.append(f"| `{request.__name__}` | {_ranges(own)} | {_ranges(others)} |")
    return "\n".join(lines)


def index_of_errors() -> str:
    """For each error, the sentences that name it."""
    known = list(sentences.load().values())
    lines = ["| error | sentences |", "| --- | --- |"]
    for code in ErrorCode:
        naming = [each for each in known if f"`{code.name}`" in each.words]
        lines.append(f"| `{code.name}` | {_ranges(naming)} |")
    return "\n".join(lines)


def _topic(sentence: Sentence) -> str:
    return sentence.id.partition(".")[0]


def _ranges(found: Iterable[Sentence]) -> str:
    """Ids as links to their sections, in the order given.

    Neighbours of one section are one range.
    """
    links = []
    for (topic, heading), group in groupby(found, key=lambda each: (_topic(each), each.heading)):
        numbers = sorted(int(each.id.partition(".")[2]) for each in group)
        # Numbers less their places are equal for neighbours.
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            (_, first), *_, (_, last) = [*run] * 2
            links.append(
                f"[{topic}.{first}{f' to {last}' if last > first else ''}](#{_slug(heading)})"
            )
    return ", ".join(links)


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
