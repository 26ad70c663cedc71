"""zaichik on a disk that takes a second for each write: clients that only use memory topics should
not notice.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.zaichik import ZaichikLink
from benchmarks.peers.zaichik_durable import ZaichikDurablePeer

DURABLE = "durable"
SYNC_SECONDS = 1.0


class ZaichikSlowDiskLink(ZaichikLink):
    """As `ZaichikLink`, with a durable topic or one in memory, as the job's axis says."""

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a topic as it comes."""
        return {"durable": self._job.axis == DURABLE}


class ZaichikSlowDiskPeer(ZaichikDurablePeer):
    """The broker of this project, embedded in a program that slows down its disk.

    Attributes:
        seconds: that each write takes.
    """

    label = "zaichik, slow disk"
    share = 1.0
    scenarios = frozenset({"beside"})
    link_class = ZaichikSlowDiskLink
    seconds = SYNC_SECONDS

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        folder = str(directory / "topics")
        return [
            [sys.executable, "-m", "benchmarks.slow_disk", str(port), folder, str(self.seconds)]
        ]


PEER = ZaichikSlowDiskPeer()
