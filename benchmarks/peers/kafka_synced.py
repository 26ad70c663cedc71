"""Kafka with acks=all and flush.messages=1: each batch is synced before it is acknowledged."""

from typing import ClassVar

from benchmarks.peers.kafka_unsynced import KafkaUnsyncedLink, KafkaUnsyncedPeer
from benchmarks.peers.zaichik_durable import EVERYTHING


class KafkaSyncedLink(KafkaUnsyncedLink):
    """As `KafkaUnsyncedLink`, with topics that are synced."""

    settings: ClassVar[dict[str, str]] = {"flush.messages": "1"}


class KafkaSyncedPeer(KafkaUnsyncedPeer):
    """The same server, another setting of its topics."""

    label = "Kafka, acks=all, flush.messages=1"
    keeps = EVERYTHING
    share = 0.2
    link_class = KafkaSyncedLink


PEER = KafkaSyncedPeer()
