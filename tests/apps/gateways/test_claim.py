"""One gateway of a kind at a broker."""

import logging
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint
from brokers import GUARD

import zaichik
from zaichik.apps.gateways.claim import NAME, AlreadyServed, Claim

pytestmark = pytest.mark.anyio

TOPIC = "front/gateway"
TOKENS = {"ana": f"zk_{'a' * 43}", "bob": f"zk_{'b' * 43}"}


@asynccontextmanager
async def two_clients(**options):
    """A broker, and two clients of it."""
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker(**options) as broker,
            zaichik.connect(port=broker.port, name="first") as first,
            zaichik.connect(port=broker.port, name="second") as second,
        ):
            yield first, second


async def test_a_second_gateway_is_told_which_one_is_there_and_how_to_end_it():
    async with two_clients() as (first, second), Claim(first, TOPIC, "Esperanto"):
        (row,) = await first.subscriptions(TOPIC)
        with pytest.raises(AlreadyServed) as told:
            async with Claim(second, TOPIC, "Esperanto"):
                pass
    assert str(told.value) == (
        f"another gateway for Esperanto is at this broker (connection {row['connection']}, "
        "first), and two would undo each other's work: stop it first, or if it hangs, end it "
        f"with: zaichik disconnect {row['connection']}"
    )


async def test_one_that_has_ended_leaves_room_for_another():
    async with two_clients() as (first, second):
        async with Claim(first, TOPIC, "Esperanto"):
            pass
        # What the first one has said last is on its way.
        await first.ping()
        async with Claim(second, TOPIC, "Esperanto"):
            pass


async def test_of_two_that_start_at_once_the_earlier_one_ends():
    async with (
        two_clients() as (first, second),
        Claim(first, TOPIC, "Esperanto") as earlier,
        # It has looked, too, before the name had a reader.
        second.subscribe(TOPIC, name=NAME),
    ):
        with pytest.raises(AlreadyServed, match="for Esperanto has begun at this broker"):
            await earlier.hold()


async def test_what_others_put_into_the_topic_changes_nothing():
    async with (
        two_clients() as (first, second),
        Claim(first, TOPIC, "Esperanto") as claim,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(claim.hold)
        await second.publish(TOPIC, b"me too")
        while (await first.subscriptions(TOPIC))[0]["committed"] == 0:
            await checkpoint()
        with pytest.raises(AlreadyServed):
            await Claim(second, TOPIC, "Esperanto").__aenter__()
        tasks.cancel_scope.cancel()


async def test_a_claim_whose_topic_is_gone_is_made_again():
    async with (
        two_clients() as (first, second),
        Claim(first, TOPIC, "Esperanto") as claim,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(claim.hold)
        await second.delete_topic(TOPIC)
        while not (await second.topic(TOPIC) and await second.subscriptions(TOPIC)):
            await checkpoint()
        with pytest.raises(AlreadyServed):
            await Claim(second, TOPIC, "Esperanto").__aenter__()
        tasks.cancel_scope.cancel()


async def test_without_the_right_to_it_nothing_is_prevented_and_the_log_says_so(caplog):
    rules = "user ana\nallow all orders\nallow describe $broker\n"
    with anyio.fail_after(GUARD), caplog.at_level(logging.WARNING):
        async with (
            zaichik.running_broker(users=TOKENS, rules=rules) as broker,
            zaichik.connect(f"zaichik://{TOKENS['ana']}@127.0.0.1:{broker.port}") as client,
            Claim(client, TOPIC, "Esperanto") as claim,
        ):
            await claim.hold()
    assert "another gateway of this kind would not be noticed" in caplog.text
