"""`zaichik describe`: everything the broker says about itself, or about one topic and its readers.

Without TOPIC: the broker's state and limits, and why connections have ended; with --connections, every connection. With
TOPIC: its settings, what became of its messages, as sums that must add up, and for each of its subscriptions the
position and what it is waiting for: look there first when messages don't arrive. "needed" is the oldest offset that may
still have to be sent to a reader. Named subscriptions are listed even while their reader is away.

Examples:
  zaichik describe
  zaichik describe orders
  zaichik describe --connections             # the clients that are connected
  zaichik describe orders --json | jq -r '.subscriptions[].waiting_for'
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from zaichik.client.errors import InvalidField
from zaichik.console import connecting, limits, names, screen, topic_settings
from zaichik.console.arguments import Namespace, WrongUsage, argument
from zaichik.console.quantities import show_size, show_time
from zaichik.console.topics import imbalance, with_readers
from zaichik.escapes import shown

ARGUMENTS = (
    argument("[TOPIC]", "the topic; without it, the broker itself", names.name),
    argument("--connections", "instead: every connection, by the number that `disconnect` takes"),
    connecting.ADDRESS,
    argument(
        "--json", 'print one JSON object; for a topic {"topic": ..., "subscriptions": [...]}, for connections a list'
    ),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Query the broker and show the answer."""
    if arguments.connections:
        await _describe_connections(arguments, console)
    elif arguments.topic is None:
        async with connecting.connected(arguments, "describe") as client:
            broker = await client.describe()
        screen.print_json(broker) if arguments.json else _show_broker(console, broker)
    else:
        async with connecting.connected(arguments, "describe") as client:
            topic, readers = await with_readers(client, arguments.topic)
        if arguments.json:
            screen.print_json({"topic": topic, "subscriptions": readers})
            return
        _show_topic(console, topic, away=sum(not _is_there(reader) for reader in readers))
        for reader in readers:
            console.print()
            _show_subscription(console, reader) if _is_there(reader) else _show_away(console, reader)


async def _describe_connections(arguments: Namespace, console: Console) -> None:
    if arguments.topic is not None:
        raise WrongUsage("--connections lists those of the whole broker: leave TOPIC out")
    async with connecting.connected(arguments, "describe") as client:
        with connecting.required(client, "list its connections", InvalidField):
            connections = await client.connections()
    if arguments.json:
        screen.print_json(connections)
        return
    has_users = any(state.get("user") for state in connections)
    known = ("peer", *(["user"] if has_users else []), "client", "subscriptions", "requests")
    lines = (
        [str(state["connection"]), *(screen.number(state[name]) for name in known), show_size(state["reply_bytes"])]
        for state in connections
    )
    names = ("connection", *known, "replies")
    screen.print_columns(console, names, lines, right=set(names) - {"peer", "user", "client"})


def _disk(state: dict[str, Any]) -> Iterator[screen.Row]:
    """Returns what a durable topic has on the disk."""
    if "log_bytes" in state:
        yield "on the disk", f"{show_size(state['log_bytes'])}, {show_size(state['waiting_bytes'])} waiting for it"
        if state["damage"]:
            yield "damage", shown(state["damage"])


def _load(state: dict[str, Any]) -> Iterator[screen.Row]:
    """Returns what a broker has to do; nothing if that is not for this user to know."""
    if "connections" not in state:
        return
    for name in ("connections", "subscriptions", "topics", "producers", "sessions"):
        yield name, state[name]
    yield "bytes", show_size(state["bytes"])
    if "disk_bytes" in state:
        yield "on the disk", show_size(state["disk_bytes"])
        if (slow_us := state["sync_p99_us"]) is not None:
            yield "sync, p99", f"{slow_us / 1000:,.1f} ms"
    yield "disconnects", _counts(state["disconnects"]) or "none yet"
    access = dict(state.get("access", {}))
    since = access.pop("stale_since_us", None)
    if access:
        yield "access", _counts(access)
    if since:
        yield "users, rules", f"not what their files say, since {show_time(since)}: the log tells why"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in counts.items())


