"""Arguments declared as their usage is written."""

import argparse

import pytest

from zaichik.cli.arguments import WrongUsage, add, argument, group, one_of, within


def parsed(*words, members):
    parser = argparse.ArgumentParser(prog="p", exit_on_error=False)
    add(parser, members)
    return vars(parser.parse_args(words))


@pytest.mark.parametrize(
    ("usage", "words", "value"),
    [
        ("N", ["7"], {"n": 7}),
        ("[N]", [], {"n": None}),
        ("[N]", ["7"], {"n": 7}),
        ("N...", ["7", "8"], {"n": [7, 8]}),
        ("[N...]", [], {"n": []}),
        ("--max N", [], {"max": None}),
        ("--max N", ["--max", "7"], {"max": 7}),
        ("-m --max N", ["-m", "7"], {"max": 7}),
        ("-v --verbose", ["-v"], {"verbose": True}),
        ("--verbose", [], {"verbose": False}),
    ],
)
def test_the_usage_says_how_often_an_argument_is_given(usage, words, value):
    assert parsed(*words, members=[argument(usage, "help", int)]) == value


@pytest.mark.parametrize(
    ("usage", "shown"),
    [("N", "p [-h] N"), ("[N]", "[N]"), ("N...", "N [N ...]"), ("--max N", "[--max N]")],
)
def test_help_shows_the_usage(usage, shown):
    parser = argparse.ArgumentParser(prog="p")
    add(parser, [argument(usage, "what it is for")])
    assert shown in parser.format_usage()
    assert "what it is for" in parser.format_help()


def test_what_must_be_given_must_be_given():
    parser = argparse.ArgumentParser(prog="p")
    add(parser, [argument("N", "help"), argument("M...", "help")])
    with pytest.raises(SystemExit):
        parser.parse_args(["7"])


def test_an_option_with_choices_is_no_switch():
    members = [argument("--clock", "help", choices=("system", "manual"), default="system")]
    assert parsed(members=members) == {"clock": "system"}
    assert parsed("--clock", "manual", members=members) == {"clock": "manual"}


def test_of_some_only_one_may_be_given():
    members = [one_of(argument("--key K", "help"), argument("--json", "help"))]
    assert parsed("--json", members=members) == {"key": None, "json": True}
    with pytest.raises(argparse.ArgumentError, match="not allowed with"):
        parsed("--json", "--key", "k", members=members)


def test_a_group_has_a_heading():
    parser = argparse.ArgumentParser(prog="p")
    add(parser, [group("how it is run", argument("--seed N", "help"), about="in short")])
    assert "how it is run:\n  in short\n\n  --seed N" in parser.format_help()


@pytest.mark.parametrize("text", ["0", "11", "x", "nan"])
def test_a_value_outside_is_refused_in_one_sentence(text):
    parse = within(float, lambda value: 1 <= value <= 10, "{} is not from 1 to 10")
    assert parse("10") == 10
    with pytest.raises(WrongUsage, match=f"^'{text}' is not from 1 to 10$"):
        parse(text)
