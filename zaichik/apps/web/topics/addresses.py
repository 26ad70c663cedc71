"""What a path and a query name, read from the bytes that were sent.

A topic's name may have slashes, which are written `%2F`: a slash of the path itself ends a name. So
paths are split before they are decoded. What does not decode to UTF-8 is refused; the usual
replacement characters would make it the name of another topic. The same goes for a query, in which
every field has one value, and fields that mean nothing here are refused, because most of them are
slips of the pen.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from zaichik.apps.web.topics.statuses import Refusal

MOST_NAME = 1024  # far more than a broker takes
_HALF_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Address:
    """What a path names.

    Attributes:
        topic: a topic.
        name: the name of a position in it; "": none.
    """

    topic: str
    name: str = ""

    @classmethod
    def of(cls, scope: Scope) -> "Address":
        """Returns the address of a request: `/topics/T`, or `/names/N/topics/T`.

        Raises:
            Refusal: there is nothing at this path, or it is not UTF-8.
        """
        parts = [_decoded(part) for part in scope["raw_path"].split(b"/")]
        if max(map(len, parts)) > MOST_NAME:
            raise Refusal("BAD_REQUEST", f"a name has more than {MOST_NAME} characters")
        match parts:
            case ["", "topics", topic] if topic:
                return cls(topic)
            case ["", "names", name, "topics", topic] if topic and name:
                return cls(topic, name)
        raise Refusal(
            "NOT_FOUND",
            "there is nothing here; there are /topics/TOPIC and /names/NAME/topics/TOPIC, in which "
            "a slash within a name is %2F",
        )


def fields_of(scope: Scope, *known: str) -> dict[str, str]:
    """Returns the fields of a query.

    Args:
        scope: of the request.
        known: the names that mean something.

    Raises:
        Refusal: a field has another name, or is there twice, or is not UTF-8.
    """
    found: dict[str, str] = {}
    for pair in scope["query_string"].split(b"&"):
        if not pair:
            continue
        name, _, value = (_decoded(part.replace(b"+", b" ")) for part in pair.partition(b"="))
        if name not in known:
            raise Refusal(
                "BAD_REQUEST", f"there is no {name!r} here; there are {', '.join(known) or 'none'}"
            )
        if name in found:
            raise Refusal("BAD_REQUEST", f"{name} is there twice")
        found[name] = value
    return found


def _decoded(data: bytes) -> str:
    if _HALF_ESCAPE.search(data):
        raise Refusal("BAD_REQUEST", "a percent sign must be followed by two hex digits; write %25")
    try:
        return unquote_to_bytes(data).decode()
    except UnicodeDecodeError:
        raise Refusal("BAD_REQUEST", "a name in the address is not UTF-8") from None
