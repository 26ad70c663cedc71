"""The other limit: the same batches encoded and decoded, with no network and no broker between.

One process does in turn what publisher, broker and subscriber do at the same time, so on several
cores a broker could exceed it. It shows how much of the cost is the protocol's.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from benchmarks.peers.peer import Job, Link, Peer


class CodecPeer(Peer):
    """The wire protocol alone, in one process; `benchmarks.codec` measures it."""

    label = "encode + decode, one process"
    keeps = "nothing is kept"
    batching = "batches of 1000 messages or 64 KiB"
    own_role = "codec"
    share = 0.5
    has_server = False
    is_limit = True
    scenarios = frozenset({"throughput", "fanout", "fanin", "keepfirst", "replay"})

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        return []

    def link(self, job: Job) -> AbstractAsyncContextManager[Link]:
        raise NotImplementedError


PEER = CodecPeer()
