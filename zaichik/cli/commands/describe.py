"""`zaichik describe`: everything the broker says about itself, or about one topic and its readers.

Without TOPIC: the broker's state and limits, and why connections have ended; with --connections,
every connection. With TOPIC: its settings, what became of its messages, as sums that must add up,
and for each of its subscriptions the position and what it is waiting for: look there first when
messages don't arrive. "needed" is the oldest offset that may still have to be sent to a reader.
Named subscriptions are listed even while their reader is away.

Examples:
  zaichik describe
  zaichik describe orders
  zaichik describe --cluster 10.0.0.1:8900   # all shards of a cluster
  zaichik describe --connections             # the clients that are connected
  zaichik describe orders --json | jq -r '.subscriptions[].waiting_for'
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.base.relative_time import in_words
from zaichik.base.sizes import show_size
from zaichik.cli import connecting, limits, names, screen, topic_settings
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.commands.topics import imbalance, with_readers
from zaichik.cli.quantities import show_time
from zaichik.client.errors import InvalidField

ARGUMENTS = (
    argument("[TOPIC]", "the topic; without it, the broker itself", names.name),
    argument("--connections", "instead: every connection, by the number that `disconnect` takes"),
    connecting.PLACE,
    argument(
        "--json",
        'print one JSON object; for a topic {"topic": ..., "subscriptions": [...]}, for '
        "connections a list",
    ),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Query the broker and show the answer."""
    if arguments.connections:
        await _describe_connections(arguments, console)
    elif arguments.topic is None and arguments.cluster is not None:
        await _describe_shards(arguments, console)
    elif arguments.topic is None:
        async with connecting.connected(arguments, "describe") as client:
            broker = await client.describe()
        screen.print_json(broker) if arguments.json else _show_broker(console, broker)
    else:
        async with connecting.connected(arguments, "describe", arguments.topic) as client:
            topic, readers = await with_readers(client, arguments.topic)
        if arguments.json:
            screen.print_json({"topic": topic, "subscriptions": readers})
            return
        _show_topic(console, topic, away=sum(map(_is_away, readers)))
        for reader in readers:
            console.print()
            _show_reader(console, reader)


async def _describe_shards(arguments: Namespace, console: Console) -> None:
    async with connecting.in_cluster(arguments, "describe") as cluster:
        shards = await cluster.describe()
    if arguments.json:
        screen.print_json(shards)
        return
    for state in shards:
        machine = "nobody has it"
        if state["machine"] is not None:
            machine = f"machine {shown(state['machine'])}"
        pairs: list[screen.Row] = [("at", f"{state['address']}, {machine}")]
        pairs.append(("generation", state["generation"]))
        if state["broker"] is None:
            pairs.append(("away", "it does not answer"))
        else:
            pairs += _load(state["broker"])
        screen.print_rows(console, f"shard {state['shard']}", pairs)


async def _describe_connections(arguments: Namespace, console: Console) -> None:
    if arguments.topic is not None:
        raise WrongUsage("--connections lists those of the whole broker: leave TOPIC out")
    if arguments.cluster is not None:
        raise WrongUsage("--connections lists those of one broker: name it by --connect")
    async with connecting.connected(arguments, "describe") as client:
        with connecting.required(client, "list its connections", InvalidField):
            connections = await client.connections()
    if arguments.json:
        screen.print_json(connections)
        return
    known = ["peer", "client", "subscriptions", "requests"]
    # Without access control, nobody has a name.
    if any(state.get("user") for state in connections):
        known.insert(1, "user")
    lines = []
    for state in connections:
        values = [screen.number(state[name]) for name in known]
        lines.append([str(state["connection"]), *values, show_size(state["reply_bytes"])])
    names = ("connection", *known, "replies")
    screen.print_columns(console, names, lines, right=set(names) - {"peer", "user", "client"})


