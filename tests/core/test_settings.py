"""What settings may be, and what a request lays over them."""

import pytest

from zaichik.core.settings import (
    LOG_FILES,
    MIB,
    BrokerSettings,
    TopicSettings,
    connection_sockets,
    refused_sockets,
)
from zaichik.server.disk_threads import READERS, WRITERS
from zaichik_protocol import FOREVER, ErrorCode, Refused, Setting

CENTURY_MS = 3_155_760_000_000
RANGES = {
    Setting.RETENTION_TTL_MS: (0, CENTURY_MS),
    Setting.COMPACTION_WINDOW_MS: (0, CENTURY_MS),
    Setting.CAPACITY: (1, 100_000_000),
    Setting.MAX_BYTES: (1, 2**40),
    Setting.MAX_KEYS: (1, 10_000_000),
    Setting.JOURNAL_BYTES: (0, 2**40),
    Setting.OVERFLOW: (0, 1),
    Setting.DURABLE: (0, 1),
    Setting.LOG_BYTES: (2**20, 2**50),
    Setting.SEGMENT_BYTES: (2**16, 2**31),
    Setting.TABLE: (0, 1),
    Setting.TOMBSTONES_MS: (0, CENTURY_MS),
}
OF_DURABLE_TOPICS = {Setting.DURABLE, Setting.LOG_BYTES, Setting.SEGMENT_BYTES}
OF_TABLES = {Setting.TABLE, Setting.TOMBSTONES_MS}


def merged(*pairs):
    return TopicSettings().merged(pairs)


def test_pairs_are_in_the_order_of_their_numbers():
    assert TopicSettings(1, 2, 3, 4, 5, 6, 1).pairs() == (
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 1),
    )


def test_defaults_are_those_of_the_protocols_table():
    assert TopicSettings().pairs() == (
        (1, 0),
        (2, 0),
        (3, 10_000),
        (4, 67_108_864),
        (5, 100_000),
        (6, 0),
        (7, 0),
    )


def test_settings_not_named_stay():
    assert TopicSettings(capacity=7).merged(((1, 5),)) == TopicSettings(
        retention_ttl_ms=5, capacity=7
    )
    assert merged() == TopicSettings()


@pytest.mark.parametrize("setting", Setting)
def test_a_value_may_be_anything_in_its_range(setting):
    low, high = RANGES[setting]
    kept = TopicSettings(
        retention_ttl_ms=1,
        durable=int(setting in OF_DURABLE_TOPICS),
        table=int(setting in OF_TABLES),
    )
    for value in {low, low + 1, high - 1, high}:
        settings = (
            kept.merged(((setting, value),))
            if setting != Setting.RETENTION_TTL_MS
            else merged((setting, value))
        )
        assert settings.by_name().get(setting.name.lower(), 0) == value


@pytest.mark.parametrize("setting", Setting)
def test_a_value_outside_its_range_is_refused(setting):
    low, high = RANGES[setting]
    for value in {low - 1, high + 1, FOREVER - 1}:
        with pytest.raises(
            Refused, match=f"{setting.name.lower()} is {value}; it must be {low} to {high}"
        ) as error:
            merged((setting, value))
        assert (error.value.code, error.value.field) == (ErrorCode.INVALID_FIELD, "settings")


@pytest.mark.parametrize("setting", Setting)
def test_only_durations_may_be_forever(setting):
    if setting.name.endswith("_MS"):
        kind = [(Setting.TABLE, 1)] if setting in OF_TABLES else []
        assert dict(merged((setting, FOREVER), *kind).pairs())[setting] == FOREVER
    else:
        with pytest.raises(Refused):
            merged((setting, FOREVER))


@pytest.mark.parametrize("number", [0, 13, 255])
def test_an_unknown_setting_is_unsupported(number):
    with pytest.raises(Refused) as error:
        merged((number, 1))
    assert (error.value.code, error.value.field) == (ErrorCode.UNSUPPORTED, "settings")


