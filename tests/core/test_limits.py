"""Every limit the broker has, at one below, at it, and at one above.

A row names a setting, a small value for it, and a probe: a function that brings so much to a broker
with that value and returns what became of it. So each limit stands beside the three outcomes it
must have. What else the limits do is in the tests of the parts that keep them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields

import limit_probes as probes
import pytest
from conversation import Conversation, broker_with
from limit_probes import FITS, GONE, WAITS, of_requests, seconds_after, simulated
from offenders import each

from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik_protocol import Describe, ErrorCode, Kind

NO_LIMITS = {
    "BrokerSettings.auto_create": "a switch",
    "BrokerSettings.topic": "the rows of TopicSettings",
    "BrokerSettings.max_client_bytes": "of which one client gets a part: test_quota.py",
    "BrokerSettings.max_disk_bytes": "of files on a disk: test_durable.py",
    "TopicSettings.overflow": "a choice",
    "TopicSettings.durable": "a switch",
    "TopicSettings.log_bytes": "of files on a disk: test_durable.py",
    "TopicSettings.segment_bytes": "of files on a disk: test_durable.py",
    "TopicSettings.table": "a switch",
    "TopicSettings.tombstones_ms": "of tables, and a time: test_table.py",
    "BrokerSettings.disk_session_ttl": "of topics on a disk: test_durable.py",
}

# Told of topics of that kind alone.
OF_ONE_KIND = ("durable", "log_bytes", "segment_bytes", "table", "tombstones_ms")


@dataclass(frozen=True)
class Limit:
    """A row.

    Attributes:
        setting: class and field.
        value: of the setting.
        probe: called with the field's name, the value and an amount.
        outcomes: one step below the value, at it, one step above.
        step: how far apart the three amounts are.
    """

    setting: str
    value: float
    probe: Callable[[str, float, float], object]
    outcomes: tuple[object, object, object]
    step: float = 1


def above(what):
    """What is just the limit fits, more does not."""
    return FITS, FITS, what


def from_(what):
    """What is just the limit does not fit any more."""
    return FITS, what, what


E = ErrorCode
MICROSECOND = 1e-6
LIMITS = [
    Limit(
        "BrokerSettings.max_message", 30, of_requests(probes.a_message), above(E.MESSAGE_TOO_LARGE)
    ),
    Limit(
        "BrokerSettings.max_message", 30, of_requests(probes.two_messages), above(E.BATCH_TOO_LARGE)
    ),
    Limit("BrokerSettings.max_batch", 5, of_requests(probes.messages), above(E.BATCH_TOO_LARGE)),
    Limit(
        "BrokerSettings.max_frame", 5000, simulated(probes.length_field), above(E.FRAME_TOO_LARGE)
    ),
    Limit("BrokerSettings.max_key", 4, of_requests(probes.a_key), above(E.INVALID_FIELD)),
    Limit("BrokerSettings.max_credit", 6, of_requests(probes.credit), above(E.INVALID_FIELD)),
    Limit(
        "BrokerSettings.max_bytes",
        500,
        of_requests(probes.a_batch_of_bytes),
        above(E.BATCH_TOO_LARGE),
    ),
    Limit(
        "BrokerSettings.max_connections",
        3,
        simulated(probes.connections),
        above(E.TOO_MANY_CONNECTIONS),
    ),
    Limit("BrokerSettings.max_topics", 3, of_requests(probes.topics), above(E.TOO_MANY_TOPICS)),
    Limit(
        "BrokerSettings.max_topics",
        3,
        of_requests(probes.topics_with_journals),
        above(E.TOO_MANY_TOPICS),
    ),
    Limit(
        "BrokerSettings.max_topics",
        3,
        of_requests(probes.journals_for_topics_in_use),
        above(E.TOO_MANY_TOPICS),
    ),
    Limit(
        "BrokerSettings.max_subscriptions",
        3,
        of_requests(probes.subscriptions),
        above(E.TOO_MANY_SUBSCRIPTIONS),
    ),
    Limit("BrokerSettings.max_producers", 3, of_requests(probes.producers), above(E.NO_MEMORY)),
    Limit(
        "BrokerSettings.producer_ttl",
        5,
        probes.numbered_again_after,
        from_(E.PRODUCER_UNKNOWN),
        MICROSECOND,
    ),
    Limit("BrokerSettings.topic_ttl", 5, probes.topic_unused_for, from_(GONE), MICROSECOND),
    Limit(
        "BrokerSettings.max_sessions",
        2,
        of_requests(probes.named_subscriptions),
        above(E.TOO_MANY_SUBSCRIPTIONS),
    ),
    Limit("BrokerSettings.max_open", 3, probes.handed_out, above(WAITS)),
    Limit("BrokerSettings.max_dead", 3, probes.handed_out_after_so_many_died, from_(WAITS)),
    Limit("BrokerSettings.session_ttl", 5, probes.back_after, from_(GONE), MICROSECOND),
    Limit("BrokerSettings.soft_output", 100, probes.bytes_before_the_next_message, from_(WAITS)),
    Limit(
        "BrokerSettings.max_replies",
        100,
        simulated(probes.replies_before_the_next_request),
        above(WAITS),
    ),
    Limit(
        "BrokerSettings.handshake_timeout",
        5,
        simulated(probes.hello_after),
        from_(E.HANDSHAKE_TIMEOUT),
        MICROSECOND,
    ),
    Limit(
        "BrokerSettings.frame_timeout",
        5,
        seconds_after(probes.HALF_A_FRAME, frame_rate=10**30),
        from_(E.FRAME_TIMEOUT),
        MICROSECOND,
    ),
    Limit(
        "BrokerSettings.frame_rate",
        1000,
        probes.a_frame_at_that_rate,
        (E.FRAME_TIMEOUT, E.FRAME_TIMEOUT, FITS),
    ),
    Limit(
        "BrokerSettings.idle_timeout",
        5,
        seconds_after(probes.SILENCE),
        from_(E.IDLE_TIMEOUT),
        MICROSECOND,
    ),
    Limit(
        "BrokerSettings.write_timeout",
        5,
        simulated(probes.nothing_is_read),
        from_(GONE),
        MICROSECOND,
    ),
    Limit(
        "BrokerSettings.drain_timeout",
        5,
        simulated(probes.peer_that_reads_after_the_stop),
        from_(GONE),
        0.001,
    ),
    Limit("TopicSettings.retention_ttl_ms", 5, probes.read_after, from_(GONE), 0.001),
    Limit("TopicSettings.compaction_window_ms", 5, probes.repeated_after, from_(GONE), 0.001),
    Limit("TopicSettings.capacity", 5, probes.messages_kept, above(GONE)),
    Limit("TopicSettings.capacity", 5, probes.messages_at_once, above(E.BATCH_TOO_LARGE)),
    Limit("TopicSettings.max_bytes", 100, probes.bytes_kept, above(GONE)),
    Limit("TopicSettings.max_bytes", 100, probes.bytes_at_once, above(E.BATCH_TOO_LARGE)),
    Limit("TopicSettings.max_keys", 5, probes.keys_remembered, above(GONE)),
    Limit("TopicSettings.journal_bytes", 100, probes.bytes_of_the_journal, above(GONE)),
    # Limits of the protocol, which are no settings.
    Limit(
        "HELLO_MAX_FRAME", 4096, simulated(probes.length_field_of_a_hello), above(E.FRAME_TOO_LARGE)
    ),
    Limit("MAX_NAME", 200, probes.bytes_of_a_name, above(E.INVALID_FIELD)),
    Limit("MAX_NAME", 200, probes.bytes_of_a_subscriptions_name, above(E.INVALID_FIELD)),
    Limit(
        "REMEMBERED_ANSWERS", 64, probes.the_first_of_so_many_batches_again, above(E.INVALID_FIELD)
    ),
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.setting.replace("Settings", ""))
def test_a_limit_is_exact(limit):
    """P6: one below it, at it, one above."""
    name = limit.setting.rpartition(".")[2]
    amounts = [limit.value - limit.step, limit.value, limit.value + limit.step]
    assert tuple(limit.probe(name, limit.value, amount) for amount in amounts) == limit.outcomes


ALL_SETTINGS = [
    f"{cls.__name__}.{field.name}"
    for cls in (BrokerSettings, TopicSettings)
    for field in fields(cls)
]


@each("setting", [name for name in ALL_SETTINGS if name not in NO_LIMITS])
def test_every_setting_has_a_row(setting):
    """A new limit needs a test: this one fails until it has one."""
    assert setting in {limit.setting for limit in LIMITS}


@each("setting", ALL_SETTINGS)
def test_every_setting_is_reported_by_describe(setting):
    client = Conversation(broker_with())
    (reply,) = client.ask(Describe(2, Kind.BROKER))
    told = json.loads(reply.json)
    cls, _, name = setting.partition(".")
    if name not in ("topic", *OF_ONE_KIND):
        assert name in told["limits" if cls == "BrokerSettings" else "topic_defaults"]


@pytest.mark.parametrize(
    "limit", [limit for limit in LIMITS if "." in limit.setting], ids=lambda limit: limit.setting
)
@pytest.mark.parametrize("steps", [-1, 1])
def test_a_row_notices_a_limit_that_is_one_step_off(limit, steps):
    """Or else it would prove nothing."""
    name = limit.setting.rpartition(".")[2]
    wrong = limit.value + steps * (1 if name.endswith("_ms") else limit.step)
    amounts = [limit.value - limit.step, limit.value, limit.value + limit.step]
    assert tuple(limit.probe(name, wrong, amount) for amount in amounts) != limit.outcomes
