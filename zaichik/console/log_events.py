"""The log for programs: one JSON object a line, with names that stay when the sentences for people change.

A call to `logging` says a sentence and its values. This table gives each sentence an event, and each value a name. So
the broker pays nothing for it, and names are chosen in one place; a test reads the source for sentences that are not in
the table. `docs/logs.md` is made from it.
"""

import logging
import re
from datetime import UTC, datetime
from typing import Any, get_args

from zaichik.broker.rights import Action
from zaichik.escapes import json_line

# Sentence: event, the names of its values in their order.
EVENTS: dict[str, tuple[str, ...]] = {
    "%s connected": ("connected", "peer"),
    "%s %r disconnected: %s": ("disconnected", "peer", "client", "reason"),
    "%s disconnected: %s before it was served": ("disconnected", "peer", "reason"),
    "connections are turned away: %s": ("turned_away", "reason"),
    "topic %s created by %s": ("topic_created", "topic", "by"),
    "topic %s of %s deleted: %s": ("topic_deleted", "topic", "by", "reason"),
    "login_ok user=%s how=%s from=%s": ("login_ok", "user", "how", "peer"),
    "login_failed reason=%s user=%s from=%s": ("login_failed", "reason", "user", "peer"),
    "throttled from=%s": ("throttled", "peer"),
    "tls_failed reason=%s from=%s": ("tls_failed", "reason", "peer"),
    **{f"forbidden.{action} user=%s topic=%s": (f"forbidden.{action}", "user", "topic") for action in get_args(Action)},
    "reload_ok": ("reload_ok",),
    "reload_failed the old rules stay: %s": ("reload_failed", "reason"),
    "the certificate ends in %d days: put another one there, and send SIGHUP": ("certificate_ends", "days"),
    "a bug in %s, number %d since the start": ("bug", "work", "number"),
    "%s: a bug in carrying out %s": ("bug", "peer", "work"),
    "%s: a bug ended this connection": ("bug", "peer"),
    "%s. The broker ends: what it has answered is on the disk.": ("disk_failed", "reason"),
    "%d durable topics are open": ("restored", "topics"),
    "%s: %s; see `zaichik check`": ("log_damaged", "folder", "reason"),
    "%s: %d bytes at the end were never synced, and were cut off": ("log_torn", "folder", "bytes"),
    "%s: what came before offset %d is unknown: no checkpoint is left": ("checkpoint_lost", "folder", "offset"),
    "%s/%s is damaged, and not needed": ("file_ignored", "folder", "file"),
    "%s is damaged, and not needed": ("file_ignored", "file"),
    "%s is a copy of %s, and is left alone": ("log_copied", "folder", "of"),
    "%s is of an older topic of the same name; it has .older at its end now": ("log_set_aside", "folder"),
    "%s stays: there are folders in it that are not zaichik's": ("folder_stays", "folder"),
    "the folder of durable topics %s": ("folder_doubtful", "reason"),
    "no room for a checkpoint in %s: the next start will take longer": ("no_room_for_checkpoint", "folder"),
    "no room for %s: if the clock is set back, messages live longer": ("no_room_for_clock", "file"),
    "the recording ends here: %s; the broker goes on without one": ("recording_ended", "reason"),
    "the page is at %s, for the broker at %s": ("page_ready", "url", "broker"),
    "there is no page: %s": ("page_failed", "reason"),
    "the page has ended with exit code %d; the broker goes on without it": ("page_ended", "code"),
    "a view cannot be shown": ("page_bug",),
    "a bug in answering %s": ("page_bug", "address"),
    "%s may be reached from other machines, and is not encrypted": ("unencrypted", "address"),
    "SIGHUP is ignored; SIGTERM stops the broker": ("signal_ignored",),
    "%s: stopping, which may take %g s; a second signal stops at once": ("stopping", "signal", "seconds"),
    "%s log lines were dropped: the log isn't being read": ("lines_dropped", "lines"),
    "%s: %s more lines were left out": ("lines_left_out", "about", "lines"),
}

_WITH_DETAIL = re.compile(r"([A-Z][A-Z_]+): (.*)", re.DOTALL)  # why a connection ends: the code, then a sentence


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Returns a record's event and its values by their names; an unknown sentence is only a `message`."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    event, *names = EVENTS.get(str(record.msg), ("message",))
    found = {name: _plain(value) for name, value in zip(names, arguments, strict=False)}
    if isinstance(reason := found.get("reason"), str) and (parts := _WITH_DETAIL.fullmatch(reason)):
        found["reason"], found["detail"] = parts.groups()
    return {"event": event, **found}


def _plain(value: object) -> str | int | float | None:
    return value if isinstance(value, str | int | float | None) else str(value)


class JsonFormatter(logging.Formatter):
    """Returns a record as one line of JSON, in which nothing can move a cursor or hide, whatever names are in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns `ts`, `level`, `logger`, `event`, the event's values, `message`, and a bug's `traceback`."""
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **(getattr(record, "fields", None) or fields(record)),
            "message": record.getMessage(),
        }
        if trace := record.exc_text or (record.exc_info and self.formatException(record.exc_info)):
            line["traceback"] = trace
        return json_line(line)
