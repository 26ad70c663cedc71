"""Messages as JSON, and back: one object for each message, on a line of its own.

    {"id": "1767225600000000-17", "offset": 17, "time": 1767225600.25, "key": "ana", "payload": "2"}

A key or a payload that is not UTF-8 is in `key_base64` or `payload_base64` instead. A `payload` of
null deletes the key from a table (TAB-5). What is read can be published again as it is: `id`,
`offset` and `time` are ignored there.
"""

import json
from base64 import b64decode, b64encode
from typing import Any

from zaichik import Message
from zaichik.apps.web.topics.statuses import Refusal

JSON = dict[str, Any]
IGNORED = {"id", "offset", "time"}
MEMBERS = {"key", "key_base64", "payload", "payload_base64"} | IGNORED
Row = tuple[bytes | None, bytes | None]  # a key and a payload


def shown(message: Message, *, in_table: bool) -> JSON:
    """Returns a message as a JSON object.

    Args:
        message: of a topic.
        in_table: whether the topic is a table, in which an empty payload deletes its key.
    """
    found: JSON = {"offset": message.offset, "time": message.timestamp}
    if message.key is not None:
        found |= _text("key", message.key)
    if in_table and message.is_tombstone:
        found["payload"] = None
    else:
        found |= _text("payload", message.payload)
    return found


def _text(name: str, data: bytes) -> JSON:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def rows_of(body: bytes, most: int) -> list[Row]:
    """Returns the messages of a body that has one JSON object on each line.

    Args:
        body: of a request.
        most: how many messages the broker takes at once. No more are parsed, because nothing else
            is done meanwhile.

    Raises:
        Refusal: a line is not one, or there is none, or there are too many.
    """
    rows: list[Row] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            if len(rows) == most:
                raise Refusal("BATCH_TOO_LARGE", f"a batch has at most {most:,} messages")
            try:
                rows.append(_row(line))
            except (ValueError, RecursionError) as error:
                problem = str(error)
                if isinstance(error, UnicodeError):
                    problem = "it is not UTF-8"
                elif isinstance(error, RecursionError):
                    problem = "it is nested too deeply"
                raise Refusal("BAD_REQUEST", f"line {number}: {problem}") from None
    if not rows:
        raise Refusal("BAD_REQUEST", "there is no message in the body: one JSON object on a line")
    return rows


def _row(line: bytes) -> Row:
    """Returns the message of a line.

    Raises:
        ValueError: it has none.
    """
    row = json.loads(line.decode(), object_pairs_hook=_members, parse_constant=_no_constant)
    if not isinstance(row, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 (what is wrong is the text)
    unknown = sorted(row.keys() - MEMBERS)
    if unknown:
        raise ValueError(
            f"there is no member {unknown[0]!r}; there are {', '.join(sorted(MEMBERS))}"
        )
    payload = _bytes(row, "payload")
    if payload is None and row.get("payload", "") is not None:
        raise ValueError("there is no payload; null deletes a key from a table")
    return _bytes(row, "key"), payload


def _bytes(row: JSON, name: str) -> bytes | None:
    """Returns the bytes of a member, which has two spellings; None if it is null, or not there."""
    coded_name = f"{name}_base64"
    if name in row and coded_name in row:
        raise ValueError(f"{name} and {coded_name} exclude each other")
    if coded_name in row:
        return b64decode(_text_of(row, coded_name), validate=True)
    if row.get(name) is None:
        return None
    return _text_of(row, name).encode()


def _text_of(row: JSON, name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text")  # noqa: TRY004 (what is wrong is the text)
    return value


def _members(pairs: list[tuple[str, Any]]) -> JSON:
    """Returns an object, none of whose members is there twice: readers disagree which one counts.

    Raises:
        ValueError: one is.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is there twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
