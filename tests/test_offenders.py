"""A rule over many things is one test, and names all that break it."""

import inspect

import pytest
from offenders import each

pytestmark = pytest.mark.unmeasured


@each("number", [2, 4, 6])
def test_a_rule_that_holds_for_all_passes(number):
    assert number % 2 == 0


def test_all_that_break_it_are_named():
    @each("number", [1, 2, 3, 4])
    def even(number):
        assert number % 2 == 0

    with pytest.raises(pytest.fail.Exception, match=r"2 of 4 break it") as told:
        even()
    assert [line.partition(":")[0] for line in str(told.value).splitlines()[1:] if ":" in line] == [
        "1",
        "3",
    ]


def test_what_goes_wrong_otherwise_says_where():
    @each("name", ["ana", ""], shown=repr)
    def has_a_letter(name):
        assert name[0]

    with pytest.raises(IndexError) as told:
        has_a_letter()
    assert told.value.__notes__ == ["name is ''"]


def test_the_other_arguments_are_fixtures():
    @each("number", [1])
    def rule(number, tmp_path):
        assert number

    assert list(inspect.signature(rule).parameters) == ["tmp_path"]


def test_a_rule_about_nothing_is_refused():
    with pytest.raises(ValueError, match="there is no page"):
        each("page", [])
