"""Questions for exercise 13.1."""

import json
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from zaichik.learn import wire
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.server import HOST, free_port

EXERCISE = Exercise(
    "Come back, but not forever",
    hints=(
        (
            "One time limit for everything belongs around everything: anyio.move_on_after around the loop, so that it "
            "also ends an attempt that hangs. After the block, the answer is there or it isn't."
        ),
        (
            "Before you raise, think of the next batch. Nobody knows whether this one was stored. If it was, its "
            "number is used, and another batch of that number is taken for a copy; if it wasn't, the number after it "
            "makes a gap. So begin again as a new producer, with sequence 0."
        ),
    ),
    program="publisher.py",
)
WELCOME = {
    "version": 1, "features": 0, "boot": 1, "max_frame": 1_179_648, "max_batch": 8192, "max_message": 1_048_576,
    "max_credit": 1_000_000, "idle_ms": 0, "broker": "pretender",
}  # fmt: skip
PUBLISHED = {"first_offset": 42, "stored": 1, "compacted": 0, "subscribers": 0, "dropped": b""}
SHORT_S, LONG_S, SURELY_S = 0.5, 20.0, 8.0
CALLS = """
import json, sys, anyio
from publisher import Publisher

async def main():
    publisher = Publisher(int(sys.argv[1]), patience=float(sys.argv[2]))
    results = []
    for payload in sys.argv[3:]:
        try:
            results.append((await publisher.publish("news", [(b"", payload.encode())])).first_offset)
        except Exception as error:
            results.append([each.__name__ for each in type(error).__mro__])
    print(json.dumps(results))

anyio.run(main)
"""
ANSWERS, IS_SILENT, HANGS_UP = "answers", "is silent", "hangs up"


class Pretender:
    """A broker that welcomes everybody, and does with each Publish what we tell it to.

    Args:
        does: what, one after the other. Then it answers.

    Attributes:
        published: of each Publish that came, its producer, sequence and payload.
    """

    def __init__(self, *does):
        self.published = []
        self._does = list(does)
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]

    def serve(self):
        """Serve one client after the other, until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(LONG_S)
            with client, suppress(OSError):
                self._talk_with(client)

    def close(self):
        """Accept no more clients."""
        with suppress(OSError):  # it wakes the thread that waits for the next one: to close alone doesn't
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _talk_with(self, client):
        data = b""
        while more := client.recv(65_536):
            data += more
            while (size := wire.frame_size(data)) is not None and len(data) >= size:
                frame, data = wire.parse(data[:size]), data[size:]
                if frame.name == "Hello":
                    client.sendall(wire.encode("Welcome", frame_id=frame.id, **WELCOME))
                    continue
                self.published.append((frame["producer"], frame["sequence"], frame["batch"][0][1]))
                does = self._does.pop(0) if self._does else ANSWERS
                if does == HANGS_UP:
                    return
                if does == ANSWERS:
                    client.sendall(wire.encode("Published", frame_id=frame.id, **PUBLISHED))


@contextmanager
def _pretending(*does):
    pretender = Pretender(*does)
    Thread(target=pretender.serve, daemon=True).start()
    try:
        yield pretender
    finally:
        pretender.close()


def _publish(program, port, patience, *payloads):
    """What a publisher's calls come to: each the answer's first offset, or the names of the exception's classes.

    It runs in a process of its own, as its modules have names that modules of others may have.
    """
    command = [sys.executable, "-c", CALLS, str(port), str(patience), *payloads]
    try:
        done = subprocess.run(
            command, cwd=Path(program).parent, capture_output=True, text=True, timeout=SURELY_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Wrong(f"with a patience of {patience:g} s, publish was still trying after {SURELY_S:g} s") from None
    if done.returncode:
        raise Wrong((done.stderr.strip() or "the program ended").splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _must_have_given_up(came, asked):
    if not (isinstance(came, list) and "ConnectionError" in came):
        raise Wrong(f"{asked}: expected a ConnectionError, came {came!r}")


@EXERCISE.asks(
    "if no attempt succeeds, it gives up",
    hint="Where does the loop learn that the time is over? A broker that hangs up must end it as well as none at all.",
)
def no_success(program):
    (came,) = _publish(program, free_port(), SHORT_S, "hello")
    _must_have_given_up(came, f"a port where nobody listens, and a patience of {SHORT_S:g} s")
    with _pretending(*[HANGS_UP] * 1000) as broker:
        (came,) = _publish(program, broker.port, SHORT_S, "hello")
    _must_have_given_up(came, f"a broker that hangs up whenever a Publish comes, and a patience of {SHORT_S:g} s")


@EXERCISE.asks(
    "with a broker that says nothing it gives up, too",
    hint="No attempt fails, then: one hangs. A look at the clock between two attempts never comes.",
)
def silence(program):
    with _pretending(IS_SILENT) as broker:
        (came,) = _publish(program, broker.port, SHORT_S, "hello")
    _must_have_given_up(came, f"a broker that doesn't answer a Publish, and a patience of {SHORT_S:g} s")


@EXERCISE.asks(
    "a broker that comes back in time gets the same batch with the same number",
    hint="Within its patience it does what it did before: it tries again, and changes nothing.",
)
def comes_back(program):
    with _pretending(HANGS_UP, HANGS_UP, ANSWERS) as broker:
        must(_publish(program, broker.port, LONG_S, "hello"), [42], "first_offset, at the third attempt")
        must(len(set(broker.published)), 1, "different batches or numbers that came, in three attempts")


@EXERCISE.asks(
    "the next batch isn't taken for the one it gave up",
    hint="The broker may have stored it. What does it do with another batch of the same producer and sequence?",
)
def next_batch(program):
    with _pretending(IS_SILENT) as broker:
        first, second = _publish(program, broker.port, SHORT_S, "first", "second")
        _must_have_given_up(first, "a broker that doesn't answer a Publish")
        must(second, 42, "first_offset of the next batch, which is answered")
        one, two = broker.published
        must(one[2] + b" " + two[2], b"first second", "the batches that came")
        if one[0] == two[0]:
            told = f"{one[:2]}, and for the next {two[:2]}"
            raise Wrong(f"expected another producer after giving up. Producer and sequence of the first batch: {told}")
        must(two[1], 0, "the sequence with which a new producer begins")
