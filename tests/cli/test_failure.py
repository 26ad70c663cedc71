"""Exceptions in a sentence."""

from zaichik import BrokerError, ConnectionLost, ZaichikError
from zaichik.cli.failure import Failure, sentence
from zaichik_protocol import Error, ErrorCode, Refused


def test_failures_are_reported_in_one_line():
    assert sentence(ZaichikError("it is\n gone")) == "it is gone"
    assert sentence(Failure("no")) == "no"
    assert (
        sentence(FileNotFoundError(2, "No such file or directory", "a.txt"))
        == "a.txt: No such file or directory"
    )
    assert sentence(OSError(5, "Input/output error")) == "Input/output error"
    assert sentence(OSError("odd")) == "odd"
    assert sentence(TimeoutError()) == "TimeoutError"


def test_an_error_with_a_code_ends_in_the_command_that_explains_it():
    assert (
        sentence(ConnectionLost("it is\n gone")) == "it is gone (zaichik explain CONNECTION_LOST)"
    )
    assert (
        sentence(ConnectionLost("it is gone", "STOPPING"))
        == "it is gone (zaichik explain STOPPING)"
    )
    assert (
        sentence(BrokerError.of(Error(1, 77, 3, "", 0, "it is full")))
        == "it is full (zaichik explain TOPIC_FULL)"
    )
    assert (
        sentence(Refused(ErrorCode.UNSUPPORTED, "no such setting"))
        == "no such setting (zaichik explain UNSUPPORTED)"
    )


def test_a_code_of_a_later_broker_is_not_said_to_be_explained():
    assert sentence(BrokerError.of(Error(1, 999, 3, "", 0, "it is new"))) == "it is new [999]"


def test_a_group_is_reported_by_its_first_failure():
    group = ExceptionGroup(
        "several", [ExceptionGroup("inner", [KeyError(1), ZaichikError("the cause")]), OSError("x")]
    )
    assert sentence(group) == "the cause"


def test_a_bug_is_not_reported_as_a_sentence():
    assert sentence(KeyError("x")) is None
    assert sentence(ExceptionGroup("bugs", [KeyError("x")])) is None
