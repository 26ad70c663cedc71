"""NATS JetStream in files, as it comes: it acknowledges what it has written, and syncs every two
minutes.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
from contextlib import suppress
from pathlib import Path

from benchmarks.obtain import Unobtainable, nats_server
from benchmarks.peers.jetstream import JetstreamLink, JetstreamPeer
from benchmarks.peers.nats import NatsLink
from benchmarks.peers.peer import executable

ALWAYS_SINCE = (2, 11)  # `sync_interval: always` is said to work since then
ASK_SECONDS = 0.005


class JetstreamFileLink(JetstreamLink):
    """Each topic is a stream of its own, in files."""

    storage = "file"

    async def stream(self, payload: bytes, messages: int) -> None:
        await NatsLink.stream(self, payload, messages)
        while await self._stored() < messages:  # noqa: ASYNC110 - the server tells only when asked
            await asyncio.sleep(ASK_SECONDS)

    async def _stored(self) -> int:
        stored: int = (await self._jetstream.stream_info(self._topic)).state.messages
        return stored


class JetstreamFilePeer(JetstreamPeer):
    """A server that could also sync always, so that both rows are of one release; or else the one
    installed here.
    """

    label = "NATS JetStream, file"
    keeps = "all but the last two minutes (its sync_interval)"
    share = 0.2
    scenarios = frozenset({"publishing", "work"})
    link_class: type[NatsLink] = JetstreamFileLink

    def missing(self) -> str:
        lacks = super().missing()
        return (
            lacks
            if not executable("go")
            else lacks.replace(f"the program {self.program}", "").strip(" and")
        )

    def fetch(self) -> None:
        with suppress(Unobtainable):
            self.take_recent()

    def take_recent(self) -> None:
        """Use a server that can sync always.

        Raises:
            Unobtainable: none is installed, and none could be compiled.
        """
        if self.release() < ALWAYS_SINCE:
            self.program = str(nats_server())

    def release(self) -> tuple[int, ...]:
        """Returns the version of the server's program; nothing if there is none."""
        return tuple(
            int(number)
            for number in self.server_version().rpartition(" ")[2].split(".")
            if number.isdigit()
        )

    def server_version(self) -> str:
        return super().server_version().replace(self.program, Path(self.program).name)


PEER = JetstreamFilePeer()
