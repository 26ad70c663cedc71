"""NATS JetStream with `sync_interval: always`: each message is synced before it is acknowledged."""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from benchmarks.peers.jetstream_file import JetstreamFilePeer
from benchmarks.peers.nats import CONFIG
from benchmarks.peers.zaichik_durable import EVERYTHING


class JetstreamAlwaysPeer(JetstreamFilePeer):
    """The same server, with a sync for each message."""

    label = "NATS JetStream, sync_interval: always"
    keeps = EVERYTHING
    share = 0.004
    config = CONFIG.replace("max_memory_store: 2GB", "sync_interval: always")

    def fetch(self) -> None:
        self.take_recent()


PEER = JetstreamAlwaysPeer()
