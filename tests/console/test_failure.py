"""Exceptions in a sentence."""

from zaichik import ZaichikError
from zaichik.console.failure import Failure, sentence


def test_failures_are_reported_in_one_line():
    assert sentence(ZaichikError("it is\n gone")) == "it is gone"
    assert sentence(Failure("no")) == "no"
    assert sentence(FileNotFoundError(2, "No such file or directory", "a.txt")) == "a.txt: No such file or directory"
    assert sentence(OSError(5, "Input/output error")) == "Input/output error"
    assert sentence(OSError("odd")) == "odd"
    assert sentence(TimeoutError()) == "TimeoutError"


def test_a_group_is_reported_by_its_first_failure():
    group = ExceptionGroup("several", [ExceptionGroup("inner", [KeyError(1), ZaichikError("the cause")]), OSError("x")])
    assert sentence(group) == "the cause"


def test_a_bug_is_not_reported_as_a_sentence():
    assert sentence(KeyError("x")) is None
    assert sentence(ExceptionGroup("bugs", [KeyError("x")])) is None
