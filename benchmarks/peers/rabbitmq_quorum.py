"""RabbitMQ with a quorum queue: what is acknowledged was written to a log, and synced."""

from benchmarks.peers.rabbitmq_queue import RabbitmqQueuePeer
from benchmarks.peers.zaichik_durable import EVERYTHING


class RabbitmqQuorumPeer(RabbitmqQueuePeer):
    """The same server, with a queue of another kind."""

    label = "RabbitMQ, quorum queue"
    keeps = EVERYTHING
    kind = "quorum"
    delivery_mode = 2  # persistent


PEER = RabbitmqQuorumPeer()
