"""What access control costs clients that have logged in, and what attackers can do to them.

    python benchmarks/access.py            # about five minutes
    python benchmarks/access.py --quick    # does it work? The figures of this say nothing

Everything runs on this machine, in processes of its own; /proc is needed. Each figure is the median
of pairs: what is compared takes turns, so that a machine that is busy with something else slows
down both.
"""

import argparse
import asyncio
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "chaos")]  # for the processes of those tests

from served import Served, served  # noqa: E402

from benchmarks import strangers  # noqa: E402
from benchmarks.strangers import READ, WRONG_A_SECOND, context  # noqa: E402
from zaichik.base.clock import SystemClock  # noqa: E402
from zaichik.cli.access_folder import dump, locked, new_password, new_token, write  # noqa: E402
from zaichik.cli.self_signed import self_signed  # noqa: E402
from zaichik.server.access.access_gate import Access, AccessGate  # noqa: E402
from zaichik.server.access.rules import Rules  # noqa: E402
from zaichik.server.access.users import Record, Users  # noqa: E402
from zaichik.server.places import Place  # noqa: E402
from zaichik_protocol import (  # noqa: E402
    NEED_DATA,
    Batch,
    Commit,
    Frame,
    FrameDecoder,
    Hello,
    Ping,
    Publish,
    Refused,
    Subscribe,
    Welcome,
    encode,
)

RULES = "".join(f"allow publish other-{number}/*\n" for number in range(100))
WRONG_PASSWORD = "something else"  # noqa: S105 (nobody has it)


@dataclass(frozen=True)
class Size:
    """How much of everything is done."""

    pairs: int = 10
    publishes: int = 20_000
    rounds: int = 3_000
    mebibytes: int = 64
    logins: int = 300
    seconds: float = 5.0
    stalled: int = 1000
    passwords: int = 100  # of each kind, a quarter of a second each
    idle: int = 300


QUICK = Size(2, 500, 50, 2, 5, 0.5, 50, 2, 20)


# -- brokers and clients -------------------------------------------------------------------------


class Broker:
    """A running broker, and its users."""

    def __init__(self, process: Served, token: str, *, has_tls: bool) -> None:
        self.process, self.token, self.has_tls = process, token, has_tls

    def dial(self) -> socket.socket:
        """Returns a connection, with TLS if there is any."""
        raw = socket.create_connection(("127.0.0.1", self.process.port), timeout=10)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context().wrap_socket(raw) if self.has_tls else raw

    @property
    def processor_ns(self) -> int:
        """The processor time that its threads have used."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(
            int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks
        )


@contextmanager
def broker(
    *, has_access: bool = True, has_tls: bool = True, rules: str = RULES
) -> Iterator[Broker]:
    """A broker that runs as long as the block lasts."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, token = Path(name), ""
        if has_access:
            known, token = new_token()
            (folder / "rules").write_text(f"user ana\n{rules}allow all *\n", encoding="utf-8")
            with locked(folder) as descriptor:
                write(descriptor, "users.json", dump(Users(users=(Record("ana", (known,)),))))
                for file, data in zip(
                    ("cert.pem", "key.pem"), self_signed(["x"], datetime.now(UTC)), strict=True
                ):
                    if has_tls:
                        write(descriptor, file, data)
        options = ["--access", name] if has_access else []
        process = stack.enter_context(served("--log-level", "warning", *options))
        yield Broker(process, token, has_tls=has_access and has_tls)


class Client:
    """A blocking client of frames, which has said Hello."""

    def __init__(self, at: Broker) -> None:
        self._socket, self._decoder = at.dial(), FrameDecoder.for_client()
        self.ask(Hello(1, auth=1 if at.token else 0, secret=at.token), Welcome)

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self._socket.sendall(data)

    def frame(self) -> Frame:
        """Returns the next frame."""
        while (frame := self._decoder.next_frame()) is NEED_DATA:
            if not (data := self._socket.recv(READ)):
                raise RuntimeError("the broker has closed the connection")
            self._decoder.receive_data(data)
        assert isinstance(frame, Frame)
        return frame

    def ask(self, request: Frame, kind: type[Frame] | None = None) -> Frame:
        """Returns the reply."""
        self.send(encode(request))
        reply = self.frame()
        if kind is not None and not isinstance(reply, kind):
            raise RuntimeError(f"{reply} instead of a {kind.__name__}")
        return reply

    def pipeline(self, data: bytes, count: int, at_once: int) -> None:
        """Send the same request this many times, and read the replies, with this many under way."""
        sent = read = 0
        while read < count:
            some = min(at_once - (sent - read), count - sent)
            self.send(data * some)
            sent += some
            self.frame()
            read += 1

    def close(self) -> None:
        """End it."""
        self._socket.close()


