"""The topic of a work queue: made so that it loses no job, or else what it can lose (SHR-9)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from zaichik.base.escapes import shown
from zaichik.client.client import Client
from zaichik.client.errors import Forbidden, TopicExists, Unsupported
from zaichik_protocol import FOREVER, Overflow

CREATE_ADVICE = (
    "A topic that loses none: zaichik create NAME --durable --retention forever --overflow reject"
)
SERVE_ADVICE = "A broker with a folder keeps them: zaichik serve --data DIR"


async def prepare(client: Client, topic: str) -> str:
    """Make the topic, unless it is there: lossless, kept for ever, durable if the broker can.

    Returns:
        What is to be said of a topic that can lose jobs; "" if it loses none.
    """
    state = await client.topic(topic)
    if state is not None:
        return _warning(topic, list(losses(state["settings"])))
    try:
        created = await _create(client, topic)
    # It is there, and this user may not see it; or subscribing will say what is wrong.
    except (Forbidden, TopicExists):
        return (
            f"{shown(topic)}: this user has no right to describe it, so whether it can lose jobs "
            "is unknown"
        )
    # It is as good as this broker can make it.
    return _warning(topic, list(losses(created)), SERVE_ADVICE)


async def _create(client: Client, topic: str) -> dict[str, int]:
    """Returns the settings of a new topic."""
    create = partial(client.create_topic, topic, retention_ttl="forever", overflow="reject")
    try:
        created = await create(durable=True)
    # The broker has no folder for durable topics.
    except Unsupported:
        created = await create()
    return created.settings


def losses(settings: dict[str, Any]) -> Iterator[str]:
    """Yields, for each way in which a topic with these settings can lose a job, a sentence."""
    retention_ms = settings["retention_ttl_ms"]
    if not retention_ms:
        yield "what is published before the first worker comes is not kept"
    elif retention_ms != FOREVER:
        yield "a message expires when its retention is over, worked on or not"
    if settings.get("table"):
        yield "a later message of the same key takes the place of one that waits"
    elif settings["overflow"] != Overflow.REJECT:
        yield "when it is full, the oldest messages are evicted"
    if settings["compaction_window_ms"]:
        yield "of the messages of a key in a compaction window, only the first is kept"
    if not settings.get("durable"):
        yield "a restart of the broker loses everything"


def _warning(topic: str, can_lose: list[str], advice: str = CREATE_ADVICE) -> str:
    if not can_lose:
        return ""
    return f"{shown(topic)} can lose jobs: {'; '.join(can_lose)}. {advice}"
