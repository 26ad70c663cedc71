"""The picture as text: never wider than asked, whatever strangers have written, and readable in
whatever room.
"""

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from history import SECOND, History
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from test_picture import ZOOMS, large, made

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.printable import cells
from zaichik.apps.views.styled_lines import ansi, ascii_only, fitted, line, plain
from zaichik.apps.views.text import lines

GOLDEN = Path(__file__).parent / "golden"
SIZES = {"80x24": (80, 24), "120x40": (120, 40), "40x8": (40, 8), "32x6": (32, 6)}


def scene():
    """One reader keeps up, one is behind, one has lost messages and waits, and one is away."""
    history = History(capacity=100, retention_ttl_ms=10_000, compaction_window_ms=2_000)
    history.subscribe("billing")
    history.subscribe("slow", credit=4)
    history.subscribe("audit", session="audit")
    history.subscribe("reports", session="reports", credit=3)
    for number in range(1, 201):
        history.publish(key=b"k%d" % number)
        history.wait(SECOND // 20)
        for label in ("billing", "audit", *(["slow", "reports"] if number < 6 else [])):
            history.read(label)
        history.commit("billing", number)
        if number == 5:
            history.leave("reports")
        if number <= 170:
            history.commit("audit", max(0, number - 20))
        history.reading()
    state = history.reading()
    told = ((198, "k199", "plain"), (199, None, '{"late": 4}'))
    messages = [{"offset": offset, "key": key, "payload": payload} for offset, key, payload in told]
    windows = tuple(
        (f"k{number}", state.now_us - (200 - number) * SECOND // 20)
        for number in range(199, 189, -1)
    )
    return replace(
        state, messages=messages, windows=windows, drops={"k195": 1204, "gone": 3}
    ), history.memory


def table_scene():
    """Some keys change often, others seldom; one reader is behind; one key is deleted."""
    history = History(table=1, capacity=100)
    history.subscribe("late", credit=4)
    for number in range(400):
        is_rare = number % 40 == 7
        key = b"rare%d" % number if is_rare else b"k%d" % (number % (3 + number // 20))
        history.publish(key=key)
        history.wait(SECOND // 50)
    history.publish(key=b"k1", payload=b"")
    history.publish()
    history.read("late")
    state = history.reading()
    told = ((400, "k1", ""), (401, None, "x"))
    messages = [
        {"offset": offset, "key": key, "payload": payload, "is_tombstone": not payload}
        for offset, key, payload in told
    ]
    return replace(state, messages=messages), history.memory


@pytest.fixture(scope="module")
def drawn():
    return scene()


@pytest.fixture(scope="module")
def table():
    return table_scene()


def check_golden(rows, name, is_ascii, update_golden):
    text = "".join(f"{plain(ascii_only(row) if is_ascii else row).rstrip()}\n" for row in rows)
    path = GOLDEN / f"{name}{'.ascii' * is_ascii}.txt"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("is_ascii", [False, True], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", SIZES)
def test_the_picture_is_as_it_was_when_somebody_looked_at_it(drawn, size, is_ascii, update_golden):
    """To draw them anew, and then look at them: pytest tests/apps/views --update-golden."""
    width, height = SIZES[size]
    rows = lines(*drawn, width, height, status="● live")
    check_golden(rows, size, is_ascii, update_golden)


@pytest.mark.parametrize("is_ascii", [False, True], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", SIZES)
def test_the_picture_of_a_table_is_as_it_was(table, size, is_ascii, update_golden):
    """With its holes and its tombstones."""
    width, height = SIZES[size]
    rows = lines(*table, width, height, status="● live")
    check_golden(rows, f"table.{size}", is_ascii, update_golden)


def test_the_picture_in_the_documents_is_drawn_by_this_code():
    """If not: make docs."""
    page = (Path(__file__).parents[3] / "docs" / "use" / "watching.md").read_text(encoding="utf-8")
    assert (GOLDEN / "80x24.txt").read_text(encoding="utf-8") in page


hard = st.text(st.sampled_from("aé漢́​‮\x1b[2J\n\x9b\u2028😀🇨🇿👩‍👩‍👧\udc80\ufe0f"), max_size=60)


@settings(max_examples=50)
@given(
    state=large(),
    width=st.integers(1, 200),
    height=st.integers(1, 40),
    zoom=st.sampled_from(ZOOMS[:4]),
    text=hard,
)
def test_no_line_is_wider_than_asked_and_none_obeys_a_stranger(state, width, height, zoom, text):
    rows = tuple({**row, "client": text} for row in state.readers)
    state = replace(state, topic={**state.topic, "name": text}, readers=rows)
    memory = Memory()
    memory.seen(state)
    for is_ascii in (False, True):
        rows = lines(state, memory, width, height, zoom=zoom)
        shown = [plain(ascii_only(row) if is_ascii else row) for row in rows]
        assert len(shown) <= height
        for row in shown:
            assert cell_len(row) <= width, row
            assert cells(row) <= width
            assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in row)
            assert row.isascii() or not is_ascii


def test_colours_are_those_of_the_terminal_and_signs_say_all_of_it_without_them(drawn):
    codes = set()
    for row in lines(*drawn, 80, 24):
        coloured = ansi(row)
        codes |= {
            code
            for part in coloured.split("\x1b[")[1:]
            for code in part.partition("m")[0].split(";")
        }
        for part in coloured.split("\x1b[")[1:]:
            coloured = coloured.replace(f"\x1b[{part.partition('m')[0]}m", "")
        assert coloured == plain(row)
    assert codes <= {"0", "1", "2", *(str(code) for code in range(30, 38))}


def test_a_row_of_equal_signs_changes_its_colour_once():
    signs = line(
        ("=", "green"),
        ("=", "green"),
        ("=", "green"),
        "> ",
        ("late", "red"),
        (", and later", "red"),
    )
    assert ansi(fitted(signs, 10)) == "\x1b[32m===\x1b[0m> \x1b[31mlate…\x1b[0m"


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_every_zone_of_a_lane_has_a_column(drawn, width):
    """However small it is: one message of a million too."""
    text = "\n".join(plain(row) for row in lines(*drawn, width, 24, zoom="ring"))
    for sign in "◀█╌━●":
        assert sign in text


def test_a_reader_that_is_chosen_is_marked(drawn):
    name = next(row["name"] for row in drawn[0].readers if row["client"] == "billing")
    marked = [
        plain(row) for row in lines(*drawn, 80, 24, chosen=name) if plain(row).startswith(">")
    ]
    assert [row.split()[0] for row in marked] == [">billing"]


def test_a_publisher_that_waits_finds_out_for_whom():
    history = History(capacity=4, overflow=1, retention_ttl_ms=60_000)
    history.subscribe("slow", credit=2)
    history.publish(4)
    history.read("slow")
    history.publish(2)
    history.publish(1)
    text = [plain(row) for row in lines(history.reading(), history.memory, 80, 24)]
    assert any("■ full" in row for row in text)
    (lane,) = [row for row in text if row.startswith(" slow")]
    assert "publishers wait for it" in lane


@pytest.mark.parametrize(("width", "told"), [(80, "50 in flight"), (40, "50 █")])
def test_a_reader_that_has_been_sent_everything_tells_what_it_has_not_settled(drawn, width, told):
    (lane,) = [plain(row) for row in lines(*drawn, width, 8) if plain(row).startswith(" audit")]
    assert lane.endswith(told)


def test_what_a_reader_has_lost_is_not_taken_for_what_it_was_told_of():
    memory = Memory()
    for cursor, skipped, head in ((2, 0, 6), (6, 4, 14)):
        state = made(head, 20, [(cursor, 0), (0, 0)])
        state = replace(
            state,
            readers=({**state.readers[0], "client": "slow", "skipped": skipped}, state.readers[1]),
        )
        memory.seen(state)
    (lane,) = [plain(row) for row in lines(state, memory, 60, 24) if plain(row).startswith(" slow")]
    assert " 8 lost · 4 told " in lane


@pytest.mark.parametrize(
    ("name", "pasted"),
    [("it's", """'it'"'"'s'"""), ("a\u202eb", "TOPIC"), ("t" * 99, "TOPIC"), ("-x", "TOPIC")],
)
def test_the_command_that_tells_a_messages_fate_can_be_pasted(name, pasted):
    state = made(0, 10, [])
    state = replace(state, topic={**state.topic, "name": name})
    assert plain(lines(state, Memory(), 80, 24)[-1]).strip() == (
        f"what became of a message: zaichik explain {pasted} --key KEY, or --offset N"
    )


def test_offsets_of_any_length_stand_apart():
    state = made(2**63 - 500, 2**63, [(2**63 - 9, 0)])
    text = [plain(row) for row in lines(state, Memory(), 80, 24)]
    assert any(
        "┆head 9,223,372,036,854,775,308 next 9,223,372,036,854,775,808" in row for row in text
    )


def test_readers_without_a_lane_are_counted():
    state = made(0, 10, [(5, 0)] * 14)
    state = replace(state, topic={**state.topic, "subscriptions": 10_000})
    assert plain(lines(state, Memory(), 80, 24)[-1]).strip() == "9,988 more readers"
    assert (
        len([row for row in lines(state, Memory(), 80, 24) if plain(row).startswith(" client")])
        == 12
    )


def test_what_the_broker_does_not_tell_is_said(drawn):
    state, memory = drawn
    shown = lines(replace(state, missing=("lag in seconds",)), memory, 80, 24)
    assert plain(shown[-1]).strip() == "not told: lag in seconds"


def test_the_sum_of_what_a_table_has_stored_adds_up():
    state = made(0, 100, [], resident=2, superseded=98)
    memory = Memory()
    memory.seen(state)
    text = "\n".join(plain(row) for row in lines(state, memory, 120, 24))
    assert "100 = resident 2 + expired 0 + evicted 0 + superseded 98" in text