def _show_broker(console: Console, state: dict[str, Any]) -> None:
    pairs: list[screen.Row] = [("boot", str(state["boot"])), ("time", show_time(state["now_us"]))]
    if user := state.get("user"):
        pairs.append(("you", user))
    pairs += _load(state)
    screen.print_rows(console, state["name"], pairs)
    console.print()
    screen.print_table(console, limits.table(state["limits"], state["topic_defaults"]))


def _is_there(subscription: dict[str, Any]) -> bool:
    """Returns whether the subscription has a reader; if not, it is a name whose reader is away."""
    return bool(subscription["connection"])


def _show_topic(console: Console, state: dict[str, Any], *, away: int) -> None:
    n = {name: f"{value:,}" for name, value in state.items() if isinstance(value, int)}
    held = f"offsets {n['head']} to {state['next_offset'] - 1:,}, {show_size(state['bytes'])}"
    given_up = f" + damaged {n['damaged']}" if state.get("damaged") else ""
    stored = f"{n['stored']} = resident {n['resident']} + expired {n['expired']} + evicted {n['evicted']}{given_up}"
    needed = f"offset {n['needed']} and what follows" if state["needed"] < state["next_offset"] else "nothing now"
    pairs: list[screen.Row] = [
        ("created", f"{show_time(state['epoch'])}, {'explicitly' if state['explicit'] else 'on first use'}"),
        ("holds", held if state["resident"] else "nothing now"),
        ("next offset", state["next_offset"]),
        ("needed", needed),
        ("published", f"{n['published']} = stored {n['stored']} + compacted {n['compacted']}"),
        ("stored", stored),
        *([("refused", f"{n['refused']} batches, because the topic was full")] if state.get("refused") else []),
        ("open windows", f"{n['open_windows']}, forgotten {n['forgotten_windows']}"),
        *_disk(state),
        ("subscriptions", n["subscriptions"] + (f", and {away:,} whose reader is away" if away else "")),
    ]
    screen.print_rows(console, f"topic {shown(state['name'])}", pairs + topic_settings.rows(state["settings"]))
    _show_imbalance(console, state)


def _show_subscription(console: Console, state: dict[str, Any]) -> None:
    n = {name: f"{value:,}" for name, value in state.items() if isinstance(value, int)}
    due = state["delivered"] + state["skipped"] + state["ahead"]
    sizes = f"{show_size(state['in_flight_bytes'])} of {show_size(state['credit_bytes'])}"
    pairs: list[screen.Row] = [
        ("waiting for", state["waiting_for"]),
        ("position", f"committed {n['committed']}, cursor {n['cursor']}, until {screen.number(state['until'])}"),
        ("in flight", f"{n['in_flight']} of {n['credit']} messages, {sizes}"),
        (f"since {n['start']}", f"{due:,} = delivered {n['delivered']} + skipped {n['skipped']} + ahead {n['ahead']}"),
    ]
    if state["session"]:
        pairs.insert(0, ("session", shown(state["session"])))
    who = shown(state["client"]) or "a client without a name"
    title = f"subscription {state['id']} of connection {state['connection']}: {who}"
    screen.print_rows(console, title, pairs)
    _show_imbalance(console, state)


def _show_away(console: Console, state: dict[str, Any]) -> None:
    pairs: list[screen.Row] = [
        ("waiting for", state["waiting_for"]),
        ("position", f"committed {state['committed']:,}"),
        ("redelivers", f"{state['delivered']:,}, delivered before and not settled"),
        ("ahead", state["ahead"]),
    ]
    screen.print_rows(console, f"subscription {shown(state['session'])}", pairs)


def _show_imbalance(console: Console, state: dict[str, Any]) -> None:
    if sentence := imbalance(state):
        screen.say(console, f"!! {sentence}", "bold red")
