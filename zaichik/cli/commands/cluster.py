r"""`zaichik cluster`: spreads topics over several brokers, the shards of a cluster.

A shard is a broker with a folder, at a fixed port: shard N at the first port plus N. A topic
belongs to the shard that its name's hash says, for ever. `serve` runs shards on this machine. A
cluster of several machines needs ZooKeeper, which decides who has which shard; on one machine, a
file in the folder does. Without an action, the command shows which shard is where, and since when.

`check` lists topics that are where their name's hash does not say; the exit code is 1 if there are
any, or a shard does not answer. `restore N` places a shard whose machine is lost on this one, with
its folder: a copy of it, or made again of those of its topics that `zaichik bridge` has copied to
topics of the same names in Kafka.

SIGTERM stops a node and its brokers with exit code 0, Ctrl-C with 130; however it ends, its brokers
end, too. SIGHUP has the brokers read the files of --access again.

Examples:
  zaichik cluster serve --data ./shards --shards 8     # on this machine alone
  zaichik cluster                                      # which shard is where
  zaichik cluster serve --zookeeper zk-1,zk-2,zk-3/zaichik --create-path \
      --machine a --data ./shards --shards 8 --most 4 --host 10.0.0.1
  zaichik cluster serve --config node.toml             # machine = "a", ...
  zaichik cluster check --connect 10.0.0.1:8900
  zaichik cluster restore 3 --from ./copy-of-shard-3 --config node.toml
  zaichik cluster restore 3 orders mails --from kafka://kafka-1,kafka-2 \
      --config node.toml
"""

import logging
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import anyio
from rich.console import Console

from zaichik.base.calendar_time import calendar_time
from zaichik.base.clock import SystemClock
from zaichik.base.counted import counted
from zaichik.base.extras import getting
from zaichik.cli import (
    arguments as declaring,
)
from zaichik.cli import (
    cluster_settings,
    connecting,
    default_ports,
    front_end,
    quantities,
    screen,
    until_stdin_closes,
)
from zaichik.cli.arguments import Namespace, WrongUsage, argument, group
from zaichik.cli.failure import Failure, restated
from zaichik.client import logins
from zaichik.client.endpoint import Endpoint, NotAnAddress, endpoint

if TYPE_CHECKING:
    from zaichik.apps.cluster.broker_process import LogLine
    from zaichik.apps.cluster.folder import Folder
    from zaichik.apps.cluster.node import Node, Ready, RunningEngine

PROTOCOL = "a cluster"
MISSING = f"zaichik cluster --zookeeper needs kazoo; get it with {getting('cluster')}"
MOST_PORT = 65_535
RELAYED = "zaichik.cluster.broker"  # the logger whose records are lines of brokers
HOST_NAME = re.compile(r"[\w.-]+")
EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104
CONNECTED_S = 20.0  # for ZooKeeper to answer a command that does not stay
# What a node says to its brokers itself.
OWN_OPTIONS = {"--port", "--host", "--data", "--json", "--access", "--init-access", "--clock"}


def _broker(text: str) -> Endpoint:
    """Returns the broker to ask: as everywhere, but shard 0 here if nothing says otherwise."""
    if text is connecting.NOT_GIVEN and not environ.get(logins.VARIABLE) and not logins.kept():
        return endpoint(f"127.0.0.1:{default_ports.CLUSTER}")
    return connecting.chosen_address(text)


ARGUMENTS = (
    argument(
        "[WORDS...]",
        "serve, check, or restore, a shard's number, and from Kafka its topics",
        metavar="ACTION",
    ),
    argument("--json", "print JSON: of a cluster, one object; of a node, one when it serves"),
    argument(
        "--connect ADDRESS",
        "the broker of a shard; any of them (default: the environment variable "
        f"{logins.VARIABLE}, else where `zaichik login` has logged in, else "
        f"127.0.0.1:{default_ports.CLUSTER})",
        _broker,
        default=connecting.NOT_GIVEN,
    ),
    argument("--from PLACE", "restore: a folder, or kafka://HOST:PORT,...", dest="source"),
    group(
        "of a node, for serve and restore",
        cluster_settings.CONFIG,
        *(setting.option for setting in cluster_settings.SETTINGS),
        until_stdin_closes.OPTION,
    ),
)


async def run(arguments: Namespace, console: Console) -> int | None:
    """Do what the words say."""
    match arguments.words:
        case []:
            _check_options(arguments, "zaichik cluster")
            return await _show(arguments, console)
        case ["check"]:
            _check_options(arguments, "zaichik cluster check")
            return await _check(arguments, console)
        case ["serve"]:
            _check_source(arguments, "zaichik cluster serve")
            settings = cluster_settings.completed(arguments)
            return await front_end.run(PROTOCOL, _serve, settings, console)
        case ["restore", number, *topics]:
            settings = cluster_settings.completed(arguments)
            return await _restore(quantities.natural(number), topics, settings, console)
    raise WrongUsage("write serve, check, restore N, or nothing")


