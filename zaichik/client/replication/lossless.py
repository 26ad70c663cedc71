"""Which topics can be acknowledged after replication: those that lose nothing before it (AK-1).

A topic waits for its bridge only if it refuses new messages rather than evict what the bridge has
not read, and if nothing expires meanwhile (RET-9). In any other topic a message may be gone before
the bridge comes to it.
"""

# Not compiled: it is used once for each topic.

from collections.abc import Mapping
from typing import Any

from zaichik.client.errors import NoSuchTopic, NotLossless
from zaichik_protocol import FOREVER, Error, ErrorCode, Overflow, Subscribe

ADVICE = (
    "create it with overflow='reject' and retention_ttl='forever' (zaichik create TOPIC --overflow "
    "reject --retention forever)"
)


def check_lossless(topic: str, state: Mapping[str, Any] | None) -> None:
    """Refuse a topic that may lose messages before they are replicated.

    Args:
        topic: its name.
        state: as `Client.topic` has described it.

    Raises:
        NotLossless: see above.
        NoSuchTopic: it is not there, or this user may not see it described.
    """
    if state is None:
        raise no_such_topic(topic)
    settings = state["settings"]
    problem = ""
    if settings.get("table"):
        problem = "it is a table, in which newer messages supersede older ones"
    elif settings["overflow"] != Overflow.REJECT:
        problem = "it evicts messages that its bridge has not read yet"
    elif settings["retention_ttl_ms"] != FOREVER:
        problem = "its messages expire, whether or not its bridge has read them"
    if problem:
        raise NotLossless(
            f"messages of {topic} cannot be acknowledged after replication, for {problem}; {ADVICE}"
        )


def no_such_topic(topic: str) -> NoSuchTopic:
    """Returns the error for a topic that is not there."""
    problem = (
        f"there is no topic {topic!r} that this user may see described, and a topic that is made "
        f"by its first message is not lossless; {ADVICE}"
    )
    return NoSuchTopic(Error(0, ErrorCode.NO_SUCH_TOPIC, Subscribe.TYPE, "topic", 0, problem))