def test_a_setting_named_twice_is_refused_also_with_equal_values():
    with pytest.raises(Refused, match="capacity is named twice") as error:
        merged((3, 5), (1, 0), (3, 5))
    assert (error.value.code, error.value.field) == (ErrorCode.INVALID_FIELD, "settings")


def test_a_durable_topic_keeps_messages_for_ever_unless_told_otherwise():
    assert merged((8, 1)).retention_ttl_ms == FOREVER
    assert merged((8, 1), (1, 5)).retention_ttl_ms == 5
    assert TopicSettings(retention_ttl_ms=7).merged(((8, 1),)).retention_ttl_ms == 7


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        (((8, 1), (1, 0)), ErrorCode.INVALID_FIELD),
        (((8, 1), (6, 1)), ErrorCode.UNSUPPORTED),
        (((9, 2**20),), ErrorCode.INVALID_FIELD),
        (((8, 0), (10, 2**16)), ErrorCode.INVALID_FIELD),
    ],
    ids=["keeps nothing", "with a journal", "bytes of no log", "segments of no log"],
)
def test_what_contradicts_durable_is_refused(pairs, code):
    with pytest.raises(Refused) as error:
        merged(*pairs)
    assert (error.value.code, error.value.field) == (code, "settings")


def test_a_table_keeps_messages_for_ever_and_has_no_window_unless_told_otherwise():
    """TAB-1."""
    assert merged((11, 1)).retention_ttl_ms == FOREVER
    assert merged((11, 1), (1, 5)).retention_ttl_ms == 5
    defaults = TopicSettings(retention_ttl_ms=7, compaction_window_ms=9)
    assert defaults.merged(((11, 1),)).retention_ttl_ms == 7
    assert defaults.merged(((11, 1),)).compaction_window_ms == 0


def test_the_log_of_a_table_has_room_for_what_was_superseded():
    """DUR-10: by default as much as it needs."""
    assert merged((11, 1), (8, 1)).log_bytes == 1024 * MIB
    assert merged((11, 1), (8, 1), (4, 512 * MIB)).log_bytes == 4096 * MIB
    assert merged((11, 1), (8, 1), (4, MIB), (9, 8 * MIB)).log_bytes == 8 * MIB
    assert merged((8, 1), (4, 512 * MIB)).log_bytes == 1024 * MIB


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        (((11, 1), (1, 0)), ErrorCode.INVALID_FIELD),
        (((11, 1), (2, 1)), ErrorCode.INVALID_FIELD),
        (((11, 1), (7, 1)), ErrorCode.INVALID_FIELD),
        (((12, 5),), ErrorCode.INVALID_FIELD),
        (((11, 0), (12, 5)), ErrorCode.INVALID_FIELD),
        (((11, 1), (8, 1), (4, MIB), (9, 7 * MIB)), ErrorCode.INVALID_FIELD),
    ],
    ids=[
        "keeps nothing",
        "a window",
        "lossless",
        "no table",
        "not a table",
        "with a small log",
    ],
)
def test_what_contradicts_a_table_is_refused(pairs, code):
    """TAB-1."""
    with pytest.raises(Refused) as error:
        merged(*pairs)
    assert (error.value.code, error.value.field) == (code, "settings")


def test_a_difference_names_only_what_was_asked_for():
    """TOP-2: a plain topic has no tombstones of 0 ms."""
    plain = TopicSettings(retention_ttl_ms=FOREVER)
    assert plain.difference(plain.merged(((11, 1),))) == "table is 0, asked for 1"
    assert plain.difference(plain.merged(((8, 1),))) == "durable is 0, asked for 1"


def test_only_tables_tell_of_their_tombstones():
    assert merged((11, 1)).pairs()[-2:] == ((11, 1), (12, 86_400_000))
    assert [number for number, _ in merged((11, 1)).pairs()] == [*range(1, 8), 11, 12]


def test_only_durable_topics_tell_of_their_logs():
    assert [number for number, _ in merged((8, 1), (9, 2**20)).pairs()] == list(range(1, 11))
    assert [number for number, _ in merged().pairs()] == list(range(1, 8))


