"""What a broker reports as JSON: read here, and nowhere else.

Replies to Describe and Explain are as trustworthy as the broker that sends them: it may be newer
than this client, or somebody else's, or stand behind a proxy. So each is checked before a program
sees it, as far as the documents say what a field is. Fields that they do not name are passed on as
they are, for later versions add some. One that is missing is an error when it is asked for, not
before: earlier versions, and other people's brokers, report less.
"""

# Not compiled: it has a subclass of dict.

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from zaichik.client.errors import UnexpectedReply
from zaichik_protocol import Kind

Check = Callable[[object], bool]


class Report(dict[str, Any]):
    """A JSON object of a broker's."""

    def __missing__(self, name: str) -> Any:
        """A field that is not there.

        Raises:
            UnexpectedReply: always.
        """
        problem = (
            f'the broker did not report "{name}": it may be older than this client, or this user '
            "may not see it"
        )
        raise UnexpectedReply(problem)


# -- what a value is -----------------------------------------------------------------------------


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    # Larger ones fit no frame, so nothing can be asked about them.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _is_number_or_null(value: object) -> bool:
    return value is None or _is_number(value)


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64


def _is_time_or_null(value: object) -> bool:
    return value is None or _is_time(value)


def _is_figure(value: object) -> bool:
    if isinstance(value, float):
        return True
    return isinstance(value, int) and -(2**64) < value < 2**64


def _is_figures(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_figure, value.values()))


