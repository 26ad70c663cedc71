"""The names in which the tutorial speaks of code."""

import parts
import pytest

SOURCE = '''\
"""A module."""

LIMIT = 3


# Said of the function.
@cache
def one():
    return 1


class Two:
    """Two."""

    size = 2

    # Said of the method.
    def a(self):
        return self.size

    def b(self):
        return 2


if __name__ == "__main__":
    one()
'''


def test_a_file_is_its_parts():
    assert list(parts.spans(SOURCE)) == [
        "the beginning",
        "one",
        "Two",
        "the head of Two",
        "Two.a",
        "Two.b",
        "the end",
    ]


def test_a_part_has_the_comments_and_decorators_right_above_it():
    assert (
        parts.part(SOURCE, "one") == "# Said of the function.\n@cache\ndef one():\n    return 1\n"
    )
    assert parts.part(SOURCE, "Two.a").startswith("    # Said of the method.\n")


def test_a_part_replaced_by_itself_changes_nothing():
    for name in parts.spans(SOURCE):
        assert parts.replace(SOURCE, name, parts.part(SOURCE, name)) == SOURCE


def test_what_is_inserted_gets_its_blank_lines():
    assert "    return 1\n\n\ndef new():\n    pass\n\n\nclass Two" in parts.insert(
        SOURCE, "one", "def new():\n    pass\n"
    )
    assert "self.size\n\n    def c(self):\n        pass\n\n    def b" in parts.insert(
        SOURCE, "Two.a", "    def c(self):\n        pass\n"
    )


def test_changes_name_the_parts_and_not_what_is_around_them():
    assert parts.changes(SOURCE, SOURCE) == set()
    assert parts.changes(SOURCE, SOURCE.replace("return 2", "return 3")) == {"Two.b"}
    assert parts.changes(SOURCE, SOURCE.replace("size = 2", "size = 3")) == {"the head of Two"}
    assert parts.changes(SOURCE, SOURCE.replace("LIMIT = 3", "LIMIT = 4")) == {"the beginning"}
    assert parts.changes("", SOURCE) == set(parts.spans(SOURCE)) - {"Two"}


def test_an_unknown_part_is_answered_with_those_there_are():
    with pytest.raises(
        parts.NoSuchPart, match="no part 'three'; there are the beginning, one, Two, "
    ):
        parts.part(SOURCE, "three")


def test_code_between_functions_is_refused_since_it_would_have_no_name():
    with pytest.raises(parts.NoSuchPart, match="line 5 lies between functions"):
        parts.spans("def one(): pass\n\n\n\nx = 1\n\n\ndef two(): pass\n")
