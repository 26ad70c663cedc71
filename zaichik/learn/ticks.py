"""The broker's clock, read from outside: a Publish right before a request and one right behind it.

The broker reads its clock once a request, never backwards, and tells the reading as the batch's `accepted_us`. So a
request that comes between two publishes is judged at a time between theirs, whatever the network and the machine do
meanwhile: a period can be checked to the millisecond without a watch.
"""

import time

import anyio

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failed
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

EARLY_US, PAUSE_S = 60_000, 0.004


def must_be_now(what: str, time_us: int, frame: Frame, clocks_may_differ_s: float) -> None:
    """What a broker tells as the time must be near this machine's."""
    if abs(time_us / 1_000_000 - time.time()) > clocks_may_differ_s:
        problem = f"{what} is not the time of day in µs since 1970"
        raise Failed(problem, expected=f"about {round(time.time() * 1_000_000)}", frame=frame)


class Ticks:
    """A topic of publishes whose times are read.

    Args:
        client: the connection that asks.
        topic: of the publishes.
        subscription: its own, to that topic.
    """

    def __init__(self, client: Connection, topic: str, subscription: int) -> None:
        self._client = client
        self._subscription = subscription
        self._tick = wire.encode("Publish", frame_id=0, topic=topic, batch=[(b"", b"tick")])

    @classmethod
    async def of(cls, trial: Trial, client: Connection) -> "Ticks":
        """Of a client, over its own connection."""
        topic = trial.topic("ticks")
        return cls(client, topic, await client.subscribe(topic))

    async def _time(self) -> int:
        frame = await self._client.event(self._subscription, awaited="a tick")
        self._client.must_be(frame, "Messages")
        settle = {"subscription": self._subscription, "next": frame["base"] + len(frame["batch"])}
        await self._client.send("Commit", frame_id=0, **settle)
        return int(frame["accepted_us"])

    async def until(self, time_us: int) -> None:
        """Wait until shortly before the broker's clock shows this."""
        await self._client.send_frame(self._tick)
        await anyio.sleep(max(0, time_us - EARLY_US - await self._time()) / 1_000_000)

    async def around(self, request: bytes, frame_id: int) -> tuple[Frame, int, int]:
        """The reply to a request; a time at or before it was judged, in µs, and one at or after it."""
        await anyio.sleep(PAUSE_S)
        for frame in (self._tick, request, self._tick):
            await self._client.send_frame(frame)
        return await self._client.reply(frame_id), await self._time(), await self._time()

    def judge(self, what: str, end_us: int, was_so: int | None, after: int) -> None:
        """Something must be so before a time, and not from it on.

        Args:
            what: in words.
            end_us: the time.
            was_so: a time at or before it was seen to be so; None if it was seen not to be so.
            after: a time at or after it was seen.

        Raises:
            Failed: it was so too late, or not so too early.
        """
        if was_so is not None and was_so >= end_us:
            problem = f"{what} {(was_so - end_us) / 1000:g} ms after its end, by the broker's own clock"
            raise Failed(problem, expected=f"until {end_us} µs", came=f"at {was_so} µs or later")
        if was_so is None and after < end_us:
            problem = f"{what} no more {(end_us - after) / 1000:g} ms before its end, by the broker's own clock"
            raise Failed(problem, expected=f"until {end_us} µs", came=f"it was over at {after} µs")
