"""The fold: from any checkpoint it comes to the same as from the first record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import as_told, changed

from zaichik.core.compaction import CompactionWindow
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.state import PRODUCER_SILENCE_US, LogState, read_checkpoint
from zaichik_protocol import FOREVER, Batch

WINDOW_US = 1_000


def again(state, window_us=WINDOW_US, max_keys=8):
    """The state that a start reads from a checkpoint of that one."""
    found = read_checkpoint(state.checkpoint(7, 3, 4096, 99))
    assert found is not None
    told, keys = found
    assert (told["epoch"], told["segment"], told["position"], told["salt"]) == (7, 3, 4096, 99)
    new = LogState(window_us, max_keys)
    new.restore(told, keys)
    return new


def folded(records, window_us=WINDOW_US, max_keys=8):
    state = LogState(window_us, max_keys)
    for record in records:
        state.add(record)
    return state


rows = st.sampled_from([[1, 2, 0, 0, 0, 7, 0, 3, "6b"], [2, 5, "", "why"], None])
changes_of_names = st.none() | st.fixed_dictionaries(
    {
        "numbers": st.just([0, 4, 1, 0, 0, 0, 5, 0]),
        "rows": st.dictionaries(st.sampled_from(["0", "1", "2"]), rows),
    }
)


@st.composite
def histories(draw):
    """Records as the broker makes them: one window judges all keys, and a producer counts its
    batches.
    """
    window, base, now_us, numbers, records = CompactionWindow(WINDOW_US, 8), 0, 0, {}, []
    for _ in range(draw(st.integers(0, 25))):
        now_us += draw(st.sampled_from([0, 1, 400, WINDOW_US, PRODUCER_SILENCE_US]))
        match draw(st.sampled_from(["batch", "batch", "batch", "refused", "positions", "names"])):
            case "positions":
                names = st.dictionaries(
                    st.sampled_from("abc"), st.none() | st.integers(0, 9), min_size=1
                )
                body, kind, producer = json.dumps(draw(names)).encode(), RecordKind.POSITIONS, 0
                records.append(StoredRecord(base, now_us, 0, body, kind))
                continue
            case "names":
                keys = draw(st.sets(st.sampled_from("xy")))
                changes = {key: draw(changes_of_names) for key in keys}
                said = {"ticket": draw(st.integers(0, 9)), "names": changes}
                body = json.dumps(said).encode()
                records.append(StoredRecord(base, now_us, 0, body, RecordKind.NAMES))
                continue
            case "refused":
                producer, body, kind, kept, dropped = (
                    draw(st.integers(1, 3)),
                    b'[1, "no", "batch"]',
                    RecordKind.REFUSED,
                    [],
                    b"",
                )
            case _:
                producer, kind = draw(st.integers(0, 3)), RecordKind.MESSAGES
                keys = draw(
                    st.lists(
                        st.sampled_from([b"", *(b"k%d" % i for i in range(12))]),
                        min_size=1,
                        max_size=5,
                    )
                )
                if draw(st.booleans()):
                    window.forget(
                        draw(st.integers(0, 3))
                    )  # the broker is short of memory, which no record tells
                kept = window.admit(keys, now_us)
                lost = sum(1 << i for i in range(len(keys)) if i not in kept)
                dropped = lost.to_bytes(1, "little") if lost else b""
                body = Batch.of([(keys[i], b"x") for i in kept]).data if kept else b""
        number = numbers.get(producer, 0)
        numbers[producer] = number + 1
        records.append(
            StoredRecord(
                base, now_us, len(kept), body, kind, producer, number if producer else 0, dropped
            )
        )
        base += len(kept)
    return records, dict(window.opening_times()), now_us


@given(histories(), st.data())
def test_from_any_checkpoint_it_comes_to_the_same(history, data):
    records, _, _ = history
    at = data.draw(st.integers(0, len(records)))
    state = again(folded(records[:at]))
    for record in records[at:]:
        state.add(record)
    assert as_told(state) == as_told(folded(records))


def test_a_name_whose_workers_were_given_nothing_yet_is_in_a_checkpoint():
    """It has no ticket, and where it begins is all that there is to know of it."""
    state = LogState(WINDOW_US, 8)
    body = json.dumps({"ticket": 0, "names": {"x": {"numbers": [0] * 8, "rows": {}}}}).encode()
    state.add(StoredRecord(0, 0, 0, body, RecordKind.NAMES))
    assert again(state).names == state.names != {}


@given(histories())
def test_every_window_that_the_broker_knows_is_open_since_the_same_time_after_a_restart(history):
    """COM-1: even if some were forgotten before (COM-6), which is not written down."""
    records, opened, now_us = history
    state = folded(records)
    state.window.close(now_us)
    restored = dict(state.window.opening_times())
    assert {key: at for key, at in restored.items() if key in opened} == {
        key: at for key, at in opened.items() if at + WINDOW_US > now_us
    }


OPEN, DEAD = [0, 1, 0, 0, 0, 7, 0, 3, ""], [5, 12, "6b", "why"]
OF_NAME = {"numbers": [0, 2, 0, 0, 0, 0, 5, 0], "rows": {"0": OPEN, "1": OPEN}}
NAMES = {"ticket": 9, "names": {"n": OF_NAME, "m": OF_NAME}}
MORE_NAMES = {
    "ticket": 8,
    "names": {
        "m": None,
        "n": {"numbers": [0, 3, 1, 0, 0, 0, 5, 0], "rows": {"0": None, "1": DEAD}},
    },
}


def test_a_checkpoint_has_windows_producers_refusals_positions_and_names():
    dropped = b"\x02"
    state = folded(
        [
            StoredRecord(
                0, 10, 1, Batch.of([(b"k", b"v")]).data, producer=5, sequence=0, dropped=dropped
            ),
            StoredRecord(1, 11, 0, b'[7, "too large", "batch"]', RecordKind.REFUSED, 5, 1),
            StoredRecord(1, 12, 0, b"", producer=6, sequence=0, dropped=b"\x07"),
            StoredRecord(1, 13, 0, b'{"a": 1, "b": 0}', RecordKind.POSITIONS),
            StoredRecord(1, 14, 0, b'{"b": null}', RecordKind.POSITIONS),
            StoredRecord(1, 14, 0, json.dumps(NAMES).encode(), RecordKind.NAMES),
            StoredRecord(1, 14, 0, json.dumps(MORE_NAMES).encode(), RecordKind.NAMES),
        ]
    )
    assert (
        as_told(state)
        == as_told(again(state))
        == (
            1,
            14,
            5,
            4,
            ([(b"k", 10)], 1),
            [
                (5, 2, 11, [(0, 1, 1, 0, dropped), (7, "too large", "batch")]),
                (6, 1, 12, [(1, 0, 3, 0, b"\x07")]),
            ],
            [("a", 1)],
            9,
            {"n": {"numbers": [0, 3, 1, 0, 0, 0, 5, 0], "rows": {"1": DEAD}}},
        )
    )


def test_keys_that_are_no_text_survive_a_checkpoint():
    keys = [bytes([byte]) * size for byte, size in ((0, 1), (10, 3), (255, 1000))]
    state = folded([StoredRecord(0, -5, 3, Batch.of([(key, b"") for key in keys]).data)])
    assert list(again(state).window.opening_times()) == [(key, -5) for key in keys]


@pytest.mark.parametrize("window_us", [0, FOREVER])
def test_a_topic_without_windows_and_one_whose_windows_never_close(window_us):
    records = [
        StoredRecord(base, base * WINDOW_US, 1, Batch.of([(b"k%d" % base, b"")]).data)
        for base in range(5)
    ]
    state = folded(records, window_us)
    assert as_told(again(state, window_us)) == as_told(state)
    assert (state.window is None) == (not window_us)
    assert not window_us or len(state.window) == 5


def test_a_silent_producer_is_forgotten_and_its_last_64_answers_are_kept():
    batch = Batch.of([(b"", b"")]).data
    records = [StoredRecord(base, 1, 1, batch, producer=9, sequence=base) for base in range(70)]
    state = folded(records)
    assert (state.producers[9].next, [it[0] for it in state.producers[9].answers]) == (
        70,
        list(range(6, 70)),
    )
    state.add(StoredRecord(70, 1 + PRODUCER_SILENCE_US, 1, batch, producer=8))
    assert list(state.producers) == [9, 8]
    state.add(StoredRecord(71, 2 + PRODUCER_SILENCE_US, 1, batch))
    assert list(state.producers) == [8]


def test_a_damaged_checkpoint_is_none():
    data = folded([StoredRecord(0, 10, 1, Batch.of([(b"k", b"v")]).data, producer=5)]).checkpoint(
        7, 0, 4096, 1
    )
    assert not [at for at in range(len(data)) if read_checkpoint(changed(data, at))]
    assert not [size for size in range(len(data)) if read_checkpoint(data[:size])]


def test_the_producer_that_was_silent_longest_is_forgotten_first():
    batch = Batch.of([(b"", b"")]).data
    state = folded(
        [
            StoredRecord(base, base, 1, batch, producer=producer)
            for base, producer in enumerate((1, 2, 1))
        ]
    )
    assert [key for key, *_ in as_told(state)[5]] == [2, 1]
    state.add(StoredRecord(3, 2 + PRODUCER_SILENCE_US, 1, batch, producer=3))
    assert list(state.producers) == [1, 3]
