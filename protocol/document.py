"""The generated parts of `protocol/README.md`: byte drawings, field tables, hexdumps, error tables, indexes.

`make docs` runs it through cog, which keeps the output inside the document; a test checks that it is current.
Everything here is derived: drawings and tables from `zaichik_protocol.frames`, hexdumps from `vectors/`, indexes from
the ids of the sentences in the text itself.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from construct import Array, Renamed, Struct

from zaichik.console.dissection import dissect
from zaichik.learn import sentences
from zaichik.learn.sentences import Sentence
from zaichik_protocol import EndCode, ErrorCode, GoAwayCode, frames
from zaichik_protocol.layout import (
    BATCH,
    BATCH_COLUMNS,
    DELTAS,
    HEADER,
    MAGIC,
    OWNED_U32,
    OWNED_U64,
    REST,
    SETTINGS,
    TEXT,
)

VECTORS = Path(__file__).parent / "vectors"

# Of each request, the topics whose sentences all concern it. Others are found by the names of its frames.
_TOPICS = {
    "Hello": "hello welcome",
    "CreateTopic": "create setting topic durable",
    "Publish": "publish published producer batch time compaction retention ring durable",
    "Subscribe": "subscribe name owner start credit lag until fair messages ended",
    "Unsubscribe": "unsubscribe",
    "Commit": "commit credit",
    "Ping": "ping",
    "Close": "close",
    "Describe": "describe",
    "Delete": "delete deletion",
    "Disconnect": "disconnect",
    "Explain": "explain",
    "AdvanceClock": "clock",
}

# What is no integer, by the declaration's own name for it.
_OTHER_TYPES = [
    (MAGIC, "4 bytes"), (TEXT, "str"), (SETTINGS, "settings"), (BATCH, "batch"), (REST, "rest"), (DELTAS, "u32[]"),
    (OWNED_U32, "u32"), (OWNED_U64, "u64"),
]  # fmt: skip
_INTEGERS = {"B": "u8", "H": "u16", "L": "u32", "Q": "u64", "l": "i32", "q": "i64"}


def fields_of(layout: Struct) -> Iterator[tuple[str, str, str]]:
    """(name, type, meaning) of every field of a layout."""
    for named in layout.subcons:
        if named.name is not None:
            yield named.name, _type(named), str(named.docs)


def _type(kind: object) -> str:
    while True:
        for known, name in _OTHER_TYPES:
            if kind is known:
                return name
        if not isinstance(kind, Renamed):
            break
        kind = kind.subcon
    if letters := getattr(kind, "fmtstr", ""):
        return _INTEGERS[letters[-1]]
    return "i32[count + 1]" if isinstance(kind, Array) else "bytes"


def drawing(layout: Struct) -> str:
    """The fields side by side, as boxes."""
    columns = [(name, kind) for name, kind, _ in fields_of(layout)]
    widths = [max(map(len, column)) + 2 for column in columns]
    edge = "+" + "+".join("-" * width for width in widths) + "+"
    rows = [
        "|" + "|".join(column[row].center(width) for column, width in zip(columns, widths, strict=True)) + "|"
        for row in (0, 1)
    ]
    return "\n".join(["```text", edge, *rows, edge, "```"])


def table(layout: Struct) -> str:
    """The fields one below the other, with their meaning."""
    rows = [f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in fields_of(layout)]
    return "\n".join(["| field | type | meaning |", "| --- | --- | --- |", *rows])


def body(name: str) -> str:
    """Drawing and table of a frame's body, and its flag bits."""
    cls = getattr(frames, name)
    parts = []
    if list(fields_of(cls.BODY)):
        parts += [drawing(cls.BODY), table(cls.BODY)]
    else:
        parts.append("The body is empty.")
    if cls.FLAGS:
        bits = ", ".join(
            f"bit {bit.bit_length() - 1} (`0x{bit:02x}`) {flag.upper()}" for flag, bit in cls.FLAGS.items()
        )
        parts.append(f"Flags: {bits}.")
    return "\n\n".join(parts)


def header() -> str:
    """Drawing and table of the header."""
    return f"{drawing(HEADER)}\n\n{table(HEADER)}"


def columns() -> str:
    """Drawing and table of a batch."""
    return f"{drawing(BATCH_COLUMNS)}\n\n{table(BATCH_COLUMNS)}"


def types() -> str:
    """All frames with their numbers."""
    lines = ["| type | request | type | reply | type | event |", "| --- | --- | --- | --- | --- | --- |"]
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
            lines.append(f"{field.offset + start // 3:4}  {text[start : start + 24].rstrip():<24} {label}".rstrip())
    return "\n".join(["```text", *lines, "```"])


def _shown(value: object) -> str:
    match value:
        case bytes():
            return repr(value)[1:].replace("'", '"')
        case list():
            return str(
                [{k: v for k, v in item.items() if k != "_io"} if isinstance(item, dict) else item for item in value]
            )
        case _:
            return str(value)


def errors() -> str:
    """The table of error codes."""
    lines = ["| code | name | connection | retry | meaning |", "| --- | --- | --- | --- | --- |"]
    for code in ErrorCode:
        fate = "ends" if code.fatal else "goes on"
        lines.append(f"| {code.value} | `{code.name}` | {fate} | {'yes' if code.retryable else ''} | {code.meaning} |")
    return "\n".join(lines)


def ends() -> str:
    """The codes of SubscriptionEnded and GoAway."""
    lines = ["| frame | code | name | meaning |", "| --- | --- | --- | --- |"]
    for frame, codes in (("SubscriptionEnded", EndCode), ("GoAway", GoAwayCode)):
        lines += [f"| {frame} | {code.value} | `{code.name}` | {code.meaning} |" for code in codes]
    return "\n".join(lines)


def index_of_requests() -> str:
    """For each request, where the sentences about it stand: those of its topics, and those that name its frames.

    The topics of no request come first: they concern every one, or the connection.
    """
    known = list(sentences.known().values())
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
    known = list(sentences.known().values())
    lines = ["| error | sentences |", "| --- | --- |"]
    for code in ErrorCode:
        naming = [each for each in known if f"`{code.name}`" in each.words]
        lines.append(f"| `{code.name}` | {_ranges(naming)} |")
    return "\n".join(lines)


def _topic(sentence: Sentence) -> str:
    return sentence.id.partition(".")[0]


def _ranges(found: Iterable[Sentence]) -> str:
    """Ids as links to their sections, in the order given; neighbours of one section are one range."""
    links = []
    for (topic, heading), group in groupby(found, key=lambda each: (_topic(each), each.heading)):
        numbers = sorted(int(each.id.partition(".")[2]) for each in group)
        # Numbers less their places are equal for neighbours.
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            (_, first), *_, (_, last) = [*run] * 2
            links.append(f"[{topic}.{first}{f' to {last}' if last > first else ''}](#{_slug(heading)})")
    return ", ".join(links)


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
