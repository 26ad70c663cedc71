"""A broker with a folder and a bridge, each a process that can be killed and started again."""

import json
import subprocess
import sys
from contextlib import contextmanager

from zaichik import blocking
from zaichik.client.replication.watermark import Watermark, topic_of
from zaichik.learn.server import free_port

END_SECONDS = 60.0


class Program:
    """A command of ours.

    Args:
        log: where its standard error goes; it is appended to.
        words: its name and arguments.

    Attributes:
        told: what it has printed when it was ready.
    """

    def __init__(self, log, *words):
        self._log = log
        self._words = words
        self._process = None
        self.told = {}

    def start(self):
        """Start it; returns at once."""
        command = [sys.executable, "-m", "zaichik", *self._words, "--json"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def wait_ready(self):
        """Return when it has printed that it is ready."""
        line = self._process.stdout.readline()
        assert line, self.log()
        self.told = json.loads(line)

    def kill(self):
        """End it as `kill -9` does; returns when it is gone."""
        self._process.kill()
        self._end()

    def stop(self):
        """Stop it in order; its exit code."""
        self._process.terminate()
        return self._end()

    def ended(self):
        """Return its exit code when it has ended by itself."""
        return self._end()

    def _end(self):
        code = self._process.wait(END_SECONDS)
        self._process.stdout.close()
        self._process = None
        return code

    def log(self):
        """What it has logged since the test began."""
        return self._log.read_text(errors="replace")

    def kill_if_running(self):
        if self._process is not None:
            self.kill()


class Broker(Program):
    """`zaichik serve` on a folder, at the same port whenever it is started."""

    def __init__(self, folder):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        words = ("serve", "--port", str(self.port), "--data", str(folder / "topics"))
        super().__init__(folder / "broker.log", *words)

    def connect(self):
        """A client that waits for it while it is being started again."""
        return blocking.connect(self.address, reconnect=120)


class BridgeProgram(Program):
    """`zaichik bridge` of the topic orders to Kafka's topic orders."""

    def __init__(self, folder, broker, kafka, *words):
        where = f"kafka://{kafka.address}/orders"
        words = ("bridge", "orders", where, "--connect", broker.address, *words)
        super().__init__(folder / "bridge.log", *words, "--reconnect", "2m")


@contextmanager
def ending(*programs):
    """Has programs gone when the block ends."""
    try:
        yield
    finally:
        for program in programs:
            program.kill_if_running()


def wait_watermark(client, offset, topic="orders"):
    """Return when Kafka has everything below that offset."""
    mark = None
    with client.subscribe(topic_of(topic)) as watermarks:
        for message in watermarks:
            mark = Watermark.of(message.payload)
            if mark.next >= offset:
                return mark
    raise AssertionError(f"the watermark has ended at {mark}")
