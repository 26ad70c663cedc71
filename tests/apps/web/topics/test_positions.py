"""Ids of events: where a reader goes on."""

import pytest

from zaichik.apps.web.topics.positions import Position
from zaichik.apps.web.topics.statuses import Refusal


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position(1767225600000000, 18), "1767225600000000-17"),
        (Position(7, 0), "7--1"),
        (Position(2**64 - 1, 2**64 - 1), "18446744073709551615-18446744073709551614"),
    ],
)
def test_an_id_is_read_as_it_was_written(position, text):
    assert (str(position), Position.of(text)) == (text, position)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "a-1",
        "1-a",
        "-1-1",
        "0-1",
        "1--2",
        "1-1-1",
        "1-1 ",
        "1-1\n",
        "\u0661-\u0661",
        "1-18446744073709551615",
        "18446744073709551616-1",
        "1-" + "9" * 5000,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(Refusal) as caught:
        Position.of(text)
    assert caught.value.status == 400
