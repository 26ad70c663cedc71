"""What a broker may say in a record of `$topics`, and what the checks make of the rest."""

import pytest

from zaichik.learn.failure import Failure
from zaichik.learn.stages.s17_following import parsed
from zaichik.learn.wire import Message


def record(payload):
    return parsed(Message(0, b"t", payload))


def test_members_that_are_not_known_are_left_out():
    payload = b'{"epoch": 7, "earlier": 1, "color": "red", "first": 3, "gone": true}'
    assert record(payload) == {"epoch": 7, "earlier": 1, "first": 3, "gone": True}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"7",
        b"\xff",
        b'["epoch", "earlier"]',
        b'"epoch earlier"',
        b'{"earlier": 0, "epoch": 7}',
        b'{"epoch": 7}',
        b"[" * 100_000,
    ],
)
def test_anything_else_is_malformed(payload):
    with pytest.raises(Failure, match="malformed"):
        record(payload)
