"""A request that is sent again is carried out once."""

import anyio
import pytest

from zaichik.apps.web.topics import idempotency
from zaichik.apps.web.topics.idempotency import Idempotency
from zaichik.apps.web.topics.producers import Number
from zaichik.apps.web.topics.statuses import Refusal

pytestmark = pytest.mark.anyio


async def answered(known, user="ana", topic="orders", key="k", digest=b"d", answer=b"{}"):
    """Returns what was remembered, and remembers an answer if that was nothing."""
    async with known.turn(user, topic, key, digest) as attempt:
        before = attempt.answer
        if not before:
            attempt.number = Number.fresh(topic)
            known.keep(attempt, answer)
        return before


async def test_a_key_belongs_to_a_user_and_a_topic():
    known = Idempotency()
    assert await answered(known) == b""
    assert await answered(known) == b"{}"
    assert await answered(known, user="bob") == b""
    assert await answered(known, topic="bills") == b""
    assert await answered(known, key="l") == b""


async def test_a_key_stands_for_one_thing():
    known = Idempotency()
    await answered(known)
    with pytest.raises(Refusal) as caught:
        await answered(known, digest=b"e")
    assert caught.value.status == 422


async def test_a_request_waits_for_the_one_that_it_repeats():
    known, answers, go = Idempotency(), [], anyio.Event()

    async def first():
        async with known.turn("ana", "orders", "k", b"d") as attempt:
            await go.wait()
            attempt.number = Number.fresh("orders")
            known.keep(attempt, b"first")

    async def second():
        answers.append(await answered(known))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        go.set()
    assert answers == [b"first"] * 3


async def test_a_request_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(idempotency, "TURN_S", 0.01)
    known = Idempotency()
    async with known.turn("ana", "orders", "k", b"d"), anyio.create_task_group() as tasks:

        async def second():
            with pytest.raises(Refusal) as caught:
                await answered(known)
            assert (caught.value.status, caught.value.is_temporary) == (503, True)

        tasks.start_soon(second)
    # Nothing is left of either.
    assert known._users == {}


async def test_a_request_that_is_under_way_is_not_forgotten():
    known = Idempotency(most=2)
    async with known.turn("ana", "orders", "k", b"d") as attempt:
        for key in "abc":
            await answered(known, key=key)
        attempt.number = Number.fresh("orders")
        known.keep(attempt, b"kept")
    assert await answered(known) == b"kept"


async def test_a_request_that_was_given_up_leaves_its_number_to_the_next():
    known = Idempotency()
    async with known.turn("ana", "orders", "k", b"d") as attempt:
        attempt.number = number = Number.fresh("orders")
    async with known.turn("ana", "orders", "k", b"d") as attempt:
        assert attempt.number is number


async def test_a_request_that_was_refused_is_forgotten():
    known = Idempotency()
    async with known.turn("ana", "orders", "k", b"d"):
        pass
    assert await answered(known, digest=b"e") == b""


async def test_the_oldest_key_of_the_user_who_has_most_is_forgotten_first():
    known = Idempotency(most=4)
    await answered(known, user="bob", key="0")
    for number in range(10):
        await answered(known, key=str(number))
    assert await answered(known, user="bob", key="0") == b"{}"
    assert [await answered(known, key=key) for key in "987"] == [b"{}"] * 3
    assert await answered(known, key="6") == b""


async def test_long_answers_are_forgotten_sooner(monkeypatch):
    monkeypatch.setattr(idempotency, "MOST_BYTES", 250)
    known = Idempotency()
    for key in "abc":
        await answered(known, key=key, answer=b"x" * 100)
    assert await answered(known, key="c") == b"x" * 100
    assert await answered(known, key="a") == b""


@pytest.mark.parametrize("key", ["", " ", "a ", "\u00e9", "a\tb", "a" * 256])
async def test_what_is_no_key_is_refused(key):
    with pytest.raises(Refusal) as caught:
        await answered(Idempotency(), key=key)
    assert caught.value.status == 400


async def test_a_key_may_have_spaces_inside():
    assert await answered(Idempotency(), key='"a key" = 1') == b""
