"""What is said of a message, and what the end of its block says: SHR-3, SHR-4a, SHR-11."""

from datetime import timedelta

import pytest

from zaichik.client.work.verdict import (
    DONE,
    GIVEN_BACK,
    Verdict,
    cut,
    extended,
    reason_of,
    rejected,
    retried,
    timeout_ms,
    verdict_of,
)
from zaichik_protocol import Outcome


class Cancelled(BaseException):
    """What an event loop throws into a task."""


class Panic(BaseException):
    """A failure that is no `Exception`, as that of an extension in Rust."""


def verdict(error):
    return verdict_of(error, (Cancelled,))


def test_the_end_of_a_block_is_done():
    assert verdict(None) == DONE


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such image"), "ValueError: no such image"),
        (KeyError(), "KeyError"),
        (Panic("at the disco"), "Panic: at the disco"),
        (SystemExit("it is broken"), "SystemExit: it is broken"),
        (SystemExit(1), "SystemExit: 1"),
        (ExceptionGroup("two", [OSError("a"), ValueError("b")]), "OSError: a; ValueError: b"),
    ],
    ids=repr,
)
def test_an_exception_is_a_retry_with_its_text(error, reason):
    assert verdict(error) == Verdict(Outcome.RETRY, None, reason)


@pytest.mark.parametrize(
    "error",
    [
        Cancelled(),
        KeyboardInterrupt(),
        GeneratorExit(),
        SystemExit(),
        SystemExit(0),
        BaseExceptionGroup("all", [Cancelled(), KeyboardInterrupt()]),
    ],
    ids=repr,
)
def test_what_was_stopped_is_given_back(error):
    assert verdict(error) == GIVEN_BACK


def test_a_group_with_one_failure_is_a_failure():
    """Its other tasks were cancelled because of it."""
    group = BaseExceptionGroup("some", [Cancelled(), BaseExceptionGroup("in", [OSError("x")])])
    assert verdict(group).outcome == Outcome.RETRY


def test_without_an_event_loop_nothing_is_a_cancellation():
    assert verdict_of(Cancelled(), ()).outcome == Outcome.RETRY


def test_an_exception_without_a_text_still_has_a_reason():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    assert reason_of(Broken()) == "Broken: (its text cannot be made)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 70_000, "x" * 1024),
        ("x" + "ж" * 600, "x" + "ж" * 511),  # 1,023 bytes: half a letter is none
        ("\udcff.png", "\\udcff.png"),  # a file name that is no UTF-8
    ],
)
def test_a_reason_is_cut_at_a_character(text, expected):
    assert cut(text) == expected
    assert retried(reason=text).reason == rejected(text).reason == expected


@pytest.mark.parametrize(
    ("after", "delay_ms"),
    [(None, None), (0, 0), (0.0001, 1), (30, 30_000), (timedelta(days=30), 2_592_000_000)],
)
def test_a_retry_may_wait(after, delay_ms):
    assert retried(after) == Verdict(Outcome.RETRY, delay_ms, "")


@pytest.mark.parametrize("after", [-1, timedelta(days=30, milliseconds=1), "forever", "soon"])
def test_a_retry_waits_no_longer_than_30_days(after):
    with pytest.raises(ValueError, match=r"30 days|a duration must be"):
        retried(after)


@pytest.mark.parametrize(("by", "delay_ms"), [(0.0001, 1), (timedelta(days=1), 86_400_000)])
def test_time_is_extended(by, delay_ms):
    assert extended(by) == Verdict(Outcome.EXTEND, delay_ms)


@pytest.mark.parametrize("by", [0, -1, timedelta(days=1, milliseconds=1), "forever"])
def test_time_is_extended_by_more_than_nothing_and_at_most_a_day(by):
    with pytest.raises(ValueError, match=r"24 hours|a duration must be"):
        extended(by)


@pytest.mark.parametrize(
    ("timeout", "milliseconds"), [(0, 0), ("forever", 0), (60, 60_000), (86_400, 86_400_000)]
)
def test_a_timeout_is_at_most_a_day_or_none(timeout, milliseconds):
    assert timeout_ms(timeout) == milliseconds


@pytest.mark.parametrize("timeout", [86_401, -1, float("inf")])
def test_a_timeout_is_refused(timeout):
    with pytest.raises(ValueError, match=r"24 hours|a duration must be"):
        timeout_ms(timeout)
