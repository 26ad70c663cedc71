"""A publisher that tries again when its broker cannot be reached."""

import secrets
from typing import Any

import anyio
from batches import Message, encode_batch
from client import connect
from construct import Container
from errors import Refused

LOST = (anyio.EndOfStream, anyio.BrokenResourceError, OSError)
PAUSE_S = 0.1  # between two attempts


class Publisher:
    """Publishes batches, each once, however often it has to be sent."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._number = self._new_number()

    async def publish(
        self, topic: str, batch: list[Message]
    ) -> Container[Any]:
        """Send a batch until it is answered. Returns the answer."""
        fields = {"topic": topic.encode(), "batch": encode_batch(batch)}
        answer = None
        while answer is None:
            try:
                async with connect(self._port) as client:
                    answer = await client.ask(
                        "publish", **self._number, **fields
                    )
            except* LOST:
                await anyio.sleep(PAUSE_S)
            except* Refused:  # an answer, too: the next batch is a new one
                self._number = self._new_number()
                raise
        self._number["sequence"] += 1  # only now: the next one is new
        return answer

    def _new_number(self) -> dict[str, int]:
        """A random id, and the first sequence number."""
        return {"producer": secrets.randbits(64), "sequence": 0}
