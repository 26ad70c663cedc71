"""NATS with nats-py: core publish, flushed per thousand.

`jetstream` stores and acknowledges messages.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import CHUNK, Job, Link, Peer, Receipt

CHUNK_BYTES = (
    4 * 1024 * 1024
)  # large messages are flushed more often, or they would pile up in the client
CONFIG = """
listen: "127.0.0.1:{port}"
max_pending: 2GB       # a slow reader is not thrown out
write_deadline: "60s"
jetstream {{ store_dir: "{directory}", max_memory_store: 2GB }}
"""


class NatsLink(Link):
    """A client; also what JetStream has in common with this."""

    def __init__(self, job: Job, client: Any) -> None:
        self._topic = job.topic
        self._client = client
        self._chunk = max(1, min(CHUNK, CHUNK_BYTES // job.size))

    async def subscribe(self, receipt: Receipt) -> None:
        take = receipt.take

        async def callback(message: Any) -> None:
            take(message.data)

        await self._client.subscribe(
            self._topic, cb=callback, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        await self._client.flush()

    async def stream(self, payload: bytes, messages: int) -> None:
        publish, topic = self._client.publish, self._topic
        for first in range(0, messages, self._chunk):
            for _ in range(min(self._chunk, messages - first)):
                await publish(topic, payload)
            await self._client.flush(timeout=60)

    async def send(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            await self._client.publish(self._topic, payload)


class NatsPeer(Peer):
    """NATS, as Debian has it."""

    label = "NATS, nats-py"
    keeps = "nothing is kept"
    batching = "flush every 1000 messages or 4 MiB; the client sends what has gathered at once"
    program = "nats-server"
    modules: tuple[str, ...] = ("nats",)
    scenarios = Peer.scenarios - {"acknowledged"}
    link_class: type[NatsLink] = NatsLink
    config = CONFIG

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        config = directory / "nats.conf"
        config.write_text(self.config.format(port=port, directory=directory), encoding="utf-8")
        return [[self.program, "--config", str(config)]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        client = await import_module("nats").connect(
            f"nats://127.0.0.1:{job.port}", allow_reconnect=False
        )
        try:
            yield self.link_class(job, client)
        finally:
            await client.close()


PEER = NatsPeer()
