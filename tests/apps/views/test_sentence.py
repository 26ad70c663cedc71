"""The picture in words."""

import pytest
from history import SECOND, History
from test_picture import made

from zaichik.apps.views import sentence
from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import picture
from zaichik.apps.views.topic_state import missing

TOLD = {
    -1: "0ms",
    0.04: "40ms",
    0.0999: "0.1s",
    5.12: "5.1s",
    9.96: "10s",
    59.4: "59s",
    60: "1.0m",
    5400: "1.5h",
    1e6: "12d",
}


@pytest.mark.parametrize(("seconds", "words"), TOLD.items())
def test_seconds_are_told_in_few_letters(seconds, words):
    assert sentence.age(seconds) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "none"),
        (1, "1ms"),
        (1500, "1500ms"),
        (10_000, "10s"),
        (86_400_000, "1d"),
        (2**64 - 1, "forever"),
    ],
)
def test_settings_are_told_exactly(ms, words):
    assert sentence.duration(ms) == words


def told(history):
    state = history.reading()
    return {lane.label: lane.sentence for lane in picture(state, history.memory, 1200).lanes}


def test_a_reader_in_words():
    history = History(capacity=8, retention_ttl_ms=60_000)
    history.subscribe("slow", credit=4)
    assert told(history)["slow"] == "slow is caught up"
    history.publish(4)
    history.read("slow")
    assert told(history)["slow"] == (
        "slow is caught up; it must commit first: 4 of 4 messages it may have are in flight"
    )
    history.publish(8)
    history.wait(2 * SECOND)
    assert told(history)["slow"].startswith(
        "slow is 8 behind (2.0s), growing; it must commit first"
    )
    history.publish(1)
    assert told(history)["slow"].startswith(
        "slow has lost 1 message and has not been told yet; slow is 8 behind"
    )


def test_holes_of_a_table_are_passed_and_no_lag():
    history = History(table=1)
    history.subscribe("slow", credit=1)
    for key in (b"a", b"b", b"b", b"b"):
        history.publish(key=key)
    history.read("slow")
    assert told(history)["slow"].startswith("slow is 1 behind (0ms); it must commit first")
    history.commit("slow", 1)
    history.read("slow")
    assert told(history)["slow"] == (
        "slow is caught up; it must commit first: 1 of 1 message it may have are in flight; "
        "it has passed 2 holes"
    )


def test_a_table_in_words():
    history = History(table=1, capacity=4, tombstones_ms=1000)
    history.publish(3, key=b"a")
    history.publish(key=b"b", payload=b"")
    history.publish(key=b"c", payload=b"")
    assert sentence.of_table(history.reading()) == ["1 of 4 keys", "10 B of 64 MiB", "2 tombstones"]
    history.wait(2 * SECOND)
    history.publish()
    state = history.reading()
    assert sentence.of_table(state) == [
        "2 of 4 messages",
        "1 without a key",
        "19 B of 64 MiB",
        "1 tombstone",
        "tombstones below offset 4 are gone",
    ]
    said = picture(state, history.memory, 1200).sentence
    assert said.startswith("orders is a table: 2 of 4 messages; 1 without a key; ")
    assert said.endswith("are gone. Offsets 0 to 5, with holes. Nobody reads it.")


def test_a_reader_that_waits_says_which_of_its_credits_is_used_up():
    state = made(0, 10, [(5, 3)])
    rows = [
        {
            **state.readers[0],
            "in_flight_bytes": 50,
            "credit": credit,
            "credit_bytes": 50,
            "waiting_for_code": code,
        }
        for credit, code in ((3, "commit"), (4, "bytes"), (4, "connection"))
    ]
    said = [
        picture(type(state)(1, 1, state.topic, (row,)), Memory(), 1200)
        .lanes[0]
        .sentence.partition("; ")[2]
        for row in rows
    ]
    assert said == [
        "it must commit first: 3 of 3 messages it may have are in flight",
        "it must commit first: 50 of 50 bytes it may have are in flight",
        "3 are in flight",
    ]


def test_a_reader_that_has_lost_messages_but_has_credit_left_need_not_commit():
    state = made(6, 10, [(5, 3)])
    row = {**state.readers[0], "credit": 9, "waiting_for_code": "connection"}
    (lane,) = picture(type(state)(1, 1, state.topic, (row,)), Memory(), 1200).lanes
    assert (lane.state, lane.sentence.rpartition("; ")[2]) == ("lost", "3 are in flight")


def test_readers_of_one_name_are_told_apart_by_their_numbers():
    state = made(0, 10, [(5, 0), (6, 0)])
    readers = tuple({**row, "client": "same"} for row in state.readers)
    drawn = picture(type(state)(1, 1, state.topic, readers), Memory(), 1200)
    assert [lane.label for lane in drawn.lanes] == ["same 1.1", "same 2.1"]


def test_a_topic_in_words():
    said = [
        picture(made(*numbers), Memory(), 1200).sentence
        for numbers in ((0, 0, []), (5, 5, []), (2, 5, [(5, 0)]))
    ]
    assert said[1] == "t holds nothing now; its next offset is 5. Nobody reads it."
    assert (
        said[2]
        == "t holds 3 of at most 10,000,000 messages: offsets 2 to 4. Its reader is caught up."
    )


def test_what_is_missing_is_told_in_words():
    assert missing({"head_us": 1, "refused": 0}, []) == []
    old = missing({}, [{"connection": 1}, {"connection": 0}])
    assert old[0] == "how old messages are"
    assert "lag in seconds" in old
