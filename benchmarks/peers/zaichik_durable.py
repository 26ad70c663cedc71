"""zaichik with durable topics: what is acknowledged was written and synced."""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from pathlib import Path
from typing import Any

from benchmarks.peers.zaichik import ZaichikLink, ZaichikPeer

EVERYTHING = "everything acknowledged"
COLD = "from a cold disk"  # what a reader is given that is far behind the ring
SMALL_RING = 1000


class ZaichikDurableLink(ZaichikLink):
    """As `ZaichikLink`, with a durable topic.

    A job's axis says where a late reader finds the messages.
    """

    def settings(self) -> dict[str, Any]:
        """Returns those of a topic as it comes, except that a replay has a ring for all messages,
        or for very few.
        """
        ring = {} if self._job.role != "replay" else super().settings()
        return {"durable": True, **({"capacity": SMALL_RING} if self._job.axis == COLD else ring)}


class ZaichikDurablePeer(ZaichikPeer):
    """The same broker, with a folder."""

    label = "zaichik, durable topic"
    keeps = EVERYTHING
    share = 0.7
    scenarios = frozenset({"publishing", "work", "cold", "restart"})
    link_class: type[ZaichikLink] = ZaichikDurableLink

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        (command,) = super().commands(directory, port)
        return [[*command, "--data", str(directory / "topics")]]


PEER = ZaichikDurablePeer()
