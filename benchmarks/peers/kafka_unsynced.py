"""Kafka with acks=all and its default for syncing: never, the kernel decides."""

from benchmarks.peers.kafka import KafkaLink, KafkaPeer


class KafkaUnsyncedLink(KafkaLink):
    """As `KafkaLink`; with one replica, acks=all promises no more."""

    acks = "all"


class KafkaUnsyncedPeer(KafkaPeer):
    """The same server."""

    label = "Kafka, acks=all"
    keeps = "what the kernel has written by itself: about all but the last half a minute"
    scenarios = frozenset({"publishing"})
    link_class: type[KafkaLink] = KafkaUnsyncedLink


PEER = KafkaUnsyncedPeer()
