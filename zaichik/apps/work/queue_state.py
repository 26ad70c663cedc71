"""The state of a work queue, as the broker describes it: what is left, and what hinders.

One message may hold the log: in a topic that evicts nothing, what comes after a message that is
dead, or waits, is kept as long as that one is (SHR-5). So it is named before the topic is full.
"""

from typing import Any, NamedTuple

from zaichik.base.escapes import shown
from zaichik.client.client import Client
from zaichik.client.errors import ZaichikError
from zaichik_protocol import Kind, Overflow

HALF = 0.5  # of a topic's room: from then on, what holds its log is named

# Something has to be done about these; the others end by themselves.
_SERIOUS = {"too_many_dead", "too_many_delayed", "too_many_open", "hot_key"}


class QueueState(NamedTuple):
    """What is left to do for the workers of a name.

    Attributes:
        left: messages that are open, or were not handed out yet.
        running: those of them that workers have.
        deaths: messages that have died so far, but those that were revived.
        waits_for: what has to happen before the next is handed out, in words.
        is_serious: whether somebody has to do something about that.
        is_stuck: whether nothing more will be handed out, because too many are dead.
    """

    left: int
    running: int
    deaths: int
    waits_for: str
    is_serious: bool
    is_stuck: bool


async def user_of(client: Client) -> str:
    """Returns the user that the client has logged in as; "" without access control."""
    state = await client.describe()
    return str(state["user"])


async def state_of(client: Client, topic: str, name: str, user: str = "") -> QueueState | None:
    """Returns the state of a shared name of that user; None if there is no such name."""
    row = await _row(client, topic, name, user)
    if row is None:
        return None
    shared = row["shared"]
    code = row["waiting_for_code"]
    return QueueState(
        left=shared["open"] + row["ahead"],
        running=shared["with_workers"],
        deaths=shared["dead"] + shared["forgotten"],
        waits_for=row["waiting_for"],
        is_serious=code in _SERIOUS,
        is_stuck=code == "too_many_dead" and not shared["with_workers"],
    )


async def _row(client: Client, topic: str, name: str, user: str) -> dict[str, Any] | None:
    # How it is called among those of the topic: see `docs/use/describe.md`. Rows whose names begin
    # with it follow it: if it is there, it is the first.
    wanted = f"{topic}#away.{name}.{len(topic)}"
    if user:
        wanted += f".{user}"
    page, _ = await client.describe_page(Kind.SUBSCRIPTIONS, wanted, limit=1)
    for row in page["subscriptions"]:
        if row["name"] == wanted and "shared" in row:
            found: dict[str, Any] = row
            return found
    return None


async def what_holds(client: Client, topic: str, name: str, user: str = "") -> str:
    """Returns which message holds the log of a topic that is half full, and why.

    "" if none does, but only a long queue; or if it is held by another name, or this user may not
    know.
    """
    row = await _row(client, topic, name, user)
    state = await client.topic(topic)
    if row is None or state is None or state["needed"] != row["committed"]:
        return ""
    if _part_held(state) < HALF:
        return ""
    offset = state["needed"]
    try:
        explained = await client.explain(topic, offset=offset, subscription=name)
    # It was settled meanwhile, or nobody may ask.
    except ZaichikError:
        return ""
    for verdict in explained["verdicts"]:
        evidence = verdict["evidence"]
        holds = verdict["fate"] in {"dead", "waits_until"} or evidence.get("is_suspect")
        is_ours = evidence.get("name") == name and evidence.get("user", "") == user
        if holds and is_ours:
            return (
                f"{shown(topic)} is half full or more, and offset {offset} holds all that comes "
                f"after it: {verdict['text']}"
            )
    return ""


def _part_held(topic: dict[str, Any]) -> float:
    """Returns which part of a topic's room is needed, from 0 to 1; 0 if it evicts instead."""
    settings = topic["settings"]
    if settings["overflow"] != Overflow.REJECT or not topic["resident"]:
        return 0.0
    held = topic["next_offset"] - topic["needed"]
    # What is not needed makes room for what comes.
    part = min(held / topic["resident"], 1.0)
    if settings.get("durable"):
        return float(part * topic["log_bytes"] / settings["log_bytes"])
    return float(max(held / settings["capacity"], part * topic["bytes"] / settings["max_bytes"]))
