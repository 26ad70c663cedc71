"""zaichik with batches on both sides, compiled."""

from benchmarks.peers.zaichik_batches import ZaichikBatchesPeer
from benchmarks.peers.zaichik_compiled import Compiled


class ZaichikBatchesCompiledPeer(Compiled, ZaichikBatchesPeer):
    """The same, compiled."""

    label = "zaichik, publish_batch() and pieces(), compiled"
    scenarios = ZaichikBatchesPeer.scenarios


PEER = ZaichikBatchesCompiledPeer()
