"""How much other clients suffer from an attack.

    python -m benchmarks.isolation                                  # all attacks: ten minutes
    python -m benchmarks.isolation --attack pings --attack killed   # two of them
    python -m benchmarks.isolation --attack publishes --connections 30 --rounds 9
    python -m benchmarks.isolation --python ../other/.venv/bin/python --json > other.json

For each attack, two turns alternate (A B A B ...): clients of the broker that is attacked, and
clients of a broker while a second one is attacked. The latter is the control: an attacker takes
processor time from every process on the machine, and only what goes beyond that is the broker's
fault. What counts is the ratio of the two in one round. Each turn has brokers, connections and
topics of its own, so that nothing is left of the turn before.

awaited   one awaited publish after the other: publishes per second, the milliseconds that one in a
          thousand exceeds, and those of the slowest (a long but rare stall shows only there)
stream    messages per second from one process that publishes to one that subscribes

Clients come from 127.0.0.1, attackers from 127.0.0.2. Linux only.
"""

import argparse
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.attacks import ATTACKS, BY_NAME, PREPARE_SECONDS
from benchmarks.dialing import ADDRESS
from benchmarks.isolation_table import Row, Turn, summary, table
from benchmarks.processes import Failed, has_ended, kill, process, say
from benchmarks.serving import port_in, serving
from benchmarks.victims import ROLES, STALL_FACTOR

