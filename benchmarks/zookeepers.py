"""ZooKeeper servers, for tests and measurements: one, or three that are an ensemble, each a JVM.

On loopback, at free ports, in a private folder, ended by their process ids.
"""

import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

from benchmarks.obtain import zookeeper_jars

JAVA = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
TICK_MS = 500  # sessions may be as short as two of them
GUARD_S = 60.0
CONFIG = """
tickTime={tick}
initLimit=20
syncLimit=10
maxSessionTimeout=60000
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
"""


def free_ports(count: int) -> list[int]:
    """Returns ports that nothing listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ZooKeepers:
    """Servers, by number from 0.

    Args:
        folder: a private one.
        count: 1, or 3 for an ensemble.

    Attributes:
        ports: where clients connect.
        processes: those that run.

    Raises:
        Unobtainable: Maven Central cannot be reached.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._classes = ":".join(map(str, zookeeper_jars()))
        self.ports = free_ports(count)
        self._configs: list[Path] = []
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * count
        others = free_ports(2 * count)
        peers = [
            f"server.{number}=127.0.0.1:{others[2 * number]}:{others[2 * number + 1]}"
            for number in range(count)
        ]
        for number, port in enumerate(self.ports):
            data = folder / f"zookeeper-{number}"
            data.mkdir(parents=True)
            lines = CONFIG.format(tick=TICK_MS, folder=data, port=port)
            if count > 1:
                (data / "myid").write_text(str(number))
                lines += "\n".join(peers)
            config = folder / f"zookeeper-{number}.cfg"
            config.write_text(lines)
            self._configs.append(config)

    @property
    def hosts(self) -> str:
        """The servers, as clients are told."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, *numbers: int) -> None:
        """Start these, or all."""
        for number in numbers or range(len(self.ports)):
            self.processes[number] = subprocess.Popen(
                [*JAVA, "-cp", self._classes, MAIN, str(self._configs[number])],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Returns when a server answers that it serves, which takes a majority."""
        deadline = time.monotonic() + GUARD_S
        while not any(self._serves(port) for port in self.ports):
            if time.monotonic() > deadline:
                raise TimeoutError("ZooKeeper does not come up")
            time.sleep(0.05)

    def _serves(self, port: int) -> bool:
        try:
            with closing(socket.create_connection(("127.0.0.1", port), 2)) as connection:
                connection.sendall(b"srvr")
                return b"Mode:" in connection.makefile("rb").read()
        except OSError:
            return False

    def kill(self, number: int) -> None:
        """End one at once."""
        process = self.processes[number]
        if process is not None:
            process.kill()
            process.wait()
            self.processes[number] = None

    def freeze(self, number: int) -> None:
        """Stop one, as a machine that hangs."""
        self._signal(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let one go on."""
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, signaled: signal.Signals) -> None:
        process = self.processes[number]
        if process is not None:
            process.send_signal(signaled)

    def close(self) -> None:
        """End all."""
        for number in range(len(self.ports)):
            self.kill(number)