def _disk(state: dict[str, Any]) -> Iterator[screen.Row]:
    """Returns what a durable topic has on the disk."""
    if "log_bytes" in state:
        yield (
            "on the disk",
            f"{show_size(state['log_bytes'])}, {show_size(state['waiting_bytes'])} waiting for it",
        )
        if "log_live_bytes" in state:
            live = show_size(state["log_live_bytes"])
            bound = show_size(state["log_bound_bytes"])
            yield "live in the log", f"{live}; above {bound}, rewriting comes before writing"
        if state["damage"]:
            yield "damage", shown(state["damage"])


def _keys(state: dict[str, Any]) -> Iterator[screen.Row]:
    """Returns what a table holds, and what of it is gone."""
    yield "keys", f"{state['keys']:,}, and {counted(state['tombstones'], 'tombstone')}"
    if state["deleted_below"]:
        yield "deletions", f"tombstones below offset {state['deleted_below']:,} are gone (TAB-5)"


def _clock(state: dict[str, Any]) -> Iterator[screen.Row]:
    """Returns what is wrong with the machine's clock, or was."""
    for at_us, by_us in state.get("clock_jumps", ()):
        yield "clock", f"set forward by {in_words(by_us)}, noticed {show_time(at_us)}"
    ahead_us = state.get("clock_ahead_us")
    if ahead_us:
        yield "clock", f"at the start {in_words(ahead_us)} ahead of the machine's (DUR-8)"


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
        yield (
            "users, rules",
            f"not what their files say, since {show_time(since)}: the log tells why",
        )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in counts.items())


def _show_broker(console: Console, state: dict[str, Any]) -> None:
    pairs: list[screen.Row] = [("boot", str(state["boot"])), ("time", show_time(state["now_us"]))]
    if user := state.get("user"):
        pairs.append(("you", user))
    pairs += _clock(state)
    pairs += _load(state)
    screen.print_rows(console, state["name"], pairs)
    if state["limits"] or state["topic_defaults"]:  # other people's brokers may tell none
        console.print()
        screen.print_table(console, limits.table(state["limits"], state["topic_defaults"]))


def _is_away(subscription: dict[str, Any]) -> bool:
    """Returns whether it is a name whose reader is away. A shared one is not: it has no reader."""
    return not subscription["connection"] and "shared" not in subscription


def _show_reader(console: Console, state: dict[str, Any]) -> None:
    if "shared" in state:
        _show_shared_name(console, state)
    elif "worker" in state:
        _show_worker(console, state)
    elif _is_away(state):
        _show_away(console, state)
    else:
        _show_subscription(console, state)


def _show_topic(console: Console, state: dict[str, Any], *, away: int) -> None:
    n = {name: f"{value:,}" for name, value in state.items() if isinstance(value, int)}
    held = f"offsets {n['head']} to {state['next_offset'] - 1:,}, {show_size(state['bytes'])}"
    how = "explicitly" if state["explicit"] else "on first use"
    stored = f"resident {n['resident']} + expired {n['expired']} + evicted {n['evicted']}"
    is_table = state["settings"].get("table")
    if is_table:
        stored += f" + superseded {n['superseded']}"
    if state.get("damaged"):
        stored += f" + damaged {n['damaged']}"
    needed = "nothing now"
    if state["needed"] < state["next_offset"]:
        needed = f"offset {n['needed']} and what follows"
    subscriptions = n["subscriptions"]
    if away:
        subscriptions += f", and {away:,} whose reader is away"
    pairs: list[screen.Row] = [
        ("created", f"{show_time(state['epoch'])}, {how}"),
        ("holds", held if state["resident"] else "nothing now"),
        ("next offset", state["next_offset"]),
        ("needed", needed),
        ("published", f"{n['published']} = stored {n['stored']} + compacted {n['compacted']}"),
        ("stored", f"{n['stored']} = {stored}"),
    ]
    if state.get("refused"):
        pairs.append(
            (
                "refused",
                f"{counted(state['refused'], 'batch', 'batches')}, because the topic was full",
            )
        )
    if is_table:
        pairs += _keys(state)
    else:
        pairs.append(("open windows", f"{n['open_windows']}, forgotten {n['forgotten_windows']}"))
    pairs += _disk(state)
    pairs.append(("subscriptions", subscriptions))
    pairs += topic_settings.rows(state["settings"])
    screen.print_rows(console, f"topic {shown(state['name'])}", pairs)
    _show_imbalance(console, state)


