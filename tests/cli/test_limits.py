"""The limits: set with `--limit`, shown in a table by `zaichik serve` and `zaichik describe`."""

import argparse
import io
import re
from argparse import ArgumentTypeError
from dataclasses import asdict, fields

import pytest
from offenders import each
from rich.console import Console

from zaichik.cli import limits
from zaichik.core.settings import BrokerSettings, TopicSettings

SETTINGS = [*BrokerSettings().limits(), *(field.name for field in fields(TopicSettings))]


@each("name", SETTINGS)
def test_every_limit_and_default_has_a_row(name):
    file = io.StringIO()
    Console(file=file, width=200).print(
        limits.table(BrokerSettings().limits(), asdict(TopicSettings()))
    )
    shown = name.removesuffix("_ms").replace("_", " ")
    assert shown in file.getvalue().replace("_", " ")


# -- --limit -------------------------------------------------------------------------------------


def given(*texts, no_auto_create=False):
    """What becomes of these options."""
    limit = [limits.limit(text) for text in texts]
    return limits.chosen(argparse.Namespace(limit=limit, no_auto_create=no_auto_create))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max_topics=7", 7),
        ("max_bytes=128MiB", 128 * 1024**2),
        ("max_bytes=1000", 1000),
        ("max_frame=1.5 MiB", 1_572_864),
        ("frame_rate=2kB/s", 2000),
        ("frame_rate=2kB", 2000),
        ("write_timeout=2.5s", 2.5),
        ("idle_timeout=5m", 300.0),
        ("producer_ttl=30", 30.0),
        ("session_ttl=0", 0.0),
        ("drain_timeout=0s", 0.0),
        ("auto_create=no", False),
        ("auto_create=yes", True),
    ],
)
def test_a_limit_is_set_by_its_name_in_the_unit_it_is_shown_in(text, value):
    assert given(text) == {text.partition("=")[0]: value}


def test_the_listing_has_every_default_in_the_options_notation():
    listed = re.findall(r"\w+=\S+", limits.listing())
    assert given(*listed) == BrokerSettings().limits()


def test_limits_not_given_take_the_brokers_defaults():
    assert given() == {}
    assert given(no_auto_create=True) == {"auto_create": False}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("max_conections=2", "there is no limit 'max_conections'; did you mean max_connections?"),
        ("MAX-TOPICS=2", "there is no limit 'MAX-TOPICS'; did you mean max_topics?"),
        (
            "timeout=2s",
            (
                "there is no limit 'timeout'; did you mean idle_timeout or write_timeout or "
                "frame_timeout?"
            ),
        ),
        ("colour=red", "there is no limit 'colour'"),
        ("=2", "there is no limit ''"),
        (
            "max_keys=5",
            "max_keys is a setting of topics; those have their own options, such as --retention",
        ),
        (
            "retention_ttl=5s",
            (
                "retention_ttl is a setting of topics; those have their own options, such as "
                "--retention"
            ),
        ),
        ("max_bytes", "max_bytes has no value; write max_bytes=512MiB"),
    ],
)
def test_a_misspelt_name_is_answered_with_suggestions(text, sentence):
    with pytest.raises(ArgumentTypeError, match=f"^{re.escape(sentence)}$"):
        limits.limit(text)


NUMBER = "a whole number from 1 to 1000000000, such as 10000"
SIZE = "a size from 1B to 1TiB, such as 512MiB"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *(
            ("max_topics", text, NUMBER)
            for text in ("", "0", "-1", "1.5", "10,000", "1e3", "2kB", "1000000001")
        ),
        *(
            ("max_bytes", text, SIZE)
            for text in ("", "0", "-1", "64M", "5x", "5s", "1.1TiB", "9" * 400 + ".5")
        ),
        *(
            ("producer_ttl", text, "a time from 1s to 36525d, such as 10m")
            for text in ("0.9", "0", "5x", "forever")
        ),
        ("idle_timeout", "50d", "a time from 1s to 49d, such as 90s"),
        ("session_ttl", "-1", "a time from 0s to 36525d, such as 1m"),
        ("frame_rate", "5/s/s", "a size from 1B/s to 1TiB/s, such as 16KiB/s"),
        ("max_message", "1.1GiB", "a size from 1B to 1GiB, such as 1MiB"),
        ("max_frame", "4095", "a size from 4KiB to 2GiB, such as 1.125MiB"),
        ("auto_create", "true", "yes or no"),
    ],
)
def test_a_wrong_value_is_answered_with_the_allowed_ones(name, value, allowed):
    sentence = f"{name} is {value!r}; it must be {allowed}"
    with pytest.raises(ArgumentTypeError, match=f"^{re.escape(sentence)}$"):
        limits.limit(f"{name}={value}")


def test_more_connections_than_files_may_be_open_are_refused(monkeypatch):
    """Files of the log, and what the process itself needs, are not for connections."""
    monkeypatch.setattr("zaichik.base.process.getrlimit", lambda _: (1024, 4096))
    assert given("max_connections=975") == {"max_connections": 975}
    with pytest.raises(
        ArgumentTypeError,
        match=r"from 1 to 975, .* files that this process may open \(ulimit -n\)$",
    ):
        limits.limit("max_connections=976")


def test_a_limit_is_given_once():
    with pytest.raises(ArgumentTypeError, match=r"^--limit max_topics is given twice$"):
        given("max_topics=1", "max_bytes=1MiB", "max_topics=1")
    with pytest.raises(
        ArgumentTypeError, match=r"^give either --limit auto_create or --no-auto-create, not both$"
    ):
        given("auto_create=yes", no_auto_create=True)


@pytest.mark.parametrize(
    "texts", [["max_message=4MiB"], ["max_batch=50000"], ["max_frame=1MiB"], ["max_frame=4KiB"]]
)
def test_a_frame_must_carry_the_largest_batch_and_the_error_names_a_size_that_does(texts):
    with pytest.raises(
        ArgumentTypeError, match=r"^a frame of max_frame=.* cannot carry a batch of max_message="
    ) as error:
        given(*texts)
    enough = int(re.search(r"--limit max_frame=(\d+),", str(error.value))[1])
    others = [text for text in texts if not text.startswith("max_frame")]
    assert given(*others, f"max_frame={enough}")["max_frame"] == enough
    with pytest.raises(ArgumentTypeError, match="cannot carry"):
        given(*others, f"max_frame={enough - 1}")
