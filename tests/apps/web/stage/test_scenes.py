"""What the scenes say is true of the rules, of the tutorial, and, in every run, of the broker."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import picture
from zaichik.apps.views.topic_state import TopicState
from zaichik.apps.web.stage.knobs import values
from zaichik.apps.web.stage.scenes import SCENES
from zaichik.apps.web.stage.stage import START_US, staged

ROOT = Path(__file__).parents[4]
BOUNDS = [pytest.param(bound, marks=pytest.mark.unmeasured) for bound in ("minimum", "maximum")]
LESSON = [slug for slug in SCENES if slug != "play"]

pytestmark = pytest.mark.usefixtures("refused_once")


@pytest.mark.parametrize("slug", SCENES)
def test_the_rules_and_the_chapter_of_a_scene_exist(slug):
    text = (ROOT / "docs" / "understand" / "semantics.md").read_text(encoding="utf-8")
    known = {
        *re.findall(r"^- \*\*([A-Z]+-\d+)\*\*", text, re.MULTILINE),
        *re.findall(r"^## (.+)$", text, re.MULTILINE),
    }
    assert set(SCENES[slug].words["rules"]) <= known
    chapter = SCENES[slug].words["chapter"]
    assert not chapter or (ROOT / "tutorial" / chapter / "README.md").exists()


def test_the_table_of_scenes_is_what_the_scenes_say():
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", "docs/teach/stage.md"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run `make docs`\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("slug", LESSON)
def test_the_choices_differ_whatever_the_knobs_and_one_of_them_is_right(slug):
    knobs = SCENES[slug].knobs[:-1]
    ranges = [
        range(knob.minimum, knob.maximum + 1, max(1, (knob.maximum - knob.minimum) // 7))
        for knob in knobs
    ]
    for chosen in itertools.product(*ranges):
        words = (
            SCENES[slug]
            .script(dict(zip([knob.name for knob in knobs], chosen, strict=True)) | {"seed": 1})
            .words
        )
        assert len(set(words["choices"])) == 3
        assert words["right"] in range(3)
        assert "{" not in words["question"] + "".join(words["choices"])


def corner(slug, bound):
    """The knobs of a scene, all at their defaults, or at one of their bounds."""
    return {knob.name: getattr(knob, bound) for knob in SCENES[slug].knobs}


async def played(slug, chosen):
    """All readings of a scene, and its words."""
    async with staged(SCENES[slug], values(SCENES[slug].knobs, chosen)) as stage:
        while not stage.is_over:
            await stage.step()
        return stage.history(2000), stage.words


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("bound", ["default", *BOUNDS])
@pytest.mark.parametrize("slug", LESSON)
@pytest.mark.anyio
async def test_the_right_answer_is_what_happens(slug, bound, anyio_backend):
    chosen = corner(slug, bound)
    readings, words = await played(slug, chosen)
    del chosen["seed"]
    assert TRUTHS[slug](readings, words, **chosen) == words["right"]
    check_law(readings[-1])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_reader_that_comes_late_finds_what_is_still_kept(anyio_backend):
    readings, words = await played("late", {"retention": 3, "when": 7})
    assert late(readings, words, 3, 7) == words["right"]
    assert words["choices"][0].startswith("the 3 that are still kept")


@pytest.mark.unmeasured
@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("slug", ["gate", "again", "takeover", "wall"])
@pytest.mark.anyio
async def test_the_same_happens_on_the_other_backend(slug, anyio_backend):
    readings, words = await played(slug, {})
    chosen = corner(slug, "default")
    del chosen["seed"]
    assert TRUTHS[slug](readings, words, **chosen) == words["right"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.anyio
async def test_free_play_goes_on_at_the_bounds_of_its_knobs(bound, anyio_backend):
    chosen = corner("play", bound)
    async with staged(SCENES["play"], values(SCENES["play"].knobs, chosen)) as stage:
        for _ in range(20):
            await stage.step()
            check_law(stage.reading())
            assert all(row["in_flight"] <= chosen["credit"] for row in stage.reading()["readers"])
        assert not stage.is_over


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_in_free_play_the_last_reader_stops_and_is_left_behind(anyio_backend):
    knobs = {"stops": 1, "readers": 2, "rate": 16, "capacity": 4}
    async with staged(SCENES["play"], values(SCENES["play"].knobs, knobs)) as stage:
        while stage.reading()["elapsed_s"] < 4:
            await stage.step()
    first, last = stage.reading()["readers"]
    assert first["cursor"] > last["cursor"] == last["credit"]
    assert stage.reading()["topic"]["head"] > last["cursor"]


def check_law(reading):
    """Nothing is lost in silence, and the reading can be drawn."""
    assert not any(reading["topic"]["left_over"].values())
    assert not any(over for row in reading["readers"] for over in row["left_over"].values())
    state, memory = TopicState.of(reading), Memory()
    memory.seen(state)
    assert picture(state, memory, 80).sentence


# -- which of the three choices has come true ----------------------------------------------------


def texts(readings, actor):
    return [
        event["text"]
        for reading in readings
        for event in reading["events"]
        if event["actor"] == actor
    ]


def reader(reading, client):
    return next(row for row in reading["readers"] if row["client"] == client)


def copy(readings, words, readers):
    assert [row["committed"] for row in readings[-1]["readers"]] == [1] * readers
    return [readers, readers + 1, 1].index(readings[-1]["topic"]["resident"])


def late(readings, words, retention, when):
    kept = [at for at in range(when + 1) if at + retention > when]
    new = range(when + 1, 12)
    row = reader(readings[-1], "late")
    assert row["skipped"] == 0
    assert (
        words["choices"][0]
        == f"the {len(kept)} that are still kept, and then the {len(new)} new ones"
    )
    return [len(kept) + len(new), len(new), len(kept)].index(row["delivered"])


def ttl(readings, words, retention, every):
    assert reader(readings[-1], "in time")["start"] == 0
    return 1 if reader(readings[-1], "too late")["start"] == 1 else 2


def evict(readings, words, capacity, batch):
    topic = readings[-1]["topic"]
    gone = list(range(topic["next_offset"]))[: -topic["resident"]]
    assert f"and {topic['published']} come" in words["question"]
    assert topic["expired"] == 0
    assert len(gone) == topic["evicted"]
    return [None, [], [0, 1, 2, 3]].index(gone)


def lag(readings, words, capacity, stop, rate):
    row = reader(readings[-1], "slow")
    assert f"; {row['cursor'] - stop} more come" in words["question"]
    assert row["cursor"] == readings[-1]["topic"]["next_offset"]
    told = [text for text in texts(readings, "slow") if "loss" in text]
    assert row["skipped"] == 5
    return [[f"is told of the loss of 5 messages: offsets {stop} to {stop + 4}"], [], None].index(
        told
    )


def gate(readings, words, credit):
    passed = next(
        reading for reading in readings if any(row["cursor"] > credit for row in reading["readers"])
    )
    assert reader(passed, "busy")["skipped"] == 2
    verb = {event["actor"]: event["text"] for event in passed["events"]}["busy"]
    return {"ana": 0, "commits up to 1": 1}[verb]


def mint(readings, words, credit, offset):
    assert f"commits up to {offset}, and is refused: NOT_IN_FLIGHT" in texts(readings, "eager")
    return [credit, credit + 1, credit - 2].index(
        credit - reader(readings[-1], "eager")["in_flight"]
    )


def again(readings, words, pause):
    start = reader(readings[-1], "reader")["start"]
    assert ("takes again 3 messages: offsets 2 to 4" in texts(readings, "reader")) == (start == 2)
    return [5, 2, 0].index(start)


def takeover(readings, words, before):
    after = next(reading for reading in readings if reading["topic"]["published"] > before)
    assert "is told that another reader has its name now: TAKEN_OVER" in texts(readings, "first")
    return {("second",): 2, ("first",): 0}[
        tuple(row["client"] for row in after["readers"] if row["cursor"] == before + 1)
    ]


def wall(readings, words, capacity, speed):
    row = reader(readings[-1], "slow")
    waits = [
        number for number, text in enumerate(texts(readings, "ana")) if text.startswith("waits")
    ]
    assert texts(readings, "ana")[waits[0] + 1 :][0].startswith(("waits", "publishes"))
    assert row["skipped"] == 0
    assert readings[-1]["topic"]["head"] <= row["committed"]
    assert any(text.startswith("publishes") for text in texts(readings, "ana")[waits[0] :]), (
        "it goes on afterwards"
    )
    return 0


def window(readings, words, window):
    stored = [(message["accepted_us"] - START_US) / 1e6 for message in readings[-1]["messages"]]
    right = [float(number) for number in re.findall(r"\d+", words["choices"][1])]
    assert readings[-1]["drops"] == {"kim": 5 - len(stored)}
    return [[0.0, 30.0], right, [0.0, 4.0, 8.0, 12.0, 30.0]].index(stored)


def twice(readings, words, times, numbered):
    return [1, times].index(readings[-1]["topic"]["stored"])


TRUTHS = {
    truth.__name__: truth
    for truth in (copy, late, ttl, evict, lag, gate, mint, again, takeover, wall, window, twice)
}  # fmt: skip
