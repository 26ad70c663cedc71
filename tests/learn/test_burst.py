"""What a burst of publishes must leave behind, judged without a broker."""

import re
from random import Random
from types import SimpleNamespace

import anyio
import pytest
from learn_hosts import answering

from zaichik.learn import wire
from zaichik.learn.burst import Burst
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import LEAST, TYPES
from zaichik.learn.trial import Pace, Trial


def a_burst():
    """Two publishers; the second batch of the first is acknowledged and read to its end."""
    burst = Burst(SimpleNamespace(rng=Random(0)), "t")
    burst.sent[0] += [[b"0.0.0"], [b"0.1.0", b"0.1.1"], [b"0.2.0"]]
    burst.sent[1] += [[b"1.0.0", b"1.0.1"], [b"1.1.0"]]
    burst.answered[0, 1] = 1
    burst.seen[2] = b"0.1.1"
    return burst


@pytest.mark.parametrize(
    "kept",
    [
        [b"0.0.0", b"0.1.0", b"0.1.1"],
        [b"0.0.0", b"0.1.0", b"0.1.1", b"1.0.0", b"1.0.1", b"0.2.0", b"1.1.0"],
        [b"0.0.0", b"0.1.0", b"0.1.1", b"1.1.0"],
    ],
    ids=["what was answered", "everything", "what was not answered may be missing"],
)
def test_what_may_be_there(kept):
    a_burst().check(kept)


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        ([], "acknowledged with offset 1 is missing"),
        ([b"0.0.0"], "acknowledged with offset 1 is missing"),
        ([b"0.1.0", b"0.1.1"], "acknowledged with offset 1 is at 0"),
        ([b"0.0.0", b"0.1.0"], "the batch at offset 1 is incomplete"),
        ([b"0.0.0", b"0.1.1"], "offset 1 is not the start of a batch that was sent"),
        ([b"0.0.0", b"0.1.0", b"0.1.1", b"?"], "offset 3 is not the start of a batch"),
        (
            [b"0.0.0", b"0.1.0", b"0.1.1", b"0.1.0", b"0.1.1"],
            "the batch at offset 3 is there twice",
        ),
        (
            [b"1.1.0", b"0.1.0", b"0.1.1", b"1.0.0", b"1.0.1"],
            "the batch at offset 3 is there twice, or after a later one",
        ),
    ],
)
def test_what_must_not_be(kept, says):
    with pytest.raises(Failure, match=f"^after kill -9, .*{re.escape(says)}") as failed:
        a_burst().check(kept)
    assert failed.value.excerpt[-1].endswith("5 batches were sent)")


def test_what_was_delivered_is_acknowledged_in_a_way():
    burst = a_burst()
    burst.answered.clear()
    with pytest.raises(Failure, match="the message delivered with offset 2 is missing"):
        burst.check([b"0.0.0"])


@pytest.mark.anyio
async def test_a_broker_that_stops_answering_is_not_waited_for():
    """It greets, and it answers the Subscribe, and that is all."""
    limits = LEAST | {"version": 1, "features": 0, "idle_ms": 0, "broker": "mute"}

    async def handle(stream):
        await stream.receive()
        await stream.send(wire.encode("Welcome", frame_id=1, **limits))
        if (await stream.receive())[4] == TYPES["Subscribe"]:
            await stream.send(
                wire.encode("Subscribed", frame_id=2, epoch=1, start=0, live=0, committed=0)
            )
        async for _ in stream:
            pass

    async with answering(handle) as host:
        trial = Trial(await host.ready(), host, name="t", stage=5, seed=0, pace=Pace(patience=0.3))
        async with trial.running():
            with pytest.raises(ExceptionGroup) as failed, anyio.fail_after(60):
                await Burst(trial, trial.topic()).until_killed(
                    SimpleNamespace(target=trial.target), 0
                )
    assert failed.group_contains(Failure, match=r"no reply to publishes came within 0\.3 s")