SETTLE_SECONDS = 0.3  # from the beginning of an attack to the first measurement
PATIENCE_SECONDS = 60.0  # beyond what a process is to take
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        attacks: names and numbers of connections.
        seconds: of each measurement.
        rounds: how often each attack's two turns alternate.
        python: the interpreter whose `-m zaichik` is the broker.
    """

    attacks: Sequence[tuple[str, int]]
    seconds: float = 0.7
    rounds: int = 3
    python: str = sys.executable


class Spoken:
    """A process that answers line by line."""

    def __init__(self, child: Any, log: Path, name: str) -> None:
        self._child, self._log, self._name = child, log, name

    def line(self, seconds: float = PATIENCE_SECONDS) -> str:
        """The next line it prints.

        Raises:
            Failed: there is none within these seconds.
        """
        ready, _, _ = select.select([self._child.stdout], [], [], seconds)
        if not ready or not (line := self._child.stdout.readline().strip()):
            told = self._log.read_text(encoding="utf-8", errors="replace")
            raise Failed(f"{self._name} says nothing; its log: {told[-1000:]}")
        return str(line)

    def say(self, line: str) -> None:
        """Give it a line."""
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()


class Victims:
    """The processes of `benchmarks.victims`, by their role."""

    def __init__(self, processes: dict[str, Spoken], seconds: float) -> None:
        self._processes, self._seconds = processes, seconds

    def connect(self, port: int) -> None:
        """Returns when all of them are connected."""
        for victim in self._processes.values():
            victim.say(json.dumps({"port": port, "seconds": self._seconds}))
        for name, victim in self._processes.items():
            if (line := victim.line()) != "ready":
                raise Failed(f"{name}: {line}")

    def measure(self) -> Turn:
        """What they get now: first the awaited publisher, then the pair."""
        figures: dict[str, dict[str, Any]] = {}
        for names in (["awaited"], ["subscriber", "publisher"]):
            for name in names:
                self._processes[name].say("go")
            for name in names:
                figures[name] = json.loads(
                    self._processes[name].line(self._seconds * STALL_FACTOR + PATIENCE_SECONDS)
                )
        failures = [
            f"{name}: {found['failed']}" for name, found in figures.items() if "failed" in found
        ]
        longest_ms = self._seconds * STALL_FACTOR * 1000
        return Turn(
            awaited=figures["awaited"].get("rate", 0.0),
            p999_ms=figures["awaited"].get("p999_ms", longest_ms),
            worst_ms=figures["awaited"].get("worst_ms", longest_ms),
            stream=figures["subscriber"].get("rate", 0.0),
            failures=failures,
        )


@contextmanager
def victims(directory: Path, seconds: float) -> Iterator[Victims]:
    """The processes as long as the block lasts."""
    with ExitStack() as stack:
        log, spoken = directory / "victims.log", dict[str, Spoken]()
        for name in ROLES:
            child = stack.enter_context(
                process([sys.executable, "-m", "benchmarks.victims", name], log, {}, **PIPES)
            )
            spoken[name] = Spoken(child, log, name)
        yield Victims(spoken, seconds)


@contextmanager
def brokers(directory: Path, python: str) -> Iterator[tuple[int, int]]:
    """Ports of two new brokers as long as the block lasts; it ends them at once, whatever they
    still have to do.

    Raises:
        Failed: one does not start, or its log tells of a bug.
    """
    log = directory / "broker.log"
    log.unlink(missing_ok=True)
    command = serving(python=python)
    with ExitStack() as stack:
        children = [stack.enter_context(process(command, log, {}, **PIPES)) for _ in range(2)]
        for child in children:
            stack.callback(kill, child)
        first, second = (port_in(Spoken(child, log, "the broker").line()) for child in children)
        yield first, second
    if "Traceback" in (told := log.read_text(encoding="utf-8", errors="replace")):
        raise Failed(f"the broker's log: {told[-2000:]}")


@contextmanager
def attacking(
    directory: Path, attack: str, connections: int, port: int, seconds: float
) -> Iterator[None]:
    """An attacker as long as the block lasts; it ends by itself, should this process be killed."""
    log = directory / "attacker.log"
    most = int(seconds * (2 * STALL_FACTOR + 2) + PATIENCE_SECONDS)
    words = [attack, str(port), str(connections), str(most)]
    with process([sys.executable, "-m", "benchmarks.attacks", *words], log, {}, **PIPES) as child:
        Spoken(child, log, attack).line(PREPARE_SECONDS)
        yield
        if has_ended(child):
            raise Failed(
                "the attacker has ended: "
                f"{log.read_text(encoding='utf-8', errors='replace')[-1000:]}"
            )


def measure(options: Options) -> Iterator[Row]:
    """A row for each attack."""
    with tempfile.TemporaryDirectory(prefix="isolation-") as name:
        directory = Path(name)
        with victims(directory, options.seconds) as clients:
            for attack, connections in options.attacks:
                yield _row(directory, clients, attack, connections, options)


def _row(directory: Path, clients: Victims, attack: str, connections: int, options: Options) -> Row:
    row = Row(attack, connections)
    for number in range(options.rounds):
        for turns, is_control in ((row.beside, False), (row.control, True)):
            with brokers(directory, options.python) as (port, other):
                clients.connect(port)
                with attacking(
                    directory, attack, connections, other if is_control else port, options.seconds
                ):
                    time.sleep(SETTLE_SECONDS)
                    turns.append(turn := clients.measure())
            turn_name = (
                f"{attack} x {connections}, round {number + 1}, "
                f"{'control' if is_control else 'beside '}"
            )
            say(
                f"{turn_name}: {turn.awaited:,.0f} awaited/s, "
                f"p99.9 {turn.p999_ms:,.1f} ms, slowest {turn.worst_ms:,.1f} ms, stream "
                f"{turn.stream:,.0f}/s" + "".join(f"; {failure}" for failure in turn.failures)
            )
    return row


def chosen(
    names: Sequence[str] | None = None, connections: Sequence[int] | None = None
) -> list[tuple[str, int]]:
    """Names and numbers of connections to measure: by default all of them."""
    return [
        (name, number)
        for name in names or BY_NAME
        for number in (connections or ATTACKS[BY_NAME[name]])
    ]


def described() -> str:
    """All attacks, for the end of the help."""
    lines = ["attacks, with their numbers of connections:"]
    for name, attack in BY_NAME.items():
        sentence = (attack.__doc__ or "").splitlines()[0]
        lines.append(f"  {name:24} {', '.join(map(str, ATTACKS[attack])):12} {sentence}")
    return "\n".join(lines)


def interpreter(text: str) -> str:
    """The path of an interpreter that can run a broker.

    Raises:
        argparse.ArgumentTypeError: it cannot.
    """
    path = str(Path(text).absolute())  # without following links: they tell it its packages
    try:
        subprocess.run([path, "-I", "-c", "import zaichik"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise argparse.ArgumentTypeError(
            f"{text} is not a Python that has zaichik installed"
        ) from error
    return path


def parsed(words: Iterable[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.isolation",
        description=__doc__,
        epilog=described(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--attack",
        action="append",
        choices=BY_NAME,
        metavar="NAME",
        help="see below; may be repeated",
    )
    parser.add_argument(
        "--connections",
        action="append",
        type=int,
        metavar="N",
        help="connections of the attacker; may be repeated",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=Options.seconds,
        help="seconds of each measurement (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=Options.rounds,
        help="rounds per attack (default: %(default)s)",
    )
    parser.add_argument(
        "--python",
        type=interpreter,
        default=sys.executable,
        metavar="PATH",
        help="a Python interpreter: the broker is its `-m zaichik` (default: this one)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(None if words is None else list(words))
    if options.seconds <= 0 or options.rounds < 1 or min(options.connections or [1]) < 1:
        parser.error("seconds, rounds and connections must be more than 0")
    if not has_address():
        problem = f"this system has no address {ADDRESS}, where attackers come from"
        parser.error(f"{problem}; run it on Linux")
    return options


def has_address() -> bool:
    """Whether attackers can come from the address that is theirs."""
    try:
        with closing(socket.create_server((ADDRESS, 0))):
            return True
    except OSError:
        return False


def main(words: Iterable[str] | None = None) -> int:
    """Measure what was asked for; the results so far are shown, also after Ctrl-C."""
    asked = parsed(words)
    options = Options(
        chosen(asked.attack, asked.connections), asked.seconds, asked.rounds, asked.python
    )
    rows: list[Row] = []
    code = 0
    try:
        for row in measure(options):
            rows.append(row)  # noqa: PERF402 - one at a time: those that are there are shown after Ctrl-C
    except KeyboardInterrupt:
        say("interrupted")
        code = 130
    except Failed as error:
        say(str(error))
        code = 1
    if asked.json:
        print(
            json.dumps(
                {
                    **asdict(options),
                    "rows": [row.figures() for row in rows],
                    "summary": summary(rows),
                },
                indent=1,
            )
        )
    elif rows:
        print(table(rows))
    return code


if __name__ == "__main__":
    sys.exit(main())
