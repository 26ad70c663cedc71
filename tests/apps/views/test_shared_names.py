"""Shared names: what is open, who has it since when, and why nothing is handed out."""

import json
from dataclasses import replace

import pytest
from sharing_clients import Sharing, seconds, work
from test_text import check_golden

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import picture
from zaichik.apps.views.shared_names import shared_names
from zaichik.apps.views.text import lines
from zaichik.apps.views.topic_state import TopicState
from zaichik_protocol import Describe, Kind, Outcome

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "40x8": (40, 8), "80x12": (80, 12)}


def reading(client):
    pages = {}
    for kind in (Kind.TOPICS, Kind.FURTHEST):
        (reply,) = client.ask(Describe(client.next_id(), kind, "t", limit=500))
        pages |= json.loads(reply.json)
    topic = pages["topics"][0]
    return TopicState.of(
        {
            "now_us": pages["now_us"],
            "boot": 1,
            "topic": topic,
            "readers": pages["subscriptions"],
        }
    )


@pytest.fixture(scope="module")
def state():
    """Two workers are busy, one of them too long; one message waits for its time, one is dead."""
    broker, client = work(20)
    slow = Sharing(broker)
    slow.share(name="thumbs", credit=2, timeout_ms=30_000)
    seconds(broker, 10)
    subscription, _ = client.share(name="thumbs", credit=4)
    client.settle(subscription, Outcome.RETRY, 2, delay_s=300)
    client.settle(subscription, Outcome.REJECT, 3, reason="no such image")
    client.done(subscription, 4)
    seconds(broker, 32)
    return reading(client)


def test_of_a_shared_name_everything_is_told(state):
    (name,) = shared_names(state)
    assert (name.label, name.workers, name.open, name.with_workers) == ("thumbs", 2, 7, 4)
    assert (name.waiting, name.dead, name.to_hand_out) == (3, 1, 11)
    assert name.words == [
        "4 with 2 workers",
        "3 waiting (next in 4.5m)",
        "1 dead",
        "11 to hand out",
    ]
    assert name.held_words == "4 with 2 workers, the oldest for 42s"


def test_workers_say_what_they_have_and_for_how_long(state):
    (name,) = shared_names(state)
    slow, quick = name.busiest
    assert slow.words == "2 for 42s, 2 overdue"
    assert quick.words == "4 for 32s"
    assert replace(quick, has=0).words == "nothing"
    assert replace(quick, seconds=None).words == "4"


def test_its_workers_have_no_lanes_of_their_own(state):
    drawn = picture(state, Memory(), 1200)
    (lane,) = drawn.lanes
    assert (lane.label, lane.state, lane.behind, lane.in_flight) == ("thumbs", "at work", 11, 7)
    assert "it waits for " in lane.sentence
    zones = {mark.kind: (mark.first, mark.end) for mark in drawn.marks if mark.lane}
    assert zones["shared"] == (0, 9)
    assert zones["lag"] == (9, 20)
    assert state.all_readers == 1


@pytest.mark.parametrize(
    ("step", "how"),
    [
        ("nothing", "no worker"),
        ("subscribe", "at work"),
        ("settle", "caught up"),
    ],
)
def test_a_lane_says_whether_anybody_works(step, how):
    broker, client = work(1)
    subscription, _ = client.share()
    if step == "nothing":
        broker.disconnect(client.manager, "GONE")
        client = Sharing(broker)
    elif step == "settle":
        client.done(subscription, 0)
    (lane,) = picture(reading(client), Memory(), 1200).lanes
    assert lane.state == how


def test_the_busiest_key_and_too_many_dead_are_stuck(state):
    for code in ("too_many_dead", "hot_key", "too_many_open", "too_many_delayed"):
        (row,) = state.readers
        stuck = replace(state, readers=({**row, "waiting_for_code": code},))
        assert picture(stuck, Memory(), 1200).lanes[0].state == "stuck"


def test_a_stranger_names_a_worker_and_a_name():
    evil = "\x1b[2J"
    _, client = work(1)
    client.share()
    state = reading(client)
    workers = tuple({**row, "client": evil, "session": evil} for row in state.workers)
    readers = tuple({**row, "session": evil} for row in state.readers)
    (name,) = shared_names(replace(state, workers=workers, readers=readers))
    assert name.label.isprintable()
    assert name.busiest[0].label.isprintable()


@pytest.mark.parametrize("is_ascii", [False, True], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", SIZES)
def test_the_picture_of_a_work_queue_is_as_it_was(state, size, is_ascii, update_golden):
    memory = Memory()
    memory.seen(state)
    width, height = SIZES[size]
    rows = lines(state, memory, width, height, status="● live")
    check_golden(rows, f"shared.{size}", is_ascii, update_golden)
