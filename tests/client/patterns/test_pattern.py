"""Which names a pattern matches (PAT-2)."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.client.patterns.pattern import Pattern, is_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders.", "orders.de", "Orders", ""]),
        ("orders.*", ["orders.de", "orders.*", "orders. "], ["orders.", "orders", "orders.de.old"]),
        ("*.de", ["orders.de"], [".de", "old.orders.de", "orders.de.", "orders.den"]),
        ("a*c", ["abc", "abbc", "acc"], ["ac", "a.c", "ab"]),
        ("orders.**", ["orders.", "orders.de", "orders.de.old"], ["orders", "order.de"]),
        ("**.old", [".old", "a.old", "a.b.old"], ["old", "a.older"]),
        ("**", ["a", "a.b", ".", "...", "*"], ["$topics", "$journal/a"]),
        ("*", ["a", "ab", "a b", "[", "é"], ["", ".", "a.b", "$topics"]),
        ("***", ["a", "a.b.c"], ["$topics"]),
        ("a****b", ["ab", "a.b", "acccb"], ["a", "b"]),
        ("*.*.*", ["a.b.c"], ["a.b", "a..c", "a.b.c.d"]),
        ("**a.*", ["a.b", "a.a.b", "x.a.b"], ["a.", "a.b.c", "b.b"]),
        ("[ab]?+\\", ["[ab]?+\\"], ["a", "ab", "[ab]x+\\"]),
    ],
)
def test_what_matches_and_what_does_not(pattern, matching, others):
    wanted = {name: name in matching for name in [*matching, *others]}
    assert {name: Pattern(pattern).matches(name) for name in wanted} == wanted


def meant(pattern, name):
    """The same, as a regular expression, which may take exponential time."""
    pieces = re.split(r"(\*+)", pattern)
    translated = [
        {"": "", "*": "[^.]+"}.get(piece, ".*" if piece.startswith("**") else re.escape(piece))
        for piece in pieces
    ]
    matched = re.fullmatch("".join(translated), name, re.DOTALL)
    return matched is not None and not name.startswith("$")


def test_all_short_patterns_and_names():
    names = ["".join(name) for size in range(5) for name in product("a.b", repeat=size)]
    for size in range(1, 6):
        for characters in product("a.*", repeat=size):
            pattern = Pattern("".join(characters))
            wrong = [name for name in names if pattern.matches(name) != meant(pattern.text, name)]
            assert not wrong, pattern.text


@given(
    st.text("a.b*é$", min_size=1, max_size=12).filter(lambda text: text[0] != "$"),
    st.text("a.bé*$", max_size=20),
)
def test_any_pattern_and_name(pattern, name):
    assert Pattern(pattern).matches(name) == meant(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("*" * 10_000, True), ("*a" * 10_000, False), ("**a" * 66, True), ("**a" * 10_000, False)],
)
def test_ten_thousand_stars_take_a_step_for_each_character(pattern, matches):
    """A matcher that goes back to a star would not end: the guard of the suite would."""
    parsed = Pattern(pattern)
    for _ in range(20):
        assert parsed.matches("ab" * 33 + "a" * 100) == matches
        assert parsed.matches("a" * 199 + "b") == (pattern == "*" * 10_000)


def test_the_brokers_own_topics_cannot_be_meant():
    with pytest.raises(ValueError, match="'\\$journal/\\*\\*' can match nothing"):
        Pattern("$journal/**")
    with pytest.raises(ValueError, match="at least one character"):
        Pattern("")


def test_what_has_a_star_is_a_pattern():
    assert [is_pattern(text) for text in ("a", "a.*", "*", "[a]?")] == [False, True, True, False]
