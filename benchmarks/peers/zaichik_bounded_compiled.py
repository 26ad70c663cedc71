"""zaichik with a bounded ring that loses nothing, compiled."""

from benchmarks.peers.zaichik_bounded import ZaichikBoundedPeer
from benchmarks.peers.zaichik_compiled import Compiled


class ZaichikBoundedCompiledPeer(Compiled, ZaichikBoundedPeer):
    """The same, compiled."""

    label = "zaichik, bounded ring, compiled"
    scenarios = ZaichikBoundedPeer.scenarios


PEER = ZaichikBoundedCompiledPeer()