# -- measuring -----------------------------------------------------------------------------------

Measure = Callable[[], float]


def ratio(pairs: int, one: Measure, other: Measure) -> tuple[float, float, float]:
    """Returns medians of the first, the second, and of the first by the second, pair by pair."""
    found = [(one(), other()) for _ in range(pairs)]
    ones, others = zip(*found, strict=True)
    return (
        statistics.median(ones),
        statistics.median(others),
        statistics.median(a / b for a, b in found),
    )


def show(what: str, value: str) -> None:
    """Print a line of the table."""
    print(f"| {what:<76} | {value:>34} |", flush=True)


def rights(size: Size) -> None:
    """What checking rights costs the broker."""
    data = encode(Publish(1, "orders", Batch.of_columns([b""], [b"x" * 100])))

    def cost(at: Broker, client: Client) -> float:
        before = at.processor_ns
        client.pipeline(data, size.publishes, 100)
        return (at.processor_ns - before) / size.publishes / 1000

    with (
        broker(has_tls=False) as asking,
        broker(has_access=False) as plain,
        closing(Client(asking)) as ours,
        closing(Client(plain)) as others,
    ):
        a, b, by = ratio(size.pairs, lambda: cost(asking, ours), lambda: cost(plain, others))
    show(
        "processor time of a publish, µs: with 101 rules; without access control; ratio",
        f"{a:.1f}; {b:.1f}; {by:.3f}",
    )


def tls(size: Size) -> None:
    """What TLS costs."""
    large = encode(Publish(1, "large", Batch.of_columns([b""], [bytes(256 * 1024)])))
    count = 4 * size.mebibytes

    def throughput(client: Client) -> float:
        began = time.perf_counter()
        client.pipeline(large, count, 4)
        return size.mebibytes / (time.perf_counter() - began)

    def round_trip(client: Client) -> float:
        began = time.perf_counter()
        for _ in range(size.rounds):
            client.ask(Ping(2, 7))
        return (time.perf_counter() - began) / size.rounds * 1e6

    with (
        broker() as one,
        broker(has_access=False) as other,
        closing(Client(one)) as a,
        closing(Client(other)) as b,
    ):
        x, y, by = ratio(size.pairs, lambda: throughput(a), lambda: throughput(b))
        show(
            "published over one connection, MiB/s: TLS; plain; ratio", f"{x:.0f}; {y:.0f}; {by:.2f}"
        )
        x, y, by = ratio(size.pairs, lambda: round_trip(a), lambda: round_trip(b))
        show("round trip of a Ping, µs: TLS; plain; ratio", f"{x:.0f}; {y:.0f}; {by:.2f}")

    def logins(at: Broker) -> float:
        began = time.perf_counter()
        for _ in range(size.logins):
            Client(at).close()
        return size.logins / (time.perf_counter() - began)

    with broker() as one, broker(has_tls=False) as other:
        x, y, by = ratio(size.pairs, lambda: logins(one), lambda: logins(other))
    show(
        "logins with a token, one after the other, a second: TLS; plain; ratio",
        f"{x:.0f}; {y:.0f}; {by:.2f}",
    )


def idle(size: Size) -> None:
    """What a connection that does nothing takes."""
    for has_tls in (True, False):
        with broker(has_tls=has_tls) as at, ExitStack() as stack:
            for _ in range(10):  # what is allocated once
                stack.enter_context(closing(Client(at)))
            before = at.process.resident
            for _ in range(size.idle):
                stack.enter_context(closing(Client(at)))
            each = (at.process.resident - before) / size.idle / 1024
        show(
            "memory of an idle connection that has logged in, KiB: "
            f"{'TLS' if has_tls else 'plain'}",
            f"{each:.1f}",
        )


