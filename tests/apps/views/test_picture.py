"""Marks say what `describe` says, leave nothing out, and can be seen, whatever the history."""

from itertools import pairwise

import pytest
from history import SECOND, History
from hypothesis import given, settings
from hypothesis import strategies as st

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import MOST_LANES, MOST_MARKS, picture
from zaichik.apps.views.topic_state import TopicState

GONE = {"gone", "expired", "evicted", "either"}
HELD = {"expiring", "resident", "sparse", "holes"}
ZONES = {"committed", "in_flight", "redelivered", "lost", "lag"}
ZOOMS = ("auto", "ring", "lag", "live", "reader")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("wait"), st.integers(0, 4 * SECOND)),
        st.tuples(st.just("subscribe"), st.integers(0, 3)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 3)),
        st.tuples(st.just("look"), st.none()),
    ),
    max_size=40,
)


def run(history, taken):
    """Do the steps that are possible."""
    for step, value in taken:
        label = f"r{value}"
        match step:
            case "publish":
                history.publish(value, key=b"%d" % (value % 3))
            case "wait":
                history.wait(value)
            case "subscribe" if label not in history.readers:
                history.subscribe(label, session=label if value % 2 else "", credit=2 + 3 * value)
            case "read" | "commit" | "leave" if label in history.readers:
                if step == "commit":
                    row = next(
                        (it for it in history.reading().readers if it["client"] == label), None
                    )
                    if row is not None:
                        history.commit(label, (row["committed"] + row["cursor"] + 1) // 2)
                else:
                    getattr(history, step)(label)
            case "look":
                history.reading()


def check(state, memory, width, zoom, smallest=3.0):
    drawn = picture(state, memory, width, zoom, smallest=smallest)
    assert len(drawn.marks) <= MOST_MARKS
    assert len(drawn.lanes) == min(len(state.readers), MOST_LANES)
    assert len(drawn.lanes) + drawn.hidden == len(state.readers)
    check_axis(drawn, state, width)
    strip = [mark for mark in drawn.marks if not mark.lane]
    check_cover([mark for mark in strip if mark.kind in HELD], state.head, state.next_offset)
    check_cover([mark for mark in strip if mark.kind in GONE], max(0, drawn.axis[0][0]), state.head)
    for mark in drawn.marks:
        if mark.first < mark.end and mark.kind != "told":
            assert drawn.place(mark.end) - drawn.place(mark.first) >= smallest * 0.99, mark
    rows = {row["name"]: row for row in state.readers}
    for lane in drawn.lanes:
        check_lane(
            lane, rows[lane.name], [mark for mark in drawn.marks if mark.lane == lane.name], state
        )


def check_axis(drawn, state, width):
    assert drawn.axis[0][1] == 0
    assert drawn.axis[-1] == (state.next_offset, pytest.approx(width))
    for (offset, place), (next_offset, next_place) in pairwise(drawn.axis):
        assert offset < next_offset
        assert place < next_place
    assert all(0 <= at <= width for at in drawn.breaks)


def check_cover(marks, first, end):
    """They cover these offsets in their order, without a gap, and none twice."""
    assert [mark.first for mark in marks] == [first, *(mark.end for mark in marks)][: len(marks)]
    assert (marks[-1].end if marks else first) == end


def check_lane(lane, row, marks, state):
    by_kind = {}
    for mark in marks:
        by_kind.setdefault(mark.kind, []).append(mark)
    zones = sorted((mark for mark in marks if mark.kind in ZONES), key=lambda mark: mark.first)
    assert all(one.end <= other.first for one, other in pairwise(zones))
    (cursor,) = by_kind["cursor"]
    assert (cursor.text, lane.behind) == (f"{row['cursor']:,}", row["lag"])
    ahead = sum(
        mark.end - max(mark.first, row["cursor"]) for mark in zones if mark.end > row["cursor"]
    )
    assert ahead == row["ahead"], "what is ahead is drawn, lost or not"
    lost = sum(mark.end - mark.first for mark in by_kind.get("lost", ()))
    assert lost == max(0, state.head - row["cursor"])
    if row["connection"]:
        assert {mark.text for mark in by_kind.get("in_flight", ())} <= {f"{row['in_flight']:,}"}


@settings(max_examples=40)
@given(taken=steps, capacity=st.integers(12, 40), zoom=st.sampled_from(ZOOMS))
def test_every_history_is_drawn_as_it_is(taken, capacity, zoom):
    history = History(capacity=capacity, retention_ttl_ms=5000)
    run(history, taken)
    state = history.reading()
    if zoom == "reader" and state.readers:
        zoom = state.readers[0]["name"]
    check(state, history.memory, 1200, zoom)


@settings(max_examples=40)
@given(taken=steps, zoom=st.sampled_from(ZOOMS))
def test_every_history_of_a_table_is_drawn_with_its_holes(taken, zoom):
    """And no more of it is drawn as readable than can be read."""
    history = History(table=1, retention_ttl_ms=5000)
    run(history, taken)
    state = history.reading()
    if zoom == "reader" and state.readers:
        zoom = state.readers[0]["name"]
    check(state, history.memory, 1200, zoom)
    strip = [mark for mark in picture(state, history.memory, 1200, zoom).marks if not mark.lane]
    held = [mark for mark in strip if mark.kind in HELD]
    assert sum(mark.level * (mark.end - mark.first) for mark in held) == pytest.approx(
        state.topic["resident"]
    )
    assert not {mark.kind for mark in strip} & {"evicted", "either"}


def test_the_oldest_keys_of_a_table_and_its_holes_are_drawn_as_they_are():
    history = History(table=1)
    for key in (b"old", b"hot", b"hot", b"hot", b"new"):
        history.publish(key=key)
    marks = picture(history.reading(), history.memory, 1200).marks
    drawn = [(mark.kind, mark.first, mark.end, mark.level) for mark in marks if mark.kind in HELD]
    assert drawn == [
        ("resident", 0, 1, 1),
        ("holes", 1, 2, 0),
        ("holes", 2, 3, 0),
        ("resident", 3, 4, 1),
        ("resident", 4, 5, 1),
    ]
    marks = picture(history.reading(), history.memory, 2, smallest=1).marks
    (drawn,) = [mark for mark in marks if mark.kind in HELD]
    assert (drawn.kind, drawn.level) == ("sparse", 3 / 5)


def made(head, end, cursors, **topic):
    """A reading of a topic with readers at these cursors."""
    rows = [
        {
            "name": f"t#{number}",
            "connection": number,
            "client": f"client {number}",
            "id": 1,
            "session": "",
            "committed": cursor - in_flight,
            "cursor": cursor,
            "in_flight": in_flight,
            "in_flight_bytes": 0,
            "credit": 1 << 31,
            "credit_bytes": 1 << 31,
            "next_offset": end,
            "ahead": end - cursor,
            "lag": end - cursor,
            "skipped": 0,
            "until": None,
        }
        for number, (cursor, in_flight) in enumerate(cursors, 1)
    ]
    options = {
        "retention_ttl_ms": 0,
        "compaction_window_ms": 0,
        "capacity": 10_000_000,
        "overflow": 0,
    }
    counts = {
        "subscriptions": len(rows),
        "published": end,
        "stored": end,
        "compacted": 0,
        "expired": 0,
        "evicted": head,
        "resident": end - head,
    }
    row = {
        "name": "t",
        "epoch": 1,
        "head": head,
        "next_offset": end,
        "needed": 0,
        "settings": options,
        **counts,
        **topic,
    }
    return TopicState.of({"now_us": 1, "boot": 1, "topic": row, "readers": rows})


@st.composite
def large(draw):
    """Readings of large topics with many readers anywhere."""
    end = draw(st.integers(0, 10_000_000))
    head = draw(st.integers(0, end))
    cursors = []
    for _ in range(draw(st.integers(0, 20))):
        cursor = draw(st.integers(0, end))
        cursors.append((cursor, draw(st.integers(0, cursor))))
    return made(head, end, cursors)


@settings(max_examples=100)
@given(state=large(), zoom=st.sampled_from(ZOOMS), width=st.sampled_from([390.0, 1200.0, 4000.0]))
def test_a_million_messages_are_as_few_marks_as_ten(state, zoom, width):
    memory = Memory()
    memory.seen(state)
    check(state, memory, width, "t#1" if zoom == "reader" else zoom)


def test_one_message_in_flight_among_a_million_is_seen():
    state = made(0, 1_000_000, [(500_000, 1)])
    drawn = picture(state, Memory(), 1200)
    (flying,) = [mark for mark in drawn.marks if mark.kind == "in_flight"]
    assert (flying.first, flying.end, flying.text) == (499_999, 500_000, "1")
    assert drawn.place(flying.end) - drawn.place(flying.first) == pytest.approx(3)


def test_messages_are_cells_of_their_own_as_soon_as_there_is_room():
    drawn = picture(made(0, 100, []), Memory(), 1200)
    assert sum(mark.kind == "resident" for mark in drawn.marks) == 100
    drawn = picture(made(0, 10_000, []), Memory(), 1200, "ring")
    assert 100 < sum(mark.kind == "resident" for mark in drawn.marks) < 400


def test_a_topic_that_slides_keeps_its_marks():
    """Or a page would be sent all of them again and again."""
    before, after = (picture(made(0, end, []), Memory(), 1200, "ring") for end in (9_000, 9_001))
    assert len({*after.marks} - {*before.marks}) <= 4


def test_where_offsets_are_drawn_closer_together_the_axis_is_broken():
    assert picture(made(50, 100, [(60, 0)]), Memory(), 1200).breaks == ()
    (at,) = picture(made(900_000, 900_100, [(10, 0)]), Memory(), 1200).breaks
    assert at < 1200 / 8


def test_an_empty_topic_has_a_picture_too():
    drawn = picture(made(0, 0, []), Memory(), 80, smallest=1)
    assert {mark.kind for mark in drawn.marks} == {"head", "next"}
    assert drawn.sentence == "t is new: nothing was published yet. Nobody reads it."


def test_the_fates_of_messages_are_those_that_were_seen():
    history = History(capacity=10, retention_ttl_ms=10_000)
    history.publish(4)
    history.reading()
    history.wait(10 * SECOND)
    history.reading()
    history.publish(10)
    history.publish(3)
    state = history.reading()
    fates = [
        (mark.kind, mark.first, mark.end, mark.text)
        for mark in picture(state, history.memory, 1200).marks[:2]
    ]
    assert fates == [("expired", 0, 4, "4 expired"), ("evicted", 4, 7, "3 evicted")]


def test_no_order_is_made_up_where_some_expired_and_some_were_evicted():
    history = History(capacity=10, retention_ttl_ms=10_000)
    history.publish(4)
    history.reading()
    history.wait(10 * SECOND)
    history.publish(10)
    history.publish(3)
    (mark, *_) = picture(history.reading(), history.memory, 1200).marks
    assert (mark.kind, mark.text) == ("either", "4 expired, 3 evicted, order unknown")


def test_messages_in_the_last_tenth_of_their_time_are_about_to_expire():
    history = History(retention_ttl_ms=10_000)
    history.publish(3)
    history.wait(5 * SECOND)
    history.publish(2)
    history.wait(4 * SECOND)
    marks = picture(history.reading(), history.memory, 1200).marks
    assert [mark.first for mark in marks if mark.kind == "expiring"][:1] == [0]
    assert max(mark.end for mark in marks if mark.kind == "expiring") == 3


def test_a_reader_that_stops_is_behind_then_has_lost_and_then_is_told():
    history = History(capacity=8)
    history.subscribe("slow", credit=4)
    history.publish(4)
    history.read("slow")
    seen = []
    for _ in range(3):
        history.publish(4)
        seen.append(picture(history.reading(), history.memory, 1200).lanes[0].state)
    history.commit("slow", 4)
    history.read("slow")
    drawn = picture(history.reading(), history.memory, 1200)
    assert seen == ["waits for commit", "lost", "lost"] or seen == [
        "waits for commit",
        "waits for commit",
        "lost",
    ]
    (told,) = [mark for mark in drawn.marks if mark.kind == "told"]
    assert (told.first, told.end, told.text) == (4, 8, "4")
    assert "lost" not in {mark.kind for mark in drawn.marks}


def test_what_a_reader_has_lost_is_not_shown_as_in_flight():
    """A report of lag comes while older messages are unsettled: the marks do not overlap."""
    history = History(capacity=8)
    history.subscribe("slow", credit=4)
    history.publish(4)
    history.read("slow")
    for _ in range(3):
        history.publish(4)
        history.reading()
    history.commit("slow", 2)
    history.read("slow")
    marks = picture(history.reading(), history.memory, 1200).marks
    in_flight = [(mark.first, mark.end, mark.text) for mark in marks if mark.kind == "in_flight"]
    (told,) = [mark for mark in marks if mark.kind == "told"]
    assert in_flight == [(2, 4, "2"), (told.end, told.end + 2, "2")]
    assert (told.first, told.text) == (4, "4")


def test_after_two_losses_a_part_of_what_is_in_flight_has_its_number():
    """Only the last loss is known as a range; an earlier one is somewhere in what is in flight."""
    history = History(capacity=8)
    history.subscribe("slow", credit=4)
    history.publish(4)
    for committed in (1, 2):
        history.read("slow")
        for _ in range(3):
            history.publish(4)
            history.reading()
        history.commit("slow", committed)
        history.read("slow")
    row, marks = history.reading(), picture(history.reading(), history.memory, 1200).marks
    texts = [mark.text for mark in marks if mark.kind == "in_flight"]
    assert sorted(texts) == ["", str(row.readers[0]["in_flight"])]


def test_a_name_whose_reader_is_away_shows_what_will_be_delivered_again():
    history = History(retention_ttl_ms=60_000)
    history.subscribe("r", session="billing", credit=5)
    history.publish(5)
    history.read("r")
    history.commit("r", 2)
    history.leave("r")
    drawn = picture(history.reading(), history.memory, 1200)
    assert [(lane.label, lane.state) for lane in drawn.lanes] == [("billing", "away")]
    assert [(mark.first, mark.end) for mark in drawn.marks if mark.kind == "redelivered"] == [
        (2, 5)
    ]
    history.subscribe("r", session="billing", credit=2)
    history.read("r")
    marks = picture(history.reading(), history.memory, 1200).marks
    assert [(mark.first, mark.end, mark.text) for mark in marks if mark.kind == "redelivered"] == [
        (2, 4, "3"),
        (4, 5, "3"),
    ]


def test_a_full_topic_that_rejects_has_a_wall_tied_to_the_reader_it_waits_for():
    history = History(capacity=4, overflow=1, retention_ttl_ms=60_000)
    history.subscribe("slow", credit=2)
    history.publish(4)
    history.read("slow")
    walls = [
        mark
        for mark in picture(history.reading(), history.memory, 1200).marks
        if mark.kind == "wall"
    ]
    assert walls == []
    history.publish(2)
    history.publish(1)
    drawn = picture(history.reading(), history.memory, 1200)
    assert "It is full: publishers wait for slow." in drawn.sentence
    walls = [mark for mark in drawn.marks if mark.kind == "wall"]
    assert [(mark.lane[:6], mark.text) for mark in walls] == [
        ("", "full, waits for slow"),
        ("orders", "publishers wait for it"),
    ]


def test_of_many_readers_the_worst_and_some_of_the_newest_have_lanes():
    state = made(0, 1000, [(1000 - behind, 0) for behind in (*range(500, 520), 0, 0, 0)])
    drawn = picture(state, Memory(), 1200)
    assert [lane.behind for lane in drawn.lanes[:8]] == list(range(519, 511, -1))
    assert {lane.name for lane in drawn.lanes[8:]} >= {"t#21", "t#22", "t#23"}
    assert drawn.hidden == 11


NEW = (
    "head_us",
    "last_us",
    "refused",
    "slowest",
    "needed_us",
    "cursor_us",
    "redelivered_below",
    "waiting_for_code",
)


def test_an_old_broker_is_drawn_as_far_as_it_tells():
    history = History(capacity=4, overflow=1, retention_ttl_ms=60_000)
    history.subscribe("slow", credit=2)
    history.publish(4)
    history.read("slow")
    state = history.reading()
    topic = {name: value for name, value in state.topic.items() if name not in NEW}
    readers = tuple(
        {name: value for name, value in row.items() if name not in NEW} for row in state.readers
    )
    old, memory = TopicState(state.now_us, 0, topic, readers), Memory()
    memory.seen(old)
    check(old, memory, 1200, "auto")
    drawn = picture(old, memory, 1200)
    assert [(lane.state, lane.seconds) for lane in drawn.lanes] == [("waits for commit", None)]
    assert {mark.kind for mark in drawn.marks} >= {"resident", "in_flight", "lag", "gate"}


@pytest.mark.parametrize("zoom", ["auto", "ring", "lag", "live", "t#1"])
def test_every_zoom_shows_the_end_and_the_lens_has_most_of_the_width(zoom):
    state = made(0, 100_000, [(99_000, 10), (100_000, 0)])
    drawn = picture(state, Memory(), 1200, zoom)
    first = {"auto": 97_952, "ring": 0, "lag": 98_990, "live": 99_950, "t#1": 98_940}[zoom]
    assert drawn.place(first) <= 1200 / 8 + 1
    assert drawn.axis[-1] == (100_000, 1200)


def test_who_has_lost_messages_is_told_of_no_more_than_until_its_end():
    history = History(capacity=4, retention_ttl_ms=60_000)
    history.subscribe("r", credit=1, until=3)
    history.publish(4)
    history.read("r")
    history.publish(4)
    drawn = picture(history.reading(), history.memory, 1200)
    (lost,) = [mark for mark in drawn.marks if mark.kind == "lost"]
    assert (lost.first, lost.end) == (1, 3)
