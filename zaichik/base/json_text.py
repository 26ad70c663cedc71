"""JSON that anybody may have written: whatever is wrong with a text is one exception.

The parser of the standard library recurses, and so does everything that shows, compares or copies
what it returns. A text of a few KiB that is nested deeply enough ends in a `RecursionError`, in the
parser or much later. So what is nested more deeply than anything of ours is refused here.
"""

import json
from typing import Any

DEEPEST = 32  # values inside each other; ours have 6


class NotJson(ValueError):
    """A text is not JSON, or not such as zaichik writes. The message says why."""


def parsed(text: str | bytes) -> Any:
    """Returns the value that is written in a text.

    Raises:
        NotJson: it is not JSON, is nested too deeply, or has a number with too many digits.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    if _depth(value) > DEEPEST:
        raise NotJson("it is nested too deeply")
    return value


def parsed_object(text: str | bytes) -> dict[str, Any]:
    """Returns the object that is written in a text.

    Raises:
        NotJson: see `parsed`; or it is another value than an object.
    """
    value = parsed(text)
    if not isinstance(value, dict):
        raise NotJson("it is not an object")
    return value


def _depth(value: Any) -> int:
    """Returns how deeply values are nested, counting no further than necessary."""
    depth = 0
    level: list[Any] = [value]
    while level and depth <= DEEPEST:
        depth += 1
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside.extend(each.values())
            elif isinstance(each, list):
                inside.extend(each)
        level = inside
    return depth
