"""The two ways of writing a stream: server-sent events for browsers, lines of JSON for programs.

They differ in more than in how they are written. A browser's `EventSource` comes back by itself
after every lost connection, but gives up for good at any status other than 200. So events go on
through whatever may pass, and say what has happened. A program that reads lines has code for that:
the stream ends, and its last line says why.

| event | data | line |
| --- | --- | --- |
| a message (no name) | see `lines` | the same with its `id` |
| `lagged` | `start`, `end`, `count`: messages that were gone | `{"lagged": ...}` |
| `deletions_missed` | `below`: drop what you hold, it comes again | `{"deletions_missed": ...}` |
| `epoch` | `epoch`, `text`: it is another topic, from its first message | an error |
| `end` | `next`: `until` was reached | the end |
| `failed` | `error`, `text`: nothing more will come | an error |
| `bye` | `error`, `text`: the gateway ends the stream | an error |
"""

import json
from typing import Any, Protocol

from starlette.requests import Request

from zaichik import DeletionsMissed, Lagged, Message
from zaichik.apps.web.topics.lines import JSON, shown
from zaichik.apps.web.topics.positions import Position
from zaichik.apps.web.topics.publishing import LINES
from zaichik.apps.web.topics.statuses import Refusal

EVENTS = "text/event-stream"
# `json.dumps` would make one for each message.
_ENCODER = json.JSONEncoder(separators=(",", ":"))
RETRY_MS = 1000  # after which a browser connects again


class Form(Protocol):
    """Writes a stream.

    Attributes:
        media_type: what an answer of this form says it is.
        lasts: whether the stream outlasts what its client would otherwise have to handle.
        comment: what is sent so that a connection is not silent; empty: nothing.
    """

    media_type: str
    lasts: bool
    comment: bytes

    def begin(self, position: Position) -> bytes:
        """Returns what says where the stream begins."""

    def messages(self, epoch: int, messages: list[Message], *, in_table: bool) -> bytes:
        """Returns messages that follow each other."""

    def lagged(self, epoch: int, lagged: Lagged) -> bytes:
        """Returns the report of messages that were gone before they could be sent."""

    def deletions_missed(self, missed: DeletionsMissed) -> bytes:
        """Returns the report that keys may have been deleted unseen."""

    def end(self, position: Position) -> bytes:
        """Returns what says that all that was asked for has been sent."""

    def event(self, kind: str, data: JSON) -> bytes:
        """Returns what ends the stream otherwise, or its topic."""


class Events:
    """Server-sent events; see `Form`."""

    media_type = EVENTS
    lasts = True
    comment = b":\n\n"

    def begin(self, position: Position) -> bytes:
        """See `Form`. An id without data is no event, and is where a browser begins again."""
        return f"retry: {RETRY_MS}\nid: {position}\n\n".encode()

    def messages(self, epoch: int, messages: list[Message], *, in_table: bool) -> bytes:
        """See `Form`."""
        written = []
        for message in messages:
            position = Position(epoch, message.offset + 1)
            written.append(f"id: {position}\ndata: {_json(shown(message, in_table=in_table))}\n\n")
        return "".join(written).encode()

    def lagged(self, epoch: int, lagged: Lagged) -> bytes:
        """See `Form`. A browser that begins again behind it is not told again."""
        event = self.event("lagged", _gap(lagged))
        return f"id: {Position(epoch, lagged.end)}\n".encode() + event

    def deletions_missed(self, missed: DeletionsMissed) -> bytes:
        """See `Form`."""
        return self.event("deletions_missed", {"below": missed.below})

    def end(self, position: Position) -> bytes:
        """See `Form`. A browser that connects again behind it is told to stop."""
        return f"id: {position}\n".encode() + self.event("end", {"next": position.next})

    def event(self, kind: str, data: JSON) -> bytes:
        """See `Form`."""
        return f"event: {kind}\ndata: {_json(data)}\n\n".encode()


class Lines:
    """Lines of JSON; see `Form`."""

    media_type = LINES
    lasts = False
    comment = b""

    def begin(self, position: Position) -> bytes:
        """See `Form`. Every line has its own id."""
        del position
        return b""

    def messages(self, epoch: int, messages: list[Message], *, in_table: bool) -> bytes:
        """See `Form`."""
        written = []
        for message in messages:
            identified: JSON = {"id": str(Position(epoch, message.offset + 1))}
            written.append(_json(identified | shown(message, in_table=in_table)) + "\n")
        return "".join(written).encode()

    def lagged(self, epoch: int, lagged: Lagged) -> bytes:
        """See `Form`."""
        identified: JSON = {"id": str(Position(epoch, lagged.end))}
        return (_json(identified | {"lagged": _gap(lagged)}) + "\n").encode()

    def deletions_missed(self, missed: DeletionsMissed) -> bytes:
        """See `Form`."""
        return (_json({"deletions_missed": {"below": missed.below}}) + "\n").encode()

    def end(self, position: Position) -> bytes:
        """See `Form`. The answer ends, which says it."""
        del position
        return b""

    def event(self, kind: str, data: JSON) -> bytes:
        """See `Form`."""
        del kind
        return (_json(data) + "\n").encode()


def form_of(request: Request) -> Form:
    """Returns the form that a request accepts: events, unless it asks for lines.

    Raises:
        Refusal: it accepts neither.
    """
    accepted = set()
    fields = request.headers.getlist("accept")
    for field in fields:
        for item in field.split(","):
            media_type, *parameters = (part.strip().lower() for part in item.split(";"))
            if not {"q=0", "q=0.0"} & set(parameters):
                accepted.add(media_type)
    if LINES in accepted:
        return Lines()
    if not fields or accepted & {EVENTS, "text/*", "*/*"}:
        return Events()
    raise Refusal("NOT_ACCEPTABLE", f"there is {EVENTS}, and {LINES}")


def _gap(lagged: Lagged) -> JSON:
    return {"start": lagged.start, "end": lagged.end, "count": lagged.count}


def _json(data: Any) -> str:
    """Returns JSON in ASCII: no character in it can end a line, for whatever reads lines."""
    return _ENCODER.encode(data)
