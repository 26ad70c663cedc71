"""Models of 2020 show the fault, in the same form, and leave the real readings alone."""

import pytest

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import picture
from zaichik.apps.views.topic_state import TopicState
from zaichik.apps.web.stage.knobs import values
from zaichik.apps.web.stage.scenes import SCENES
from zaichik.apps.web.stage.stage import staged

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def both(slug):
    """The last reading of the broker, and that of the model."""
    async with staged(SCENES[slug], values(SCENES[slug].knobs, {})) as stage:
        assert stage.models()[0]["readers"] == []
        while not stage.is_over:
            await stage.step()
        before = stage.reading()
        *earlier, model = stage.models()
        assert len(earlier) == min(15, stage.position)
        assert stage.reading() == before
    memory = Memory()
    for reading in (*earlier, model):
        memory.seen(TopicState.of(reading))
    assert picture(TopicState.of(model), memory, 80).sentence
    assert model["model"].startswith("a model of 2020, not a broker: ")
    assert set(before) <= set(model)
    return before, model


async def test_every_reader_has_a_copy_of_its_own():
    here, there = await both("copy")
    assert (here["topic"]["resident"], there["topic"]["resident"]) == (1, 3)
    assert [message["payload"] for message in there["messages"]] == ["order 1"] * 3
    assert [(row["start"], row["cursor"]) for row in there["readers"]] == [(0, 1), (1, 2), (2, 3)]


async def test_readers_of_the_first_of_two_topics_hear_nothing():
    here, there = await both("late")
    assert [row["cursor"] for row in here["readers"]] == [12, 12]
    assert [(row["client"], row["cursor"], row["ahead"]) for row in there["readers"]] == [
        ("early", 0, 12), ("late", 12, 0),
    ]  # fmt: skip


async def test_a_reader_that_has_lagged_freezes_where_it_was():
    here, there = await both("lag")
    assert (here["readers"][0]["skipped"], here["readers"][0]["ahead"]) == (5, 0)
    assert (
        there["readers"][0]["skipped"],
        there["readers"][0]["cursor"],
        there["readers"][0]["ahead"],
    ) == (0, 3, 13)


async def test_a_reader_that_subscribes_again_gets_one_message_too_many():
    here, there = await both("gate")
    assert (here["readers"][0]["in_flight"], there["readers"][0]["in_flight"]) == (4, 5)


async def test_other_scenes_have_no_model():
    async with staged(SCENES["twice"], values(SCENES["twice"].knobs, {})) as stage:
        assert stage.models() == []