def _check_options(arguments: Namespace, command: str) -> None:
    given = cluster_settings.given(arguments)
    if given or arguments.config is not None:
        name = given[0] if given else "config"
        raise WrongUsage(f"--{name} is of `zaichik cluster serve`, and not of `{command}`")
    _check_source(arguments, command)


def _check_source(arguments: Namespace, command: str) -> None:
    if arguments.source is not None:
        raise WrongUsage(f"--from is of `zaichik cluster restore`, and not of `{command}`")


# -- looking at a cluster --------------------------------------------------------------------------


async def _show(arguments: Namespace, console: Console) -> int:
    from zaichik.apps.cluster import looking

    with restated(looking.NoCluster):
        cluster_map = await looking.map_at(arguments.connect)
    seen = await looking.ask_all(cluster_map, arguments.connect)
    rows = [
        {
            "shard": number,
            "machine": shard.machine,
            "address": shard.address,
            "generation": shard.generation,
            "since_us": shard.since_us,
            "topics": None if found.topics is None else len(found.topics),
            "problem": found.problem,
        }
        for number, (shard, found) in enumerate(zip(cluster_map.shards, seen, strict=True))
    ]
    if arguments.json:
        screen.print_json({"features": cluster_map.features, "shards": rows})
        return 0
    names = ("shard", "machine", "address", "since", "topics")
    screen.print_columns(console, names, map(_row, rows), {"shard", "topics"})
    return 0


def _row(row: dict[str, Any]) -> list[str]:
    since = "-"
    if row["since_us"] and calendar_time(row["since_us"]) is not None:
        since = quantities.show_time(row["since_us"], "seconds", with_offset=False)
    topics = "no answer"
    if row["topics"] is not None:
        topics = screen.number(row["topics"])
    return [str(row["shard"]), row["machine"] or "-", row["address"] or "-", since, topics]


async def _check(arguments: Namespace, console: Console) -> int:
    from zaichik.apps.cluster import looking

    with restated(looking.NoCluster):
        cluster_map = await looking.map_at(arguments.connect)
    shards = len(cluster_map.shards)
    seen = await looking.ask_all(cluster_map, arguments.connect)
    silent = {shard: found.problem for shard, found in enumerate(seen) if found.topics is None}
    misplaced = [
        {"topic": topic, "shard": shard, "belongs": home}
        for shard, found in enumerate(seen)
        for topic, home in looking.misplaced(found.topics or (), shard, shards)
    ]
    topics = sum(len(found.topics or ()) for found in seen)
    if arguments.json:
        screen.print_json({"topics": topics, "misplaced": misplaced, "silent": silent})
        return int(bool(silent or misplaced))
    for shard, problem in silent.items():
        screen.say(console, f"shard {shard} does not answer: {problem}", "yellow")
    for wrong in misplaced:
        screen.say(
            console,
            f"topic {wrong['topic']} is at shard {wrong['shard']}, and belongs to shard "
            f"{wrong['belongs']}, where clients of the cluster look for it",
            "yellow",
        )
    if not silent and not misplaced:
        screen.say(console, f"all of {counted(topics, 'topic')} are where their names say")
    return int(bool(silent or misplaced))


# -- a node ----------------------------------------------------------------------------------------


async def _serve(settings: Namespace, console: Console) -> None:
    from zaichik.apps.cluster.coordinator import NameTaken
    from zaichik.apps.cluster.engine import Denied
    from zaichik.apps.cluster.folder import UnusableFolder
    from zaichik.apps.cluster.records import Incompatible

    _check_brokers_options(settings)
    _check_login(settings)
    engine = _engine(settings)
    refusals = NameTaken, Denied, UnusableFolder, Incompatible
    with restated(*refusals):
        folder = _folder(settings)
        try:
            with _relayed(settings.log_format == "json") as log_line:
                node = _node(settings, engine, folder, log_line)

                async def run() -> None:
                    with restated(*refusals):
                        await node.run(partial(_announce, settings, console))

                async with front_end.until_stopped(settings, node.hang_up) as tasks:
                    tasks.start_soon(run)
        finally:
            folder.close()


