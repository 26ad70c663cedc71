"""The state of a work queue, as a broker describes it."""

import pytest
from brokers import real_broker

import zaichik
from zaichik.apps.work.exporting import export
from zaichik.apps.work.queue_state import QueueState, state_of, user_of, what_holds

pytestmark = pytest.mark.anyio

NAME = "thumbs"
KEPT = {"retention_ttl": "forever", "overflow": "reject", "max_bytes": 2**20}


@pytest.fixture
async def broker():
    async with real_broker(max_dead=3) as made:
        yield made


@pytest.fixture
async def client(broker):
    async with zaichik.connect(broker.host, broker.port) as made:
        await made.create_topic("images", capacity=10, **KEPT)
        yield made


def shared(client, topic="images", **options):
    return client.subscribe(topic, name=NAME, shared=True, **options)


async def reject(client, count=1, reason="no such image"):
    """Publish so many messages, and reject them."""
    async with shared(client) as work:
        for _ in range(count):
            await client.publish("images", b"cat", key="k")
            await (await anext(work)).reject(reason)


async def test_what_is_left(client):
    await client.publish_batch("images", [(None, b"x")] * 5)
    async with shared(client, credit=2) as work:
        first, _ = await anext(work), await anext(work)
        state = await state_of(client, "images", NAME)
        assert (state.left, state.running, state.deaths) == (5, 2, 0)
        await first.done()
        assert (await state_of(client, "images", NAME)).left == 4
    state = await state_of(client, "images", NAME)
    assert (state.left, state.running, state.waits_for) == (4, 0, "a worker: nobody reads")


async def test_a_message_that_waits_to_be_tried_again_is_left(client):
    await client.publish("images", b"x")
    async with shared(client) as work:
        await (await anext(work)).retry()
        state = await state_of(client, "images", NAME)
        assert (state.left, state.waits_for) == (1, "time: what failed comes again later")


async def test_an_empty_queue(client):
    async with shared(client):
        state = await state_of(client, "images", NAME)
    assert state == QueueState(0, 0, 0, state.waits_for, is_serious=False, is_stuck=False)


async def test_deaths_are_counted_also_if_they_are_forgotten(client):
    await reject(client)
    await client.forget_dead("images", NAME)
    await reject(client)
    assert (await state_of(client, "images", NAME)).deaths == 2


async def test_too_many_dead(client):
    """SHR-5."""
    await reject(client, count=3)
    await client.publish("images", b"x")
    async with shared(client):
        state = await state_of(client, "images", NAME)
    assert (state.left, state.is_serious, state.is_stuck) == (1, True, True)


@pytest.mark.parametrize(("topic", "name"), [("images", "other"), ("other", NAME)])
async def test_no_such_name(client, topic, name):
    async with shared(client), client.subscribe("images", name="other"):
        assert await state_of(client, topic, name) is None
        assert await what_holds(client, topic, name) == ""


async def test_names_that_begin_alike_are_not_mistaken(client):
    async with (
        client.subscribe("images", name=f"{NAME}.6", shared=True),
        shared(client, "images2"),
        shared(client),
    ):
        await client.publish("images", b"x")
        assert (await state_of(client, "images", NAME)).left == 1
        assert (await state_of(client, "images2", NAME)).left == 0


async def test_two_users_have_chosen_the_same_name():
    """SHR-10: who may describe `$broker` sees both, and works at one of them."""
    tokens = {"ann": "zk_" + "a" * 43, "operator": "zk_" + "b" * 43}
    rules = "user *\nallow all *\nuser operator\nallow describe $broker\n"
    async with (
        zaichik.running_broker(users=tokens, rules=rules) as broker,
        zaichik.connect(f"zaichik://{tokens['ann']}@127.0.0.1:{broker.port}") as ann,
        zaichik.connect(f"zaichik://{tokens['operator']}@127.0.0.1:{broker.port}") as operator,
    ):
        await ann.create_topic("images", capacity=10, **KEPT)
        async with shared(ann, credit=2) as work, shared(operator):
            await ann.publish_batch("images", [(None, b"x")] * 6)
            await (await anext(work)).reject()
            assert (await user_of(ann), await user_of(operator)) == ("ann", "operator")
            theirs = await state_of(operator, "images", NAME, "ann")
            ours = await state_of(operator, "images", NAME, "operator")
            assert (theirs.deaths, ours.deaths) == (1, 0)
            assert (await state_of(ann, "images", NAME, "ann")).deaths == 1
            assert "offset 0" in await what_holds(operator, "images", NAME, "ann")
            assert await what_holds(operator, "images", NAME, "operator") == ""


async def test_a_dead_message_holds_the_log(client):
    """SHR-5: it is named from half on."""
    await reject(client)
    await client.publish_batch("images", [(None, b"x")] * 3)
    assert await what_holds(client, "images", NAME) == ""
    await client.publish_batch("images", [(None, b"x")])
    assert await what_holds(client, "images", NAME) == (
        "images is half full or more, and offset 0 holds all that comes after it: it is dead "
        "after 1 deliveries: no such image"
    )


async def test_so_does_one_that_waits(client):
    """SHR-5."""
    async with shared(client) as work:
        await client.publish_batch("images", [(None, b"x")] * 5)
        await (await anext(work)).retry(3600)
        assert "it failed, and waits" in await what_holds(client, "images", NAME)


async def test_a_long_queue_is_held_by_nothing(client):
    await client.publish_batch("images", [(None, b"x")] * 9)
    async with shared(client) as work:
        await anext(work)
        assert await what_holds(client, "images", NAME) == ""


async def test_a_topic_that_evicts_is_never_held(client):
    await client.create_topic("lossy", retention_ttl="forever", capacity=2)
    async with shared(client, "lossy") as work:
        await client.publish_batch("lossy", [(None, b"x")] * 2)
        await (await anext(work)).reject()
        assert await what_holds(client, "lossy", NAME) == ""


async def test_bytes_fill_a_topic_as_well(client):
    await client.create_topic("large", **KEPT | {"max_bytes": 10_000})
    async with shared(client, "large") as work:
        await client.publish("large", b"x" * 6_000)
        await (await anext(work)).reject()
        assert "large is half full" in await what_holds(client, "large", NAME)


async def test_dead_messages_are_copied_and_then_forgotten(client):
    await reject(client, count=3)
    dead = await client.dead("images", NAME)
    forgotten = []

    async def forget(offsets):
        forgotten.extend(offsets)

    await client.create_topic("failed", **KEPT)
    assert await export(client, "images", "failed", dead[1:], forget) == 2
    assert forgotten == [1, 2]
    async with client.subscribe("failed", until=2) as messages:
        assert [(it.key, it.payload) async for it in messages] == [(b"k", b"cat")] * 2


async def test_what_went_while_it_was_copied_is_not_forgotten(client):
    await client.create_topic("lossy", retention_ttl="forever", capacity=1)
    async with shared(client, "lossy") as work:
        await client.publish("lossy", b"x")
        await (await anext(work)).reject()
    dead = await client.dead("lossy", NAME)
    await client.publish("lossy", b"y")

    async def forget(offsets):
        raise AssertionError(offsets)

    await client.create_topic("failed", **KEPT)
    assert await export(client, "lossy", "failed", dead, forget) == 0
