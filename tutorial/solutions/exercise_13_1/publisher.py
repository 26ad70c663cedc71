"""A publisher that tries again when its broker cannot be reached."""

import secrets
from typing import Any

import anyio
from batches import Message, encode_batch
from client import connect
from construct import Container

LOST = (anyio.EndOfStream, anyio.BrokenResourceError, OSError)
PAUSE_S = 0.1  # between two attempts


def new_producer() -> dict[str, int]:
    """The numbers of a first batch."""
    return {"producer": secrets.randbits(64), "sequence": 0}


class Publisher:
    """Publishes batches, each once, however often it has to be sent."""

    def __init__(self, port: int, patience: float = 30.0) -> None:
        self._port, self._patience = port, patience
        self._number = new_producer()

    async def publish(self, topic: str, batch: list[Message]) -> Container[Any]:
        """Send a batch until it is answered. Returns the answer.

        Raises:
            ConnectionError: none has come for too long. Nobody knows
                whether the batch was stored.
        """
        fields = {"topic": topic.encode(), "batch": encode_batch(batch)}
        answer = None
        with anyio.move_on_after(self._patience):
            while answer is None:
                try:
                    async with connect(self._port) as client:
                        answer = await client.ask("publish", **self._number, **fields)
                except* LOST:
                    await anyio.sleep(PAUSE_S)
        if answer is None:  # its number is spent: it may be stored, or not
            self._number = new_producer()
            raise ConnectionError(f"no answer for {self._patience:g} s")
        self._number["sequence"] += 1  # only now: the next one is new
        return answer