def _check_brokers_options(settings: Namespace) -> None:
    """Check what every broker would refuse, and end with; it would be started again and again."""
    from zaichik.cli.commands import serve
    from zaichik.cli.main import OneLineParser

    own = OWN_OPTIONS & {word.partition("=")[0] for word in settings.broker_options}
    if own:
        raise WrongUsage(f"--broker-options: {min(own)} is said by the node itself")
    parser = OneLineParser("zaichik serve")
    declaring.add(parser, serve.ARGUMENTS)
    parsed = parser.parse_args([*settings.broker_options])
    if parsed.port is not None:
        raise WrongUsage("--broker-options: a port is said by the node itself")


def _check_login(settings: Namespace) -> None:
    """Check that the node can log in to its own brokers; it would try again and again."""
    if settings.access is not None and not _logged_in(endpoint("127.0.0.1:1"), settings).secret:
        raise WrongUsage(
            f"with --access, the node logs in to its brokers to publish the map: set "
            f"{logins.TOKEN_FILE} to a file with the token of a user who may create and publish to "
            "cluster"
        )


def _folder(settings: Namespace) -> "Folder":
    from zaichik.apps.cluster.folder import Folder

    if settings.data is None:
        raise WrongUsage("a node needs a folder for its shards: write --data DIR")
    return Folder.opened(settings.data, settings.machine)


def _engine(settings: Namespace) -> "RunningEngine":
    """Returns what this node agrees with others through; the file is in its folder."""
    if settings.zookeeper is None:
        from zaichik.apps.cluster.alone import FileEngine
        from zaichik.apps.cluster.folder import CLUSTER

        if settings.data is None:
            raise WrongUsage("a node needs a folder for its shards: write --data DIR")
        return FileEngine(settings.data / CLUSTER)
    try:
        from zaichik.apps.cluster.zookeeper import ZooKeeper, check_hosts
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    try:
        check_hosts(settings.zookeeper)
    except ValueError as error:
        raise WrongUsage(
            f"--zookeeper {settings.zookeeper!r} is not HOST:PORT,HOST:PORT/PATH: {error}"
        ) from None
    login = None
    if settings.zookeeper_login is not None:
        login = logins.secret_in(settings.zookeeper_login)
    return ZooKeeper(
        settings.zookeeper,
        settings.session,
        creates_path=bool(settings.create_path),
        login=login,
    )


def _node(
    settings: Namespace, engine: "RunningEngine", folder: "Folder", log_line: "LogLine"
) -> "Node":
    from zaichik.apps.cluster.broker_process import Launch, running_broker_process
    from zaichik.apps.cluster.coordinator import Machine
    from zaichik.apps.cluster.hosting import publish_map, watch_map
    from zaichik.apps.cluster.node import Node
    from zaichik.apps.cluster.records import Presence

    options = [*settings.broker_options]
    options += ["--log-level", settings.log_level, "--log-format", settings.log_format]
    if settings.access is not None:
        options += ["--access", str(settings.access)]
    launch = Launch(
        settings.host,
        settings.first_port,
        folder.shard,
        options,
        log_line,
    )
    return Node(
        Machine(
            settings.machine,
            Presence(folder.identity, secrets.token_hex(8)),
            _addresses(settings),
            settings.most or sys.maxsize,
            settings.shards,
            secrets.token_hex(8),
        ),
        engine,
        folder,
        partial(running_broker_process, launch),
        lambda broker, payload: publish_map(_logged_in(broker, settings), payload),
        lambda broker, payload: watch_map(_logged_in(broker, settings), payload),
        session_s=settings.session,
        serves_alone=bool(settings.serve_alone),
        now_us=SystemClock().now_us,
    )


def _addresses(settings: Namespace) -> Callable[[int], str]:
    from zaichik.apps.cluster.records import Incompatible

    host = settings.advertise or settings.host
    if host in EVERYWHERE:
        raise WrongUsage(
            f"nobody can connect to {host}: say with --advertise HOST what clients are to connect "
            "to"
        )

    def address(shard: int) -> str:
        port = settings.first_port + shard
        if port > MOST_PORT:
            raise Incompatible(
                f"shard {shard} would have port {port}, and {MOST_PORT} is the last one: choose a "
                "smaller --first-port"
            )
        return str(Endpoint(host, port))

    try:
        found = endpoint(address(0))
    except NotAnAddress as error:
        raise WrongUsage(str(error)) from None
    if found.host != host or not (HOST_NAME.fullmatch(host) or _is_ip_address(host)):
        raise WrongUsage(f"{host!r} is neither the name of a host nor an IP address without a port")
    return address


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _logged_in(broker: Endpoint, settings: Namespace) -> Endpoint:
    if settings.access is None:
        return broker
    return logins.completed(broker)