class Pair:
    """A writer and a reader who work as fast as they are served."""

    def __init__(self, at: Broker) -> None:
        self._writer, self._reader = Client(at), Client(at)
        self._reader.ask(Subscribe(2, "pair", credit=1_000_000, credit_bytes=2**32 - 1))
        self._read = 0
        self._data = encode(Publish(1, "pair", Batch.of_columns([b""] * 10, [b"x" * 100] * 10)))

    def rate(self, seconds: float) -> float:
        """Returns messages a second that were published, acknowledged and delivered."""
        began, count = time.perf_counter(), 0
        while time.perf_counter() < began + seconds:
            self._writer.send(self._data)
            self._writer.frame()
            self._reader.frame()
            count += 10
            self._read += 10
            if self._read % 100_000 == 0:  # long before the credit is used up
                self._reader.send(encode(Commit(0, 2, self._read)))
        return count / (time.perf_counter() - began)

    def close(self) -> None:
        """End both."""
        self._writer.close()
        self._reader.close()


def beside(size: Size, what: str, *attack: str) -> None:
    """The rate of a healthy pair beside an attack, compared with the pair by itself."""
    with broker() as at, closing(Pair(at)) as pair:

        def attacked() -> float:
            command = [sys.executable, strangers.__file__, str(at.process.port), *attack]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                process.stdout.readline()  # it has begun
                try:
                    return pair.rate(size.seconds)
                finally:
                    process.kill()

        pairs = max(2, size.pairs // 2)
        x, y, by = ratio(pairs, attacked, lambda: pair.rate(size.seconds))
    show(f"messages a second of a pair {what}; by itself; ratio", f"{x:,.0f}; {y:,.0f}; {by:.2f}")


def timing(size: Size) -> None:
    """Whether timing reveals that a user does not exist; without the waits between two attempts."""
    record = Record("ana", (), new_password("correct horse battery"))
    wrong = {"wrong password": "ana", "no such user": "nobody"}
    found: dict[str, list[float]] = {kind: [] for kind in wrong}

    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    async def attempt(user: str) -> float:
        gate = AccessGate(
            Access(Users(users=(record,)), Rules.parse(b"")), SystemClock(), sleep=no_wait
        )
        began = time.perf_counter()
        with suppress(Refused):
            hello = Hello(1, auth=2, user=user, secret=WRONG_PASSWORD)
            await gate.login(hello, None, Place("x:1", lambda: None))  # type: ignore[arg-type]
        return time.perf_counter() - began

    async def attempts() -> None:
        for number in range(size.passwords):
            for kind in sorted(wrong, reverse=bool(number % 2)):
                found[kind].append(await attempt(wrong[kind]))

    asyncio.run(attempts())
    x, y = found["no such user"], found["wrong password"]
    a, b = statistics.median(x) * 1000, statistics.median(y) * 1000
    show(
        f"a refusal, ms: no such user; wrong password; gap ({size.passwords} each)",
        f"{a:.1f}; {b:.1f}; {a / b - 1:+.1%}",
    )
    show("the same, Mann-Whitney: p", f"{mann_whitney(x, y):.2f}")


def mann_whitney(xs: list[float], ys: list[float]) -> float:
    """Returns how likely such a difference is if there is none; by the normal distribution, without
    ties.
    """
    n, m = len(xs), len(ys)
    u = sum(x > y for x in xs for y in ys)
    sigma = (n * m * (n + m + 1) / 12) ** 0.5
    return 2 * (1 - statistics.NormalDist().cdf(abs(u - n * m / 2) / sigma))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little of everything: does it work?")
    options = parser.parse_args()
    size = QUICK if options.quick else Size()
    if options.quick:
        print("quick: these figures say nothing")
    rights(size)
    tls(size)
    idle(size)
    beside(size, f"beside {WRONG_A_SECOND} wrong logins a second", "wrong")
    number = size.stalled if _descriptors() >= 4 * size.stalled else 300
    beside(size, f"beside {number} stalled handshakes", "stalled", str(number))
    timing(size)


def _descriptors() -> int:
    """Raise the limit on open files as far as is allowed; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


if __name__ == "__main__":
    main()
