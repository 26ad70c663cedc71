"""NATS with `nats bench`, its own measuring program in Go: the rate of a compiled client with the
same server.

It is a reference, not a competitor, for it is not Python. How it counts is said in
`benchmarks.nats_bench`.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from benchmarks.obtain import NATS_CLI, nats_cli
from benchmarks.peers.nats import NatsPeer
from benchmarks.peers.peer import executable


class NatsGoPeer(NatsPeer):
    """The same server, with clients in another language."""

    label = "NATS, nats bench (Go)"
    batching = "the Go client's own buffers; one flush at the end"
    modules = ()
    share = 2.0
    is_limit = True
    own_role = "nats_bench"
    scenarios = frozenset({"throughput"})

    def server_version(self) -> str:
        return f"{super().server_version()}, natscli {NATS_CLI.partition('@v')[2]}"

    def missing(self) -> str:
        return super().missing() or ("" if executable("go") else "the program go")

    def fetch(self) -> None:
        nats_cli()


PEER = NatsGoPeer()
