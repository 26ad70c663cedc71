"""What belongs to an item is four columns further in, and nothing else has moved."""

import pytest

from docs.site.book import AS_ON_THE_HOST
from docs.site.lists import indented


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- one\n- two", "- one\n- two"),
        ("- one\n  goes on", "- one\n    goes on"),
        ("- one\ngoes on", "- one\n    goes on"),
        ("- one\n\n  another paragraph", "- one\n\n    another paragraph"),
        ("- one\n  - inside\n    goes on", "- one\n    - inside\n        goes on"),
        ("1. one\n   | a | b |", "1. one\n    | a | b |"),
        ("10. ten\n    goes on", "10. ten\n    goes on"),
        ("- one\n  ```\n  a:\n    b\n  ```", "- one\n    ```\n    a:\n      b\n    ```"),
        ("text\n  goes on", "text\n  goes on"),
        ("```\n- no list\n  of course\n```", "```\n- no list\n  of course\n```"),
    ],
)
def test_an_item_is_indented(before, after):
    assert indented(before, AS_ON_THE_HOST) == after