def test_limits_name_every_number_but_the_topic_defaults():
    limits = BrokerSettings(max_topics=3).limits()
    assert limits["max_topics"] == 3
    assert limits["auto_create"] is True
    assert "topic" not in limits


def test_the_default_limits_are_those_that_users_know():
    """Another one changes what a broker refuses by default: CHANGELOG.md has to name it."""
    assert BrokerSettings(max_connections=7).limits() == {
        "max_message": 1_048_576,
        "max_batch": 8_192,
        "max_frame": 1_179_648,
        "max_key": 1_024,
        "max_credit": 1_000_000,
        "max_bytes": 536_870_912,
        "max_client_bytes": 536_870_912,
        "max_disk_bytes": 1_125_899_906_842_624,
        "max_connections": 7,
        "max_topics": 10_000,
        "max_subscriptions": 1_000,
        "topic_ttl": 600.0,
        "max_producers": 10_000,
        "producer_ttl": 600.0,
        "max_sessions": 10_000,
        "max_open": 10_000,
        "max_dead": 10_000,
        "session_ttl": 60.0,
        "disk_session_ttl": 604_800.0,
        "soft_output": 262_144,
        "max_replies": 131_072,
        "handshake_timeout": 5.0,
        "frame_timeout": 10.0,
        "frame_rate": 16_384,
        "idle_timeout": 90.0,
        "write_timeout": 10.0,
        "drain_timeout": 10.0,
        "auto_create": True,
    }


def test_the_largest_batch_fits_a_frame():
    """All that a Publish adds to its messages' bytes: offsets, the longest name, the header."""
    settings = BrokerSettings()
    offsets = 4 + 2 * 4 * (settings.max_batch + 1)
    assert settings.max_message == MIB
    assert 8 + 16 + 2 + 200 + offsets + settings.max_message <= settings.max_frame


# -- file descriptors ----------------------------------------------------------------------------

RESERVED = 24 + LOG_FILES + 1  # for the process, the log and an operator
LEAST = 35  # descriptors, with which every share has its minimum


@pytest.mark.parametrize(
    "nofiles", [range(LEAST, 5000), range(5000, 2**21, 997), [2**30, 2**63 - 1]], ids=repr
)
def test_the_shares_of_descriptors_never_exceed_the_limit(nofiles):
    """And nothing is left over, so that no limit is lower than it must be."""
    for nofile in nofiles:
        shares = refused_sockets(nofile), connection_sockets(nofile)
        assert sum(shares) + RESERVED == nofile
        assert min(shares) >= 1


@pytest.mark.parametrize("nofile", range(LEAST))
def test_with_too_few_descriptors_there_is_one_connection(nofile):
    assert (refused_sockets(nofile), connection_sockets(nofile)) == (1, 1)


def test_there_is_a_descriptor_for_each_thread_of_the_log_and_for_its_lock():
    assert LOG_FILES >= WRITERS + READERS + 1


def test_shares_grow_with_the_limit():
    for share in (connection_sockets, refused_sockets):
        sizes = [share(nofile) for nofile in range(5000)]
        assert sizes == sorted(sizes)
    assert (refused_sockets(0), refused_sockets(5000)) == (1, 16)


@pytest.mark.parametrize(
    ("nofile", "refused", "connections"),
    [
        (40, 1, 6),
        (64, 7, 24),
        (80, 11, 36),
        (256, 16, 207),
        (1024, 16, 975),
        (20_000, 16, 10_000),
        (2**20, 16, 10_000),
    ],
)
def test_the_default_number_of_connections_leaves_descriptors_for_the_log(
    monkeypatch, nofile, refused, connections
):
    monkeypatch.setattr("zaichik.base.process.getrlimit", lambda _: (nofile, 2**20))
    assert refused_sockets(nofile) == refused
    assert BrokerSettings().max_connections == connections


def test_settings_are_shown_as_numbers_however_they_were_given():
    """`zaichik serve --durable` gives true, which no client takes for a number."""
    shown = TopicSettings(durable=True).by_name()
    assert shown["durable"] == 1
    assert {type(value) for value in shown.values()} == {int}
