"""RabbitMQ with aio-pika: a fanout exchange, a queue per subscriber without acknowledgements, and
confirms if asked.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Job, Link, Peer, Receipt

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on the path changes the user
CONFIG = """
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
"""


class RabbitmqLink(Link):
    """A channel and the exchange."""

    def __init__(self, channel: Any, exchange: Any, message: Any) -> None:
        self._channel = channel
        self._exchange = exchange
        self._message = message

    async def subscribe(self, receipt: Receipt) -> None:
        take = receipt.take

        async def callback(message: Any) -> None:
            take(message.body)

        queue = await self._channel.declare_queue(exclusive=True)
        await queue.bind(self._exchange)
        await queue.consume(callback, no_ack=True)

    async def stream(self, payload: bytes, messages: int) -> None:
        for _ in range(messages):
            await self.publish(payload)

    async def send(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            await self.publish(payload)

    async def publish(self, payload: bytes) -> None:
        await self._exchange.publish(self._message(payload), routing_key="")


class RabbitmqPeer(Peer):
    """RabbitMQ with its own name service, so that none is left behind.

    It takes seconds to start.
    """

    label = "RabbitMQ, aio-pika"
    keeps = "in memory (transient messages, exclusive queues)"
    batching = "one frame a message; no prefetch limit, no acknowledgements of deliveries"
    modules = ("aio_pika",)
    share = 0.012
    lasting = True

    def missing(self) -> str:
        return super().missing() or ("" if SERVER.exists() else f"the program {SERVER}")

    def server_version(self) -> str:
        library = next(SERVER.parent.parent.glob("lib/rabbitmq_server-*"))
        version = library.name.removeprefix("rabbitmq_server-")
        return f"rabbitmq-server {version}"

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        return {
            "HOME": str(directory),
            "ERL_CRASH_DUMP": str(directory / "crash"),
            "ERL_EPMD_PORT": str(port + 1),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": f"benchmark{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_DIST_PORT": str(port + 2),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        (directory / "rabbitmq.conf").write_text(CONFIG.format(port=port), encoding="utf-8")
        (directory / "enabled_plugins").write_text("[].", encoding="utf-8")
        return [["epmd", "-address", "127.0.0.1", "-port", str(port + 1)], [str(SERVER)]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        aio_pika = import_module("aio_pika")
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{job.port}/")
        async with connection:
            channel = await connection.channel(publisher_confirms=job.role == "acknowledged")
            exchange = await channel.declare_exchange(
                job.topic, aio_pika.ExchangeType.FANOUT, auto_delete=False
            )
            if job.role == "acknowledged":  # what is confirmed shall also have been kept
                queue = await channel.declare_queue(exclusive=True)
                await queue.bind(exchange)
            yield RabbitmqLink(channel, exchange, aio_pika.Message)


PEER = RabbitmqPeer()
