"""`zaichik create`."""

import pytest

pytestmark = pytest.mark.usefixtures("connected")

SETTINGS = [
    "--retention",
    "1.5h",
    "--compaction-window",
    "10s",
    "--capacity",
    "5",
    "--max-bytes",
    "1MiB",
    "--max-keys",
    "9",
]


def test_a_topic_is_created_once(zaichik, topic):
    first, second = zaichik("create", topic, *SETTINGS), zaichik("create", topic, "--capacity", "5")
    assert (first.code, second.code) == (0, 0)
    assert first.out.splitlines() == [
        f"{topic}: created",
        "retention_ttl      90m",
        "compaction_window  10s",
        "capacity           5",
        "max_bytes          1 MiB",
        "max_keys           9",
        "journal_bytes      0 B",
        "overflow           evict",
    ]
    assert second.out.splitlines()[0] == f"{topic}: exists with these settings"
    assert second.out.splitlines()[1:] == first.out.splitlines()[1:]


def test_json(zaichik, topic):
    told = zaichik("create", topic, *SETTINGS, "--json").json
    assert told.pop("epoch") > 0
    settings = {"retention_ttl_ms": 5_400_000, "compaction_window_ms": 10_000}
    settings |= {
        "capacity": 5,
        "max_bytes": 1024**2,
        "max_keys": 9,
        "journal_bytes": 0,
        "overflow": 0,
    }
    assert told == {"name": topic, "created": True, "settings": settings}
    assert zaichik("create", topic, "--json").json["created"] is False


def test_other_settings_are_a_conflict(zaichik, topic):
    zaichik("create", topic, "--capacity", "5")
    result = zaichik("create", topic, "--capacity", "6")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert f"zaichik: topic '{topic}' exists with other settings" in result.err


def test_a_conflict_of_times_says_them_as_they_are_typed(zaichik, topic):
    zaichik("create", topic, "--retention", "1h")
    result = zaichik("create", topic, "--retention", "1500ms")
    assert "retention_ttl is 1h, asked for 1500ms. " in result.err


@pytest.mark.parametrize("name", ["", "$system", "x" * 201, "tab\there"])
def test_wrong_names(zaichik, name):
    result = zaichik("create", name)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith("zaichik: topic")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--retention=5x", "'5x' is not a duration"),
        ("--compaction-window=-1s", "'-1s' is not a duration"),
        ("--capacity=0", "at least 1"),
        ("--max-bytes=64M", "'64M' is not a size"),
        ("--max-keys=many", "'many' is not a whole number"),
    ],
)
def test_wrong_settings(zaichik, option, text):
    result = zaichik("create", "t", option)
    assert result.code == 2
    assert f"zaichik: argument {option.partition('=')[0]}: " in result.err
    assert text in result.err
    assert result.err.endswith("(see: zaichik create --help)\n")


def test_a_lossless_topic(zaichik, topic):
    """RET-9."""
    assert zaichik(
        "create", topic, "--overflow", "reject", "--max-bytes", "64KiB"
    ).out.splitlines()[-1].split() == [
        "overflow",
        "reject",
    ]
    result = zaichik("create", topic, "--overflow", "evict")
    assert result.code == 1
    assert "overflow" in result.err


def test_a_table(zaichik, topic):
    """TAB-1."""
    created = zaichik("create", topic, "--table", "--tombstones", "90m", "--capacity", "7")
    assert (created.code, created.err) == (0, "")
    assert [line.split() for line in created.out.splitlines()[-2:]] == [
        ["table", "yes"],
        ["tombstones", "90m"],
    ]
    shown = {line.split()[0] for line in created.out.splitlines()[1:]}
    assert not shown & {"overflow", "max_keys", "compaction_window"}, "it evicts, or has a window"
    assert zaichik("create", topic, "--table").out.startswith(f"{topic}: exists")
    assert zaichik("topics", topic, "--json").json[0]["settings"]["tombstones_ms"] == 5_400_000


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--table", "--compaction-window", "10s"], "a table has no compaction window"),
        (["--table", "--durable", "--log-bytes", "1MiB"], "needs 8 times its max_bytes"),
        (["--table", "--overflow", "reject"], "a table evicts nothing"),
        (["--table", "--retention", "0"], "more than 0 in a table"),
        (["--tombstones", "1h"], "tombstones_ms is for tables"),
    ],
)
def test_what_contradicts_a_table_is_refused_in_a_sentence(zaichik, topic, options, text):
    """TAB-1."""
    result = zaichik("create", topic, *options)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert text in result.err
    assert zaichik("topics", topic, "--json").json == []
