"""A message as a record of Kafka, and back.

Key, payload and time are Kafka's own. What Kafka has no place for is in headers:

| header | value, in decimal unless it is JSON |
| --- | --- |
| `zaichik-epoch` | the topic's epoch |
| `zaichik-offset` | the message's offset; of a gap, the first one that is missing |
| `zaichik-us` | when the broker accepted it, in µs: Kafka's own time has ms |
| `zaichik-gap` | of a gap, which has no key and no payload: the offset after it |
| `zaichik-settings` | in the first record that a bridge writes: the topic's settings, JSON |
| `zaichik-gaps` | in the last record of a transaction: the newest gaps, JSON; none: no gaps |

A gap is messages that were gone before they could be read; its time is that of the message before.
Kafka's own offsets mean nothing here, for the end of a transaction takes one as well.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from zaichik.apps.replication.gaps import Gaps

EPOCH = "zaichik-epoch"
OFFSET = "zaichik-offset"
US = "zaichik-us"
GAP = "zaichik-gap"
SETTINGS = "zaichik-settings"
GAPS = "zaichik-gaps"

# What a record may have beyond key and payload: Kafka's own fields, and all headers above.
MOST_OVERHEAD = 8 * 1024

HeaderField = tuple[str, bytes]


class NotOurs(ValueError):
    """A record has not the headers that a bridge writes. The message says what is wrong."""


class Header(NamedTuple):
    """What the headers of a record say.

    Attributes:
        epoch, offset, accepted_us: see above.
        end: of a gap: the offset after it; 0: it is a message.
        settings: the topic's, as they are written; b"" if there are none.
        gaps: the topic's newest gaps, as they are written; b"" if there are none.
    """

    epoch: int
    offset: int
    accepted_us: int
    end: int = 0
    settings: bytes = b""
    gaps: bytes = b""

    @property
    def next(self) -> int:
        """The offset after the record's last one."""
        return self.end or self.offset + 1


def header_of(headers: Any) -> Header:
    """Returns what the headers of a record say.

    Args:
        headers: pairs of name and value, as Kafka's client returns them; None if there are none.

    Raises:
        NotOurs: they are not those that a bridge writes.
    """
    found: dict[str, Any] = dict(headers or ())
    epoch = _number(found, EPOCH)
    offset = _number(found, OFFSET)
    accepted_us = _number(found, US)
    end = 0
    if GAP in found:
        end = _number(found, GAP)
        if end <= offset:
            raise NotOurs(f"it tells of a gap from {offset} to {end}")
    settings, gaps = found.get(SETTINGS) or b"", found.get(GAPS) or b""
    return Header(epoch, offset, accepted_us, end, settings, gaps)


def _number(headers: Mapping[str, Any], name: str) -> int:
    value = headers.get(name)
    if value is None:
        raise NotOurs(f"it has no header {name}")
    if not value.isdigit():
        raise NotOurs(f"its header {name} is {value[:40]!r}, and no number")
    return int(value)


def epoch_field(epoch: int) -> HeaderField:
    """Returns the header that all records of a topic have."""
    return EPOCH, b"%d" % epoch


def time_field(accepted_us: int) -> HeaderField:
    """Returns the header that all messages of a batch have."""
    return US, b"%d" % accepted_us


def offset_field(offset: int) -> HeaderField:
    """Returns the header that says which message a record is."""
    return OFFSET, b"%d" % offset


def gap_field(end: int) -> HeaderField:
    """Returns the header that makes a record that of a gap, which ends before that offset."""
    return GAP, b"%d" % end


def gaps_field(gaps: Gaps) -> HeaderField:
    """Returns the header that tells of a topic's newest gaps."""
    return GAPS, gaps.encoded()


def settings_field(settings: Mapping[str, int]) -> HeaderField:
    """Returns the header that tells of a topic's settings, as `describe` reports them."""
    return SETTINGS, json.dumps(dict(settings)).encode()
