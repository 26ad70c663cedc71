"""A stage: step by step, forwards and back, and the same each time."""

import math
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest

import zaichik
from zaichik.apps.web.stage import stage as stage_module
from zaichik.apps.web.stage.knobs import values
from zaichik.apps.web.stage.scenes import SCENES
from zaichik.apps.web.stage.stage import staged

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("refused_once")]


def on_stage(slug, **knobs):
    return staged(SCENES[slug], values(SCENES[slug].knobs, knobs))


async def first_steps(count, slug, **knobs):
    async with on_stage(slug, **knobs) as stage:
        for _ in range(count):
            await stage.step()
        return stage.history(count + 1)


@pytest.mark.parametrize("slug", ["wall", "play"])
async def test_the_same_seed_and_knobs_give_the_same_readings(slug):
    assert await first_steps(12, slug, seed=3) == await first_steps(12, slug, seed=3)


async def test_another_seed_is_another_play():
    assert await first_steps(6, "play", seed=3) != await first_steps(6, "play", seed=4)


async def test_what_was_before_can_be_seen_again_and_the_scene_goes_on_from_there():
    async with on_stage("again") as stage:
        before = stage.reading()
        stage.back()
        assert stage.reading() == before
        for _ in range(3):
            await stage.step()
        third = stage.reading()
        stage.back()
        assert stage.reading()["is_past"]
        assert stage.reading()["step"] == 2
        await stage.step()
        assert stage.reading() == third
        await stage.step()
        assert (stage.reading()["step"], stage.reading()["is_past"]) == (4, False)
        assert [event["text"] for event in stage.reading()["events"]] == ["leaves"]


async def test_a_scene_ends_and_then_nothing_more_happens():
    async with on_stage("twice") as stage:
        assert not stage.is_over
        await stage.run(math.inf)
        assert stage.is_over
        end = stage.reading()
        await stage.step()
        assert stage.reading() == end
        stage.back()
        assert not stage.is_over


async def test_running_waits_for_as_long_as_the_scene_does_at_that_speed(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    async with on_stage("window") as stage:
        with monkeypatch.context() as patched:
            # The stage's only: the broker beside it sleeps between its sweeps, and would never do
            # anything else.
            patched.setattr(
                stage_module, "anyio", SimpleNamespace(sleep=sleep, CancelScope=anyio.CancelScope)
            )
            await stage.run(4.0)
    assert slept == [0, 1, 1, 1, 4.5]


async def test_two_who_step_at_once_take_two_steps():
    async with on_stage("evict") as stage:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.step)
            tasks.start_soon(stage.step)
        assert stage.reading()["topic"]["published"] == stage.position == 2


async def test_a_step_whose_asker_goes_away_is_taken_all_the_same():
    async with on_stage("evict") as stage:
        read = stage._read
        async with anyio.create_task_group() as tasks:

            async def read_for_nobody():
                tasks.cancel_scope.cancel()
                return await read()

            stage._read = read_for_nobody
            tasks.start_soon(stage.step)
        stage._read = read
        assert len(stage._done) == 1
        await stage.step()
        await stage.step()
        assert stage.reading()["topic"]["published"] == stage.position == 3


async def test_a_step_is_over_when_no_reader_is_to_be_sent_anything():
    async with on_stage("evict") as stage:
        ask, busy = stage._teacher.subscriptions, [[{"waiting_for_code": "connection"}]] * 3

        async def subscriptions(topic):
            return busy.pop() if busy else await ask(topic)

        stage._teacher.subscriptions = subscriptions
        await stage.step()
        assert busy == []


async def test_what_a_reader_has_stepped_past_is_settled_in_the_same_step():
    (*_, taken) = await first_steps(3, "again")
    assert taken["events"][0]["text"] == "takes 3 messages: offsets 0 to 2"
    assert taken["readers"][0]["committed"] == 2


async def test_free_play_ends_when_its_readings_are_as_many_as_are_kept(monkeypatch):
    monkeypatch.setattr(stage_module, "MOST_STEPS", 3)
    async with on_stage("play") as stage:
        await stage.run(math.inf)
        assert stage.position == 3
        await stage.step()
        assert stage.position == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_time_that_flies_disconnects_nobody(monkeypatch, anyio_backend):
    servers = []

    @asynccontextmanager
    async def running(**options):
        async with zaichik.running_broker(**options) as server:
            servers.append(server)
            yield server

    monkeypatch.setattr(stage_module, "running_broker", running)
    async with on_stage("evict") as stage:
        for _ in range(55):  # of each, little counts: it looks as if the broker had been stalled
            await stage._teacher.advance_clock(30)
            servers[0].sweep()
        await stage.step()
        assert stage.reading()["topic"]["published"] == 1
        assert (await stage._teacher.describe())["disconnects"] == {}


async def test_what_has_happened_is_told_in_words_with_the_time_and_the_actor():
    (*_, last) = await first_steps(9, "evict")
    at_us = stage_module.START_US + 8_000_000
    assert last["events"] == [
        {"at_us": at_us, "actor": "ana", "text": "publishes 1 message: offset 8"},
        {"at_us": at_us, "actor": "", "text": "1 message evicted, to make room"},
    ]
    assert last["now_us"] == at_us


async def test_a_reader_that_runs_out_of_credit_is_told_of_once():
    readings = await first_steps(8, "gate")
    told = [
        event["text"]
        for reading in readings
        for event in reading["events"]
        if "credit" in event["text"]
    ]
    assert told == ["is out of credit: 4 messages in flight"]
