"""RabbitMQ with pika, for programs without an event loop: each message is confirmed."""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Lock

from benchmarks.peers.peer import Job
from benchmarks.peers.rabbitmq import RabbitmqPeer


class RabbitmqPikaPeer(RabbitmqPeer):
    """The same server, another client.

    Its connection is for one thread: others wait until it is free.
    """

    label = "RabbitMQ, pika"
    batching = "one frame a message"
    modules = ("pika",)
    scenarios = frozenset({"calls", "script"})

    @contextmanager
    def caller(self, job: Job) -> Iterator[Callable[[bytes], object]]:
        pika = import_module("pika")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", job.port))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(job.topic, exclusive=True)
        lock = Lock()

        def publish(payload: bytes) -> None:
            with lock:
                channel.basic_publish("", job.topic, payload)

        try:
            yield publish
        finally:
            connection.close()

    def script(self, job: Job) -> str:
        return f"""
import pika
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", {job.port}))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare({job.topic!r})
channel.basic_publish("", {job.topic!r}, b"message")
connection.close()
"""


PEER = RabbitmqPikaPeer()
