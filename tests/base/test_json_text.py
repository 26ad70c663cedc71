"""JSON of anybody: there is a value, or one exception."""

import pytest

from zaichik.base.json_text import DEEPEST, NotJson, parsed, parsed_object


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null, "x"]}', b'{"a": [1, 2.5, null, "x"]}'])
def test_what_is_json_is_its_value(text):
    assert parsed(text) == parsed_object(text) == {"a": [1, 2.5, None, "x"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '["a"]["a"]',
        b"\xff\xfe\xff",
        "9" * 5000,
        "[" * 100_000,
        "[" * 100_000 + "1" + "]" * 100_000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "[" * DEEPEST + "1" + "]" * DEEPEST,
    ],
    ids=lambda text: f"{text[:12]!r} {len(text)}",
)
def test_what_is_none_or_too_deep_is_one_exception(text):
    with pytest.raises(NotJson):
        parsed(text)


def test_as_deep_as_allowed_is_a_value():
    text = "[" * (DEEPEST - 1) + "1" + "]" * (DEEPEST - 1)
    assert str(parsed(text)) == text


@pytest.mark.parametrize("text", ["[]", "1", "null", '"a"'])
def test_what_is_no_object_is_said_to_be_none(text):
    with pytest.raises(NotJson, match="not an object"):
        parsed_object(text)
