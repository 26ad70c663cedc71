"""zaichik as its own wheel, compiled by mypyc: the same source, on both sides of the connection."""

# ruff: noqa: D102 - what the methods promise is said in peer.py

from pathlib import Path

from benchmarks.obtain import compiled_zaichik
from benchmarks.outcomes import COMPILED
from benchmarks.peers.peer import Peer
from benchmarks.peers.zaichik import ZaichikPeer


class Compiled(ZaichikPeer):
    """Makes a peer's server and clients import the compiled packages instead of those in the
    working folder.
    """

    scenarios = Peer.scenarios

    def fetch(self) -> None:
        compiled_zaichik()

    def server_version(self) -> str:
        return f"{super().server_version()} (compiled)"

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        return {**super().environment(directory, port), **self.client_environment()}

    def client_environment(self) -> dict[str, str]:
        # Python would look into the working folder first, and nothing compiled is there.
        return {"PYTHONPATH": str(compiled_zaichik()), "PYTHONSAFEPATH": "1"}


class ZaichikCompiledPeer(Compiled):
    """The same broker and client, compiled."""

    label = COMPILED
    scenarios = frozenset({*Peer.scenarios, "calls", "script", "work"})


PEER = ZaichikCompiledPeer()
