"""Brokers that are recorded into memory, and recordings that are replayed or rewritten."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from zaichik.apps.flight.format import Recording
from zaichik.apps.flight.player import Player
from zaichik.apps.flight.recorder import RecordedBroker
from zaichik.apps.flight.tape import Tape
from zaichik.base.clock import ManualClock
from zaichik.core.settings import BrokerSettings
from zaichik.net.background import BackgroundTasks
from zaichik.net.listener import Listener
from zaichik.server.gate import OPEN
from zaichik.server.server import Server
from zaichik.storage.disk import StorageFailed
from zaichik.storage.store import Store


class Flight:
    """A recorded broker, and its recording so far.

    Args:
        is_masked: see `RecordedBroker.begin`.
        clock: the broker's; by default one that stands still.
        disk: where durable topics are, if there can be any.
        settings: the broker's.

    Attributes:
        clock, broker, store: see above.
        data: what was written.
        takes: whether any more can be.
        failure: with which its server has ended, if its disk has failed.
    """

    def __init__(self, *, is_masked=False, clock=None, disk=None, **settings):
        self.store = None if disk is None else Store(disk)
        self.clock = clock or ManualClock(
            1_000_000 if disk is None else self.store.clock_us + 1_000_000
        )
        self.broker = RecordedBroker(BrokerSettings(**settings), self.clock, store=self.store)
        self.data = bytearray()
        self.takes, self.failure = True, None
        self.broker.begin(self._write, is_masked=is_masked)

    def _write(self, data):
        self.data += data
        return self.takes

    def landed(self):
        """The whole recording."""
        self.broker.tape.end()
        return bytes(self.data)

    @asynccontextmanager
    async def served(self, gate=OPEN):
        """Its server, as long as the block lasts; then that has ended gracefully."""
        server = Server(self.broker, await Listener.open("127.0.0.1", 0), self.store, gate)
        ended = anyio.Event()
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(self._run, server, ended)
            try:
                yield server
            finally:
                server.stop()
                await ended.wait()

    async def _run(self, server, ended):
        try:
            await server.run()
        except StorageFailed as failure:
            self.failure = failure
        finally:
            ended.set()


class Replay:
    """A recording that was replayed, as far as it goes.

    Attributes:
        recording, player, steps: see there.
        differences: steps that tell of one.
    """

    def __init__(self, data):
        self.recording = Recording(bytes(data))
        self.player = Player(self.recording)
        self.steps = list(self.player.steps())
        self.differences = [step for step in self.steps if step.difference]

    def sent(self):
        """All bytes that were sent to each peer, by its address."""
        peers, sent = {}, {}
        for step in self.steps:
            if step.record.kind.name == "CONNECT":
                peers[step.record.number] = step.record.values[0]
            elif step.output:
                peer = peers[step.record.number]
                sent[peer] = sent.get(peer, b"") + b"".join(step.output)
        return sent


def rewritten(data, change=lambda records: records, **about):
    """The recording with other records or another header, and the checksums that belong to it."""
    recording, out, tape = Recording(data), bytearray(), Tape()
    known, records = json.loads(recording.about), change(list(recording.records()))
    tape.begin(
        lambda data: out.extend(data) is None, known | about, is_masked=bool(known["checked"])
    )
    for record in records:
        tape.note(record.kind, record.number, record.payload, record.now_us)
    tape.flush()
    return bytes(out)


@pytest.fixture
def new_flight():
    return Flight


@pytest.fixture
def flight():
    return Flight()


@pytest.fixture
def replay():
    return Replay


@pytest.fixture
def rewrite():
    return rewritten