@contextmanager
def _relayed(as_json: bool) -> Iterator["LogLine"]:  # noqa: FBT001
    """Returns what writes a line that a broker has logged, with its shard's number.

    It never waits: a reader of the log that hangs must stop neither the node nor its brokers.
    """
    from zaichik.cli import log

    out = log.unbuffered(sys.stderr)
    target = _Relay(out, screen.log_handler(logging.INFO, out, as_json=as_json))
    with log.written_beside(target, out) as handler:

        def write(shard: int, line: str) -> None:
            text = f"shard {shard}: {line}"
            if as_json and line.startswith("{"):
                text = f'{{"shard": {shard}, {line[1:]}'
            handler.handle(logging.LogRecord(RELAYED, logging.INFO, __file__, 0, text, None, None))

        yield write


class _Relay(logging.StreamHandler[TextIO]):
    """Writes what brokers have logged as it is, and what the log says of itself by another."""

    def __init__(self, out: TextIO, own: logging.Handler) -> None:
        super().__init__(out)
        self._own = own

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        if record.name == RELAYED:
            super().emit(record)
        else:
            self._own.emit(record)


def _announce(settings: Namespace, console: Console, ready: "Ready") -> None:
    if settings.json:
        screen.print_json(
            {
                "machine": settings.machine,
                "pid": os.getpid(),
                "shards": ready.shards,
                "served": {str(shard): address for shard, address in ready.served.items()},
            }
        )
        return
    served = f"{len(ready.served)} of {counted(ready.shards, 'shard')}"
    screen.say(console, f"machine {settings.machine} serves {served}", "bold")
    rows = [(str(shard), address) for shard, address in ready.served.items()]
    if rows:
        screen.print_columns(console, ("shard", "address"), rows, {"shard"})


# -- a shard whose machine is lost -----------------------------------------------------------------


async def _restore(shard: int, topics: Sequence[str], settings: Namespace, console: Console) -> int:
    from zaichik.apps.cluster.engine import Away, Denied, State
    from zaichik.apps.cluster.folder import UnusableFolder, identity_of
    from zaichik.apps.cluster.records import Incompatible, Unreadable
    from zaichik.apps.cluster.restoring import CannotRestore, restore_shard

    if settings.zookeeper is None:
        raise WrongUsage(
            "in a cluster of one machine nothing has to be placed: put the folder of the shard "
            "where it was, and start the node; else write --zookeeper"
        )
    if settings.source is None:
        raise WrongUsage("where is the shard's folder to come from? Write --from")
    if settings.data is None:
        raise WrongUsage("write --data DIR, the folder of this machine's node")
    make = _maker(settings.source, topics)
    engine = _engine(settings)
    with restated(CannotRestore, Denied, UnusableFolder, Incompatible, Unreadable, Away):
        identity = identity_of(settings.data, settings.machine)
        answered = anyio.Event()
        async with engine.running(lambda _: answered.set()):
            with anyio.move_on_after(CONNECTED_S):
                await answered.wait()
            if engine.state is State.AWAY:
                raise Failure(f"ZooKeeper does not answer at {settings.zookeeper}")
            placement = await restore_shard(
                engine,
                shard,
                machine=settings.machine,
                identity=identity,
                folder=settings.data / f"shard-{shard}",
                address=_addresses(settings)(shard),
                topics=topics,
                make=make,
                now_us=time.time_ns() // 1000,
            )
    screen.say(
        console,
        f"shard {shard} is placed on machine {placement.machine}, at {placement.address}; its "
        "node serves it, as soon as it runs",
    )
    return 0


def _maker(source: str, topics: Sequence[str]) -> Callable[[Path], Awaitable[None]]:
    """Returns what makes a shard's folder at a path."""
    if source.startswith("kafka://"):
        if not topics:
            raise WrongUsage("write the shard's topics after its number: those to get from Kafka")
        return partial(_from_kafka, source.rstrip("/"), topics)
    folder = Path(source)
    if topics:
        raise WrongUsage("topics are named with --from kafka://...; a folder has all of its own")
    if not folder.is_dir():
        raise WrongUsage(f"--from {source} is not a folder")

    async def copy(path: Path) -> None:
        await anyio.to_thread.run_sync(partial(shutil.copytree, folder, path, symlinks=True))

    return copy


async def _from_kafka(source: str, topics: Sequence[str], folder: Path) -> None:
    """Make a folder with these topics, each by `zaichik restore`, which says what it does."""
    for topic in topics:
        command = [sys.executable, "-m", "zaichik", "restore", topic, f"{source}/{topic}"]
        process = await anyio.open_process(
            [*command, "--data", str(folder)], stdin=None, stdout=None, stderr=None
        )
        async with process:
            code = await process.wait()
        if code:
            raise Failure(f"{topic} was not restored, and so the shard stays where it was")
