"""zaichik with a memory topic as it comes, beside its durable topics (`benchmarks.durable`)."""

from typing import Any

from benchmarks.peers.zaichik import ZaichikLink, ZaichikPeer

NOTHING = "nothing"


class ZaichikMemoryLink(ZaichikLink):
    """As `ZaichikLink`, with the ring that a topic has by default: nobody reads what is published
    here.
    """

    def settings(self) -> dict[str, Any]:
        """Returns no settings beside those of every benchmark."""
        return {}


class ZaichikMemoryPeer(ZaichikPeer):
    """The broker of this project."""

    label = "zaichik, memory topic"
    keeps = NOTHING
    scenarios = frozenset({"publishing"})
    link_class: type[ZaichikLink] = ZaichikMemoryLink


PEER = ZaichikMemoryPeer()