def _is_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_pairs(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(
        isinstance(pair, list) and len(pair) == 2 and all(map(_is_time, pair)) for pair in value
    )


def _is_counts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_base64(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        b64decode(value)
    except ValueError:
        return False
    return True


_WORDS: dict[Check, str] = {
    _is_text: "text",
    _is_flag: "true or false",
    _is_number: "a number from 0 to 2^64 - 1",
    _is_number_or_null: "null or a number from 0 to 2^64 - 1",
    _is_time: "a number of microseconds",
    _is_time_or_null: "null or a number of microseconds",
    _is_figures: "an object with numbers",
    _is_numbers: "an object with numbers from 0 to 2^64 - 1",
    _is_pairs: "a list of pairs of numbers",
    _is_counts: "a list of numbers from 0 to 2^64 - 1",
    _is_object: "an object",
    _is_list: "a list",
    _is_base64: "base64",
}

# -- what a field is: docs/use/describe.md and docs/use/explain.md -------------------------------

_EVERY_PAGE: Mapping[str, Check] = {"now_us": _is_time, "boot": _is_number}

_BROKER: Mapping[str, Check] = {
    "name": _is_text,
    "clock": _is_text,
    "user": _is_text,
    "connections": _is_number,
    "subscriptions": _is_number,
    "topics": _is_number,
    "bytes": _is_number,
    "memory": _is_number,
    "resident": _is_number_or_null,
    "disk_bytes": _is_number,
    "producers": _is_number,
    "sessions": _is_number,
    "disconnects": _is_numbers,
    "recent_ends": _is_list,
    "clock_jumps": _is_pairs,
    "clock_ahead_us": _is_time,
    "access": _is_figures,
    "limits": _is_figures,
    "topic_defaults": _is_figures,
}

_TOPIC: Mapping[str, Check] = {
    "name": _is_text,
    "epoch": _is_number,
    "explicit": _is_flag,
    "settings": _is_numbers,
    "head": _is_number,
    "next_offset": _is_number,
    "head_us": _is_time_or_null,
    "last_us": _is_time_or_null,
    "bytes": _is_number,
    "memory": _is_number,
    "subscriptions": _is_number,
    "needed": _is_number,
    "needed_us": _is_time_or_null,
    "lag": _is_number,
    "slowest": _is_text,
    "refused": _is_number,
    "published": _is_number,
    "stored": _is_number,
    "compacted": _is_number,
    "resident": _is_number,
    "expired": _is_number,
    "evicted": _is_number,
    "superseded": _is_number,
    "damaged": _is_number,
    "open_windows": _is_number,
    "forgotten_windows": _is_number,
    "log_bytes": _is_number,
    "waiting_bytes": _is_number,
    "damage": _is_text,
    # Of a table; a row of counters has them in any case.
    "keys": _is_number_or_null,
    "tombstones": _is_number_or_null,
    "tombstone_bytes": _is_number,
    "deleted_below": _is_number,
    "left_over": _is_figures,
}

_SUBSCRIPTION: Mapping[str, Check] = {
    "name": _is_text,
    "connection": _is_number,
    "client": _is_text,
    "id": _is_number,
    "topic": _is_text,
    "session": _is_text,
    "start": _is_number,
    "committed": _is_number,
    "cursor": _is_number,
    "until": _is_number_or_null,
    "cursor_us": _is_time_or_null,
    "redelivered_below": _is_number_or_null,
    "waiting_for": _is_text,
    "waiting_for_code": _is_text,
    "credit": _is_number,
    "in_flight": _is_number,
    "credit_bytes": _is_number,
    "in_flight_bytes": _is_number,
    "next_offset": _is_number,
    "delivered": _is_number,
    "skipped": _is_number,
    "passed": _is_number,
    "ahead": _is_number,
    "lag": _is_number,
    "left_over": _is_figures,
}

_CONNECTION: Mapping[str, Check] = {
    "name": _is_text,
    "connection": _is_number,
    "peer": _is_text,
    "user": _is_text,
    "client": _is_text,
    "since_us": _is_time,
    "state": _is_text,
    "subscriptions": _is_number,
    "in_flight": _is_number,
    "reply_bytes": _is_number,
    "unsent": _is_number,
    "requests": _is_number,
}

_EXPLAINED: Mapping[str, Check] = {
    "topic": _is_text,
    "epoch": _is_number,
    "now_us": _is_time,
    "offset": _is_number_or_null,
}

_VERDICT: Mapping[str, Check] = {
    "fate": _is_text,
    "rule": _is_text,
    "text": _is_text,
    "next": _is_text,
    "evidence": _is_object,
}

_DEAD: Mapping[str, Check] = {
    "offset": _is_number,
    "deliveries": _is_number,
    "died_us": _is_time,
    "reason": _is_text,
    "is_readable": _is_flag,
}

# The kinds whose pages are lists of objects: the list's name, and what an object of it has.
_ROWS: Mapping[Kind, tuple[str, Mapping[str, Check]]] = {
    Kind.TOPICS: ("topics", _TOPIC),
    Kind.SUBSCRIPTIONS: ("subscriptions", _SUBSCRIPTION),
    Kind.CONNECTIONS: ("connections", _CONNECTION),
    Kind.FURTHEST: ("subscriptions", _SUBSCRIPTION),
}
# The kinds whose pages are lists of lists: the list's name, and what a list in it has.
_COLUMNS: Mapping[Kind, tuple[str, tuple[Check, ...]]] = {
    Kind.WINDOWS: ("windows", (_is_base64, _is_time)),
    Kind.MARKS: ("marks", (_is_number, _is_time)),
}
# What the page with marks of a table has besides.
_MARKS: Mapping[str, Check] = {"readable": _is_counts}


def page_of(data: bytes, kind: Kind) -> Report:
    """Returns a page of what `describe` reports.

    Raises:
        UnexpectedReply: it is not one.
    """
    page = _object(data, "Describe")
    _check(page, _EVERY_PAGE, "")
    if kind == Kind.BROKER:
        _check(page, _BROKER, "")
    elif kind == Kind.COUNTERS:
        _check_counters(page)
    elif kind in _ROWS:
        name, fields = _ROWS[kind]
        for place, row in _listed(page, name):
            if not isinstance(row, Report):
                raise _wrong(place, "an object")
            _check(row, fields, f"{place}.")
    else:
        if kind == Kind.MARKS:
            _check(page, _MARKS, "")
        name, checks = _COLUMNS[kind]
        for place, row in _listed(page, name):
            if not isinstance(row, list) or len(row) != len(checks):
                raise _wrong(place, f"a list of {len(checks)}")
            for check, value in zip(checks, row, strict=True):
                _check_value(value, check, place)
    return page


def dead_of(data: bytes) -> list[Report]:
    """Returns the rows of a list of dead messages.

    Raises:
        UnexpectedReply: it is not one.
    """
    rows: list[Report] = []
    for place, row in _listed(_object(data, "Dead"), "dead"):
        if not isinstance(row, Report):
            raise _wrong(place, "an object")
        _check(row, _DEAD, f"{place}.")
        rows.append(row)
    return rows


def names_of(page: Mapping[str, Any], kind: Kind) -> list[str]:
    """Returns the names by which the entries of a page are sorted; none if it is no such kind.

    Raises:
        UnexpectedReply: an entry has no name.
    """
    if kind == Kind.COUNTERS:
        return [row[0] for row in page["rows"]]
    if kind not in _ROWS:
        return []
    listed, _ = _ROWS[kind]
    return [row["name"] for row in page[listed]]


def explained_of(data: bytes) -> Report:
    """Returns what `explain` reports.

    Raises:
        UnexpectedReply: it is not that.
    """
    explained = _object(data, "Explain")
    _check(explained, _EXPLAINED, "")
    for place, verdict in _listed(explained, "verdicts"):
        if not isinstance(verdict, Report):
            raise _wrong(place, "an object")
        _check(verdict, _VERDICT, f"{place}.")
    return explained


def _object(data: bytes, asked: str) -> Report:
    try:
        value = json.loads(data, object_hook=Report)
    except (ValueError, RecursionError) as error:
        # Of bytes that are not UTF-8, of text that is not JSON, of numbers with thousands of
        # digits, or of values that are nested too deeply.
        reason = str(error)
        if isinstance(error, RecursionError):
            reason = "it is nested too deeply"
        problem = f"the broker answered {asked} with what is not JSON: {reason}"
        raise UnexpectedReply(problem) from None
    if not isinstance(value, Report):
        raise UnexpectedReply(f"the broker answered {asked} with JSON that is not an object")
    return value


def _listed(page: Report, name: str) -> list[tuple[str, Any]]:
    """Returns the entries of a list, each with its place for an error."""
    rows = page[name]
    _check_value(rows, _is_list, name)
    return [(f"{name}[{index}]", row) for index, row in enumerate(rows)]


def _check(report: Report, fields: Mapping[str, Check], place: str) -> None:
    for name, check in fields.items():
        if name in report:
            _check_value(report[name], check, f"{place}{name}")


def _check_value(value: object, check: Check, place: str) -> None:
    if not check(value):
        raise _wrong(place, _WORDS[check])


def _check_counters(page: Report) -> None:
    columns = page["columns"]
    if not isinstance(columns, list) or not all(map(_is_text, columns)) or columns[:1] != ["name"]:
        raise _wrong("columns", 'a list of texts, of which the first is "name"')
    for place, row in _listed(page, "rows"):
        if not isinstance(row, list) or len(row) != len(columns):
            raise _wrong(place, "a list of as many values as there are columns")
        for name, value in zip(columns, row, strict=True):
            check = _TOPIC.get(name)
            if check is not None:
                _check_value(value, check, f"{place}.{name}")


def _wrong(place: str, wanted: str) -> UnexpectedReply:
    return UnexpectedReply(f'the broker reported a "{place}" that is not {wanted}')