def _show_subscription(console: Console, state: dict[str, Any]) -> None:
    n = {name: f"{value:,}" for name, value in state.items() if isinstance(value, int)}
    passed = state.get("passed", 0)
    due = state["delivered"] + state["skipped"] + passed + state["ahead"]
    sizes = f"{show_size(state['in_flight_bytes'])} of {show_size(state['credit_bytes'])}"
    until = screen.number(state["until"])
    parts = f"delivered {n['delivered']} + skipped {n['skipped']}"
    if passed:
        parts += f" + passed {passed:,}"
    parts += f" + ahead {n['ahead']}"
    pairs: list[screen.Row] = [
        ("waiting for", state["waiting_for"]),
        ("position", f"committed {n['committed']}, cursor {n['cursor']}, until {until}"),
        ("in flight", f"{n['in_flight']} of {counted(state['credit'], 'message')}, {sizes}"),
        (f"since {n['start']}", f"{due:,} = {parts}"),
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


def _show_shared_name(console: Console, state: dict[str, Any]) -> None:
    shared = state["shared"]
    places = ("with_workers", "ready", "delayed", "blocked", "absent")
    there = [f"{name.replace('_', ' ')} {shared[name]:,}" for name in places if shared[name]]
    fates = {name: shared[name] for name in ("done", "dead", "open")}
    fates["skipped"] = state["skipped"]
    rare = {"passed": state["passed"], "forgotten": shared["forgotten"]}
    fates |= {name: count for name, count in rare.items() if count}
    due = state["cursor"] - state["start"]
    pairs: list[screen.Row] = [
        ("waiting for", state["waiting_for"]),
        ("position", f"first not settled {state['committed']:,}, next {state['cursor']:,}"),
        ("open", ", ".join(there) or "nothing"),
        (f"since {state['start']:,}", f"{due:,} = {_sum(fates)}"),
        ("to hand out", state["lag"]),
    ]
    if shared["oldest_us"] is not None:
        pairs.insert(3, ("oldest", f"with a worker since {show_time(shared['oldest_us'])}"))
    if shared["due_us"] is not None:
        pairs.insert(3, ("comes again", show_time(shared["due_us"])))
    workers = counted(shared["workers"], "worker")
    title = f"shared name {_named(state)}: {workers}, {shared['dead']:,} dead"
    screen.print_rows(console, title, pairs)
    _show_imbalance(console, state)


def _named(state: dict[str, Any]) -> str:
    """Returns the shared name of a row, and its user: two users may choose the same name."""
    name = shown(state["session"])
    if state["user"]:
        return f"{name} of user {shown(state['user'])}"
    return name


def _sum(parts: dict[str, int]) -> str:
    return " + ".join(f"{name} {count:,}" for name, count in parts.items())


def _show_worker(console: Console, state: dict[str, Any]) -> None:
    worker = state["worker"]
    has = f"{worker['has']:,} of {counted(state['credit'], 'message')}"
    if worker["overdue"]:
        has += f", and {worker['overdue']:,} overdue"
    if worker["since_us"] is not None:
        has += f", since {show_time(worker['since_us'])}"
    timeout = "none"
    if worker["timeout_us"]:
        timeout = in_words(worker["timeout_us"])
    pairs: list[screen.Row] = [
        ("waiting for", state["waiting_for"]),
        ("has", has),
        ("time-out", timeout),
        ("handed out", state["delivered"]),
    ]
    who = shown(state["client"]) or "a client without a name"
    title = f"worker {state['connection']}.{state['id']} of {_named(state)}: {who}"
    screen.print_rows(console, title, pairs)


def _show_imbalance(console: Console, state: dict[str, Any]) -> None:
    if sentence := imbalance(state):
        screen.say(console, f"!! {sentence}", "bold red")
