"""Strangers' text is safe, on one line, and no wider than its place."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from zaichik.apps.views.printable import cells, clipped, padded, printable


@given(text=st.text(st.characters(codec=None), max_size=30), most=st.integers(0, 40))
def test_it_is_never_wider_than_asked(text, most):
    shown = printable(text, most)
    assert cells(shown) <= most
    assert cell_len(shown) <= most
    assert "\n" not in shown


@given(text=st.text(max_size=30), width=st.integers(0, 40))
def test_what_is_filled_has_exactly_its_width(text, width):
    assert cells(padded(printable(text, 40), width)) == width
    assert cells(padded(printable(text, 40), width, right=True)) == width


def test_what_is_cut_says_so():
    assert [printable("orders", most) for most in (7, 6, 5, 1, 0)] == [
        "orders",
        "orders",
        "orde…",
        "…",
        "",
    ]
    assert printable("漢字", 3) == "漢…"
    assert printable("a" + "\u0301" * 100, 5).endswith("…")
    assert clipped("ab", 3, is_cut=True) == "ab…"
    assert padded("ab", 4, right=True) == "  ab"


def test_what_a_terminal_would_obey_is_an_escape():
    assert printable("a\x1b[2J\u202eb", 40) == "a\\x1b[2J\\u202eb"
