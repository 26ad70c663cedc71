"""The log for programs: a JSON object a line, whose names outlive the sentences for people.

A call to `logging` says a sentence and its values. This table gives each sentence an event, and
each value a name. So the broker pays nothing for it, and names are chosen in one place; a test
reads the source for sentences that are not in the table. `docs/run/logs.md` is made from it.
"""

import logging
import re
from datetime import UTC, datetime
from typing import Any, get_args

from zaichik.base.escapes import json_line
from zaichik.core.rights import Action

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
    **{
        f"forbidden.{action} user=%s topic=%s": (f"forbidden.{action}", "user", "topic")
        for action in get_args(Action)
    },
    "reload_ok": ("reload_ok",),
    "reload_failed the old rules stay: %s": ("reload_failed", "reason"),
    "the certificate ends in %d days: put another one there, and send SIGHUP": (
        "certificate_ends",
        "days",
    ),
    "the certificate ended %d days ago: put another one there, and send SIGHUP; until then the "
    "broker cannot be started again": ("certificate_ended", "days"),
    "a bug in %s, number %d since the start": ("bug", "work", "number"),
    "%s: a bug in carrying out %s": ("bug", "peer", "work"),
    "%s: a bug ended this connection": ("bug", "peer"),
    "%s. The broker ends: what it has answered is on the disk.": ("disk_failed", "reason"),
    "%d durable topics are open": ("restored", "topics"),
    "%s: %s; see `zaichik check`": ("log_damaged", "folder", "reason"),
    "%s: %d bytes at the end were never synced, and were cut off": ("log_torn", "folder", "bytes"),
    "%s: what came before offset %d is unknown: no checkpoint is left": (
        "checkpoint_lost",
        "folder",
        "offset",
    ),
    "%s was rewritten: %d bytes are left of it": ("rewritten", "file", "bytes"),
    "%s cannot be rewritten now: %s": ("rewriting_stopped", "file", "reason"),
    "a table cannot be rewritten: %s; see `zaichik check`": ("rewriting_failed", "reason"),
    "%s/%s is damaged, and not needed": ("file_ignored", "folder", "file"),
    "%s is damaged, and not needed": ("file_ignored", "file"),
    "%s is not opened, for it is not %s: %s": ("log_copied", "folder", "of", "reason"),
    "%s cannot be opened: %s": ("log_denied", "folder", "reason"),
    "%s; the topic takes no more messages": ("log_changed", "reason"),
    "the file system of %s locks no folders, so never remove the file lock in it": (
        "folder_not_locked",
        "path",
    ),
    "%s is of an older topic of the same name; it has .older at its end now": (
        "log_set_aside",
        "folder",
    ),
    "%s stays: there are folders in it that are not zaichik's": ("folder_stays", "folder"),
    "the folder of durable topics %s": ("folder_doubtful", "reason"),
    "there is no room for messages of durable topics in %s: %s": ("no_room", "path", "reason"),
    "no room for a checkpoint in %s: the next start will take longer": (
        "no_room_for_checkpoint",
        "folder",
    ),
    "the machine's clock is %s behind what was stored before: the broker's goes on from there": (
        "clock_ahead",
        "span",
    ),
    "the machine's clock was set forward by %s since the last start: that does not count for "
    "what was stored before": ("clock_jumped", "span"),
    "the last time that is known here is %s ago; if the clock was wrong then, messages expire "
    "too early": ("clock_doubtful", "span"),
    "the machine's clock was set %s by %s: the broker's does not follow before the next start": (
        "clock_set",
        "direction",
        "span",
    ),
    "what the clocks say cannot be written down: %s": ("clock_not_saved", "reason"),
    "no room for %s: if the clock is set back, messages live longer": ("no_room_for_clock", "file"),
    "the recording ends here: %s; the broker goes on without one": ("recording_ended", "reason"),
    "the page is at %s, for the broker at %s": ("page_ready", "url", "broker"),
    "there is no page: %s": ("page_failed", "reason"),
    "the page has ended with exit code %d; the broker goes on without it": ("page_ended", "code"),
    "%s has ended with exit code %d; the broker goes on without it": (
        "front_end_ended",
        "front_end",
        "code",
    ),
    "serving %s at %s, for the broker at %s": (
        "front_end_ready",
        "front_end",
        "address",
        "broker",
    ),
    "%s cannot be served: %s": ("front_end_failed", "front_end", "reason"),
    "%s cannot be started: %s": ("front_end_failed", "front_end", "reason"),
    "a view cannot be shown": ("page_bug",),
    "a bug in answering %s": ("page_bug", "address"),
    "a bug in answering a scrape": ("bug",),
    "%s may be reached from other machines, and is not encrypted": ("unencrypted", "address"),
    # Of gateways.
    "%s disconnected: %s": ("disconnected", "peer", "reason"),
    "%s:%d speaks %s": ("wrong_protocol", "host", "port", "protocol"),
    "another gateway of this kind would not be noticed: %s": ("claim_refused", "reason"),
    "%s (%s) disconnected: %s; %d messages and %d bytes received, %d and %d sent": (
        "disconnected",
        "peer",
        "client",
        "reason",
        "received_messages",
        "received_bytes",
        "sent_messages",
        "sent_bytes",
    ),
    "the broker has lost its topics: all sessions begin anew": ("topics_lost",),
    "%s: no TLS: %s": ("tls_failed", "peer", "reason"),
    "%s: no WebSocket: %s": ("websocket_refused", "peer", "reason"),
    # Of `zaichik kafka`.
    "%s disconnected: %s; %d messages and %d bytes received, %d and %d sent": (
        "disconnected",
        "peer",
        "reason",
        "received_messages",
        "received_bytes",
        "sent_messages",
        "sent_bytes",
    ),
    "%s turned away: there are %d connections, which is the limit": (
        "turned_away",
        "peer",
        "connections",
    ),
    "%s: %s: %s": ("refused", "peer", "what", "reason"),
    "%s: Produce of %d bytes is too large": ("too_large", "peer", "bytes"),
    "%s: the request %s %d is not offered (client %s)": (
        "not_offered",
        "peer",
        "request",
        "version",
        "client",
    ),
    "login_ok user=%s from=%s": ("login_ok", "user", "peer"),
    "login_failed user=%s from=%s": ("login_failed", "user", "peer"),
    "the connection of user %s to the broker has ended: %s": ("user_lost", "user", "reason"),
    "a bug ended the connection of a user to the broker": ("bug",),
    "topic %s cannot be made: %s": ("topic_refused", "topic", "reason"),
    "%s: offsets %d to %d have no messages, and were passed over": (
        "offsets_skipped",
        "topic",
        "first",
        "last",
    ),
    "%s cannot be fetched now: there are %d subscriptions, which is the limit": (
        "too_many_subscriptions",
        "topic",
        "subscriptions",
    ),
    "%s cannot be fetched now: user %s has %d subscriptions, and others may need the %d that are "
    "left": (
        "too_many_subscriptions",
        "topic",
        "user",
        "subscriptions",
        "left",
    ),
    "%s wait for memory: they have %d bytes, and %d is the limit": (
        "no_memory",
        "what",
        "bytes",
        "limit",
    ),
    "%s: a position cannot be read, and is passed over: %s": (
        "position_unreadable",
        "topic",
        "reason",
    ),
    "%s is not a table any more": ("positions_lost", "topic"),
    "lost or refused since the start: %s": ("counts", "counts"),
    # Of `zaichik bridge`.
    "bridging %s to the topic %s of Kafka at %s, which has what is below offset %d": (
        "bridge_ready",
        "topic",
        "kafka_topic",
        "kafka",
        "next",
    ),
    "made the topic %s of Kafka": ("kafka_topic_made", "kafka_topic"),
    "%s does not wait for the bridge: messages that are evicted or expire before Kafka has them "
    "are missing there, and told as a gap; a topic that waits is created with --overflow reject "
    "--retention forever": ("bridge_may_miss", "topic"),
    "%s: offsets %d to %d were gone before they could be replicated": (
        "bridge_gap",
        "topic",
        "first",
        "last",
    ),
    "%s: Kafka has what is below offset %d; messages to come: %d": (
        "bridge_progress",
        "topic",
        "next",
        "lag",
    ),
    "Kafka does not answer, and is waited for: %s": ("kafka_away", "reason"),
    "Kafka answers again": ("kafka_back",),
    "Kafka does not let us in: %s; look at --kafka-config": ("kafka_refuses", "reason"),
    "a round is sent to Kafka once more: %s": ("round_repeated", "reason"),
    "a transaction is left for Kafka to abort: %s": ("round_left", "reason"),
    "Kafka has given up a round; looking how far it is: %s": ("producer_lost", "reason"),
    "the bridge has ended: %s": ("bridge_ended", "reason"),
    # Of `zaichik cluster`.
    "shard %d is served at %s": ("shard_served", "shard", "address"),
    "the broker of shard %d has ended (%s): started again in %g s": (
        "broker_ended",
        "shard",
        "reason",
        "seconds",
    ),
    "shard %d is at machine %s now, so its broker here is stopped": (
        "shard_moved",
        "shard",
        "machine",
    ),
    "shard %d has not taken the map: %s": ("map_refused", "shard", "reason"),
    "shard %d has lost the map: %s": ("map_lost", "shard", "reason"),
    "the record of shard %d cannot be read, and is passed over: %s": (
        "record_unreadable",
        "shard",
        "reason",
    ),
    "what is known of the cluster cannot be kept: %s": ("known_not_kept", "reason"),
    "ZooKeeper is away: brokers go on, and nothing can be placed": ("zookeeper_away",),
    "ZooKeeper answers": ("zookeeper_answers",),
    "ZooKeeper does not answer yet: it is tried again, and no shard is served before it has "
    "answered once, since they may be elsewhere by now (--serve-alone serves what was here last)": (
        "zookeeper_absent",
    ),
    "a former process of this machine is still present at ZooKeeper: waiting until its session "
    "expires": ("session_awaited",),
    "a call was refused: %s": ("zookeeper_refuses", "reason"),
    "standard input has closed: stopping, which may take %g s": ("stopping", "seconds"),
    "SIGHUP is ignored; SIGTERM stops the broker": ("signal_ignored",),
    "%s: stopping, which may take %g s; a second signal stops at once": (
        "stopping",
        "signal",
        "seconds",
    ),
    "%s log lines were dropped: the log isn't being read, or can't be written": (
        "lines_dropped",
        "lines",
    ),
    "%s: %s more lines were left out": ("lines_left_out", "about", "lines"),
}

# Why a connection ends: the code, then a sentence.
_WITH_DETAIL = re.compile(r"([A-Z][A-Z_]+): (.*)", re.DOTALL)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Returns a record's event and its values by their names.

    An unknown sentence is only a `message`.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    event, *names = EVENTS.get(str(record.msg), ("message",))
    found = {name: _plain(value) for name, value in zip(names, arguments, strict=False)}
    if isinstance(reason := found.get("reason"), str) and (parts := _WITH_DETAIL.fullmatch(reason)):
        found["reason"], found["detail"] = parts.groups()
    return {"event": event, **found}


def _plain(value: object) -> str | int | float | None:
    return value if isinstance(value, str | int | float | None) else str(value)


class JsonFormatter(logging.Formatter):
    """Returns a record as one line of JSON, in which no name can move a cursor or hide."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns `ts`, `level`, `logger`, `event`, its values, `message`, and any `traceback`."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        # `log.py` names the values on the way, where a record still has them.
        named = getattr(record, "fields", None) or fields(record)
        line = {
            "ts": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **named,
            "message": record.getMessage(),
        }
        trace = record.exc_text
        if not trace and record.exc_info:
            trace = self.formatException(record.exc_info)
        if trace:
            line["traceback"] = trace
        return json_line(line)
