"""zaichik with a bounded ring that loses nothing: the producer waits for a reader that is a ring
behind (RET-9).
"""

from typing import Any

from benchmarks.peers.zaichik import ZaichikLink, ZaichikPeer

RING_BYTES = 64 * 1024 * 1024  # the broker's default for a topic
RING_MESSAGES = 100_000


class ZaichikBoundedLink(ZaichikLink):
    """As `ZaichikLink`, with a topic of another kind."""

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a ring of the default size that refuses messages rather than
        evicts needed ones.
        """
        return {"capacity": RING_MESSAGES, "max_bytes": RING_BYTES, "overflow": "reject"}


class ZaichikBoundedPeer(ZaichikPeer):
    """The same broker, another promise."""

    label = "zaichik, bounded ring"
    keeps = 'in memory, the last 100,000 messages or 64 MiB (overflow="reject")'
    scenarios = frozenset({"throughput"})
    link_class = ZaichikBoundedLink


PEER = ZaichikBoundedPeer()
