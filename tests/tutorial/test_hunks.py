"""Changes as a reader sees them."""

import hunks
import parts
import pytest

BEFORE = "def f():\n" + "".join(f"    line({n})\n" for n in range(40))
AFTER = (
    BEFORE.replace("line(3)", "line(33)")
    .replace("    line(30)\n", "")
    .replace("line(39)", "line(39)\n    new()")
)


def test_a_short_part_is_shown_whole():
    assert (
        hunks.shown("def f():\n    old()\n", "def f():\n    new()\n")
        == " def f():\n-    old()\n+    new()\n"
    )


def test_of_a_long_part_only_the_places_are_shown():
    shown = hunks.shown(BEFORE, AFTER)
    assert shown.count(hunks.ELLIPSIS) == 2
    assert len(shown.splitlines()) == 16


@pytest.mark.parametrize(
    ("before", "after"), [(BEFORE, AFTER), ("def f():\n    old()\n", "def f():\n    new()\n")]
)
def test_what_is_shown_can_be_applied(before, after):
    source = f"import a\n\n\n{before}\n\ndef g():\n    pass\n"
    assert hunks.applied(source, "f", hunks.shown(before, after)) == source.replace(before, after)


def test_a_place_that_could_be_another_one_is_shown_with_more_around_it():
    before = (
        "def f():\n"
        + "    same()\n    line()\n" * 15
        + "    other()\n    same()\n    line()\n    last()\n"
    )
    after = before.replace("    line()\n    last()", "    changed()\n    last()")
    assert hunks.applied(before, "f", hunks.shown(before, after)) == after


def test_lines_that_are_not_there_are_refused():
    with pytest.raises(parts.NoSuchPart, match="does not have these lines just once"):
        hunks.applied(BEFORE, "f", "-    line(99)\n+    new()\n")
