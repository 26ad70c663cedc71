"""The broker's clock, read from outside: a Publish right before a request and one right after it.

The broker reads its clock once per request, never goes back, and reports the time as the batch's
`accepted_us`. So a request between two publishes is handled at a time between theirs, whatever the
network and the machine do meanwhile: a period can be checked to the millisecond without a clock of
our own.
"""

import time

import anyio

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

EARLY_US, PAUSE_S = 60_000, 0.004


def must_be_now(what: str, time_us: int, frame: Frame, clocks_may_differ_s: float) -> None:
    """A broker's time must be close to this machine's."""
    if abs(time_us / 1_000_000 - time.time()) > clocks_may_differ_s:
        problem = f"{what} is not the time of day in µs since 1970"
        raise Failure(problem, expected=f"about {round(time.time() * 1_000_000)}", frame=frame)


class Ticks:
    """Publishes to a topic, to read their times.

    Args:
        client: the connection to use.
        topic: the topic to publish to.
        subscription: the client's subscription to that topic.
    """

    def __init__(self, client: Connection, topic: str, subscription: int) -> None:
        self._client = client
        self._subscription = subscription
        self._tick = wire.encode("Publish", frame_id=0, topic=topic, batch=[(b"", b"tick")])

    @classmethod
    async def of(cls, trial: Trial, client: Connection) -> "Ticks":
        """Subscribe a client to a topic for ticks."""
        topic = trial.topic("ticks")
        return cls(client, topic, await client.subscribe(topic))

    async def _time(self) -> int:
        frame = await self._client.event(self._subscription, awaited="a tick")
        self._client.must_be(frame, "Messages")
        settle = {"subscription": self._subscription, "next": frame["base"] + len(frame["batch"])}
        await self._client.send("Commit", frame_id=0, **settle)
        return int(frame["accepted_us"])

    async def until(self, time_us: int) -> None:
        """Wait until shortly before this time, by the broker's clock."""
        await self._client.send_frame(self._tick)
        await anyio.sleep(max(0, time_us - EARLY_US - await self._time()) / 1_000_000)

    async def around(self, request: bytes, frame_id: int) -> tuple[Frame, int, int]:
        """Send a request. Returns its reply, and two times in µs between which it was handled."""
        await anyio.sleep(PAUSE_S)
        for frame in (self._tick, request, self._tick):
            await self._client.send_frame(frame)
        return await self._client.reply(frame_id), await self._time(), await self._time()

    def check_end(self, what: str, end_us: int, was_so: int | None, after: int) -> None:
        """Check that something holds before a time, and not from then on.

        Args:
            what: what holds, in words.
            end_us: the time at which it must end.
            was_so: a time at or before which it was seen to hold; None if it was seen not to hold.
            after: a time at or after the observation.

        Raises:
            Failure: it held for too long, or not long enough.
        """
        if was_so is not None and was_so >= end_us:
            problem = (
                f"{what} {(was_so - end_us) / 1000:g} ms after its end, by the broker's own clock"
            )
            raise Failure(problem, expected=f"until {end_us} µs", came=f"at {was_so} µs or later")
        if was_so is None and after < end_us:
            early = f"{(end_us - after) / 1000:g} ms before its end"
            problem = f"{what} no longer, {early}, by the broker's own clock"
            raise Failure(problem, expected=f"until {end_us} µs", came=f"it was over at {after} µs")
