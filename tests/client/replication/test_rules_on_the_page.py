"""The rules for acknowledgements that docs/run/security.md recommends."""

import re
from pathlib import Path

import pytest

from zaichik.server.access.rules import Rules

PAGE = Path(__file__).parents[3] / "docs" / "run" / "security.md"


@pytest.fixture(scope="module")
def rules():
    section = PAGE.read_text("utf-8").partition("### Acknowledgements of a bridge")[2]
    text = re.search(r"```text\n(.*?)```", section, re.DOTALL)[1]
    # What a careless operator has in the file besides.
    return Rules.parse(f"{text}allow all *\n".encode())


@pytest.mark.parametrize("action", ["publish", "create", "delete"])
def test_nobody_but_the_bridge_may_say_what_is_replicated(rules, action):
    """AK-1."""
    assert not rules.of("ana").may(action, "replicated/orders")


def test_the_bridge_may_and_others_may_wait_for_it(rules):
    assert rules.of("bridge").may("publish", "replicated/orders")
    assert rules.of("bridge").may("create", "replicated/orders")
    for action, topic in [
        ("publish", "orders"),
        ("describe", "orders"),
        ("subscribe", "replicated/orders"),
    ]:
        assert rules.of("ana").may(action, topic)
