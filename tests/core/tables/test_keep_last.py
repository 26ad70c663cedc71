"""Rows of a table: what is superseded, what goes, what is read, and that it stays small."""

import pytest
from conversation import batch
from fuzz.kept_rows import check_rows

from zaichik.core.tables import keep_last
from zaichik.core.tables.keep_last import ROW, ROWS, KeepLast
from zaichik_protocol import Batch


def kept(*batches, begin_us=10):
    """Batches of (key, payload) pairs, accepted at 10, 20, 30 and so on."""
    rows = KeepLast()
    for number, messages in enumerate(batches):
        publish(rows, *messages, at_us=begin_us * (number + 1))
    return rows


def publish(rows, *messages, at_us):
    rows.append(rows.judge(batch(*messages)), at_us)
    check_rows(rows)


def read(rows):
    """Everything that can be read: offset, key and payload."""
    found = []
    offset = rows.readable_from(0)
    while offset < rows.next_offset:
        together = rows.together(offset)
        pairs = zip(together.batch.keys(), together.batch.payloads(), strict=True)
        for at, pair in zip(together.offsets, pairs, strict=True):
            if at >= offset:
                found.append((at, *pair))
        offset = rows.readable_from(together.offsets[-1] + 1)
    return found


def test_a_newer_message_of_a_key_takes_the_place_of_the_older_one():
    """TAB-1, which is what COM-3 speaks of."""
    rows = kept([(b"a", b"1"), (b"b", b"2")], [(b"a", b"3")])
    assert read(rows) == [(1, b"b", b"2"), (2, b"a", b"3")]
    assert (rows.messages, rows.superseded, rows.next_offset) == (2, 1, 3)
    assert rows.size == 2 * (2 + ROW)


def test_within_a_batch_the_last_message_of_a_key_wins():
    """TAB-1."""
    rows = kept([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"a", b"4")])
    assert read(rows) == [(1, b"b", b"2"), (3, b"a", b"4")]
    assert rows.superseded == 2


def test_messages_without_a_key_are_never_superseded():
    """TAB-1."""
    rows = kept([b"1", b"2"], [b"3", (b"a", b"4"), b"5"])
    assert [offset for offset, _, _ in read(rows)] == [0, 1, 2, 3, 4]
    assert (rows.messages, rows.keyless) == (5, 4)


def test_judging_changes_nothing():
    rows = kept([(b"a", b"1")])
    change = rows.judge(batch((b"a", b"22"), (b"b", b"3")))
    assert (change.messages, change.size) == (2, 3 + 2 + 2 * ROW)
    assert (rows.messages, rows.next_offset, read(rows)) == (1, 1, [(0, b"a", b"1")])


@pytest.mark.parametrize(
    "messages", [[(b"a", b""), (b"b", b"1")], [(b"b", b"1"), (b"a", b"")]], ids=["first", "last"]
)
def test_a_batch_that_deletes_what_it_adds_leaves_as_much(messages):
    """TAB-1: in either order."""
    rows = kept([(b"a", b"1")])
    change = rows.judge(batch(*messages))
    assert (change.messages, change.size) == (rows.messages, rows.size)


def test_a_tombstone_can_be_read_and_counts_apart():
    """TAB-5."""
    rows = kept([(b"a", b"1"), (b"b", b"2")], [(b"a", b"")])
    assert read(rows) == [(1, b"b", b"2"), (2, b"a", b"")]
    assert (rows.messages, rows.live, rows.tombstone_bytes) == (1, 2, 1 + ROW)
    assert rows.size == 2 + ROW


def test_an_empty_message_without_a_key_is_no_tombstone():
    assert kept([b""]).tombstones == {}


def test_tombstones_go_when_their_time_is_over_but_not_the_newest_message():
    """TAB-5."""
    rows = kept([(b"a", b"")], [(b"b", b"")])
    rows.expire_tombstones(9, 1000)
    assert len(rows.tombstones) == 2
    rows.expire_tombstones(20, 1000)
    check_rows(rows)
    assert read(rows) == [(1, b"b", b"")]
    assert (rows.expired, rows.deleted_below, rows.head) == (1, 1, 0)
    publish(rows, (b"c", b"1"), at_us=30)
    rows.expire_tombstones(20, 1000)
    assert (rows.expired, rows.deleted_below) == (2, 2)


def test_the_oldest_tombstones_go_early_but_not_the_newest_message():
    """TAB-5."""
    rows = kept([(b"a", b"")], [(b"b", b"")], [(b"c", b"")])
    rows.limit_tombstones(2 * (1 + ROW))
    check_rows(rows)
    assert [offset for offset, _, _ in read(rows)] == [1, 2]
    rows.limit_tombstones(0)
    assert [offset for offset, _, _ in read(rows)] == [2]
    assert (rows.evicted, rows.deleted_below) == (2, 2)


def test_a_key_that_comes_back_is_no_deletion_any_more():
    rows = kept([(b"a", b"")], [(b"a", b"1")], [(b"b", b"1")])
    rows.expire_tombstones(1000, 1000)
    assert (rows.deleted_below, rows.expired, rows.superseded) == (0, 0, 1)


def test_only_some_tombstones_go_at_once():
    rows = kept([(b"%d" % key, b"") for key in range(5)], [b"last"])
    rows.expire_tombstones(1000, 2)
    assert len(rows.tombstones) == 3


def test_what_has_expired_is_a_prefix_and_its_keys_are_new_again():
    """TAB-8."""
    rows = kept([(b"a", b"1"), (b"b", b"")], [(b"c", b"2")])
    rows.expire_accepted_until(10)
    check_rows(rows)
    assert read(rows) == [(2, b"c", b"2")]
    assert (rows.head, rows.expired, rows.messages, rows.live) == (2, 2, 1, 1)
    assert rows.offset_of(b"a") == -1
    publish(rows, (b"a", b"3"), at_us=30)
    assert rows.superseded == 0


def test_the_head_moves_only_with_what_has_expired():
    """TAB-8: a superseded message is gone before its time."""
    rows = kept([(b"a", b"1"), (b"b", b"1")], [(b"b", b"2")], [(b"b", b"3")])
    rows.expire_accepted_until(20)
    assert (rows.head, rows.expired) == (1, 1)


def test_a_part_that_has_expired_whole_is_forgotten_some_at_a_time():
    rows = KeepLast()
    for number in range(10):
        messages = [(b"%d" % (number * ROWS + at), b"x") for at in range(ROWS)]
        rows.append(rows.judge(batch(*messages)), number)
    rows.expire_accepted_until(8)
    assert (rows.messages, len(rows._parts)) == (ROWS, 1)
    held = len(rows._expired_parts)
    before = rows.memory
    rows.forget_expired()
    assert len(rows._expired_parts) == held - keep_last.PARTS_AT_ONCE
    assert rows.memory < before
    while rows._expired_parts:
        rows.forget_expired()
    assert len(rows._index) == ROWS
    check_rows(rows)


def test_no_more_than_half_of_a_part_is_dead():
    """TAB-4."""
    rows = KeepLast()
    for round_ in range(20):
        for first in range(0, 3 * ROWS, 500):
            messages = [(b"%d" % (first + at), b"%d" % round_) for at in range(500)]
            rows.append(rows.judge(batch(*messages)), round_)
        check_rows(rows)
    assert sum(len(part.alive) for part in rows._parts) <= 2 * rows.messages


def test_a_large_message_that_is_superseded_does_not_keep_its_memory_among_small_ones():
    """TAB-4: of its part only one row is dead, but nearly all bytes are."""
    rows = KeepLast()
    large = bytes(keep_last.PART_BYTES)
    for number in range(30):
        publish(rows, (b"%d" % number, b"x"), at_us=number)
        publish(rows, (b"large", large), at_us=number)
    assert rows.messages == 31
    assert rows.memory < 2 * len(large)


def test_small_parts_are_joined():
    """Else a table whose keys are seldom superseded would be left in ever more parts."""
    rows = KeepLast()
    for number in range(40):
        changing = [(b"often", b"%d" % at) for at in range(ROWS - 1)]
        rows.append(rows.judge(batch((b"%d" % number, b"x"), *changing)), number)
    check_rows(rows)
    assert rows.messages == 41
    assert len(rows._parts) <= 2


def test_a_large_batch_is_divided_into_parts():
    rows = KeepLast()
    messages = [(b"%d" % at, b"x") for at in range(3 * ROWS + 5)]
    publish(rows, *messages, at_us=1)
    assert [len(part.alive) for part in rows._parts] == [ROWS, ROWS, ROWS, 5]
    assert read(rows) == [(at, *pair) for at, pair in enumerate(messages)]


def test_messages_that_were_accepted_together_are_read_together():
    """TAB-3."""
    rows = kept([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], [(b"b", b"2")], begin_us=0)
    together = rows.together(0)
    assert (together.offsets, together.accepted_us) == ([0, 2, 3], 0)
    assert together.batch == Batch.of([(b"a", b"1"), (b"c", b"1"), (b"b", b"2")])
    assert rows.together(2) is together, "others read it next"


def test_messages_of_another_time_are_read_apart():
    assert kept([(b"a", b"1")], [(b"b", b"1")]).together(0).offsets == [0]


def test_what_superseded_a_message_is_known_while_its_row_is_there():
    """TAB-7."""
    rows = kept([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], [(b"b", b"2")])
    assert rows.successor(1) == 3
    assert [rows.successor(offset) for offset in (0, 2, 3, 4, 99)] == [-1] * 5
    publish(rows, (b"c", b"2"), (b"a", b"2"), at_us=30)
    assert rows.successor(1) == -1


def test_a_time_finds_the_first_message_since():
    """RET-4."""
    rows = kept([(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")], [(b"c", b"3")])
    assert [rows.first_accepted_since(time) for time in (0, 10, 11, 20, 21, 31)] == [
        1,
        1,
        2,
        2,
        3,
        4,
    ]
    assert [rows.accepted_us(offset) for offset in (0, 1, 2, 3, 4)] == [10, 10, 20, 30, None]


def test_half_of_the_marks_are_the_newest_and_the_others_are_spread_evenly():
    rows = KeepLast()
    assert rows.marks(5) == []
    for number in range(4):
        messages = [(b"%d" % (number * ROWS + at), b"x") for at in range(ROWS)]
        rows.append(rows.judge(batch(*messages)), number)
    assert rows.marks(2) == [(0, 0), (4 * ROWS - 1, 3)]
    assert rows.marks(1) == [(4 * ROWS - 1, 3)]
    marks = rows.marks(10)
    spread = [(step * (4 * ROWS - 5) // 5) for step in range(5)]
    assert marks == [(at, at // ROWS) for at in spread] + [(4 * ROWS - 5 + n, 3) for n in range(5)]


def test_no_message_of_a_small_table_is_without_a_mark():
    """However many holes there are, and wherever they are."""
    rows = KeepLast()
    for number in range(3 * ROWS):
        key = b"%d" % (number if number % 700 == 1 else -(number % 3))
        rows.append(rows.judge(batch((key, b"x"))), number)
    live = [1, 701, 1401, 2101, 2801, 3 * ROWS - 3, 3 * ROWS - 2, 3 * ROWS - 1]
    assert rows.marks(len(live)) == [(offset, offset) for offset in live]


def test_rows_that_are_dead_take_no_marks_from_others():
    rows = KeepLast()
    for number, key in enumerate([*range(10), 1, 3, 5]):
        rows.append(rows.judge(batch((b"%d" % key, b"x"))), number)
    live = [0, 2, 4, 6, 7, 8, 9, 10, 11, 12]
    assert [offset for offset, _ in rows.marks(len(live))] == live


def test_what_can_be_read_of_a_range_is_counted():
    rows = kept([(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")], [(b"c", b"3")])
    ranges = ((0, 4), (0, 1), (1, 3), (4, 4), (2, 9))
    assert [rows.live_between(*given)[0] for given in ranges] == [3, 0, 2, 0, 2]
    rows.expire_accepted_until(10)
    assert rows.live_between(0, 4)[0] == 2


def test_what_messages_of_a_range_take_is_exact_where_a_part_is_cut():
    """A large message among small ones takes no share of theirs."""
    rows = kept([(b"a", b"1"), (b"b", b"22")], [(b"large", bytes(9000))], [(b"c", b"3")])
    assert rows.live_between(0, 2) == (2, 2 + 3 + 2 * 8)
    assert rows.live_between(1, 3) == (2, 3 + 9005 + 2 * 8)
    rows.append(rows.judge(batch((b"a", b"4"))), 5)
    assert rows.live_between(0, 2) == (1, 3 + 8)
    assert rows.live_between(0, 9) == (4, 3 + 9005 + 2 + 2 + 4 * 8)
    assert rows.live_between(5, 9) == (0, 0)


def test_live_offsets_reach_as_far_as_was_asked():
    rows = KeepLast()
    for number in range(3 * ROWS):
        rows.append(rows.judge(batch((b"%d" % number, b""))), 1)
    assert len(rows.live_offsets(0, 1)) == ROWS
    assert len(rows.live_offsets(0, 1, ROWS)) == ROWS
    assert len(rows.live_offsets(0, 1, ROWS + 1)) == 2 * ROWS
    assert len(rows.live_offsets(5, 2 * ROWS, 7)) == 3 * ROWS - 5


def test_waiters_are_called_once_and_may_wait_again():
    rows = KeepLast()
    woken = []

    def wake():
        woken.append(rows.next_offset)
        rows.wait("me", wake)

    rows.wait("me", wake)
    rows.wait("other", lambda: woken.append("other"))
    rows.stop_waiting("other")
    publish(rows, b"1", at_us=1)
    publish(rows, b"2", at_us=2)
    assert woken == [1, 2]


def test_nothing_is_left_when_all_is_dropped():
    rows = kept([(b"a", b"1"), (b"b", b"")], [b"2"])
    rows.drop_all()
    check_rows(rows)
    assert (rows.live, rows.memory, rows.expired, rows.head) == (0, 0, 3, 3)


def test_large_messages_that_are_superseded_do_not_stay_in_each_of_many_parts():
    """TAB-4: few rows of each part live, and are small; its next part is too large to be joined."""
    rows = kept()
    for number in range(60):
        small = [(b"%d.%d" % (number, each), b"x") for each in range(3)]
        large = [(b"large %d.%d" % (number % 3, each), bytes(30_000)) for each in range(2)]
        filling = [(b"filling %d.%d" % (number % 2, each), bytes(30_000)) for each in range(7)]
        publish(rows, *small, *large, *filling, at_us=number)
    assert rows.memory < 2 * rows.size


def test_a_message_can_be_forgotten_as_a_tombstone_is():
    """PAT-1: which is told, and leaves a hole."""
    rows = kept([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    assert rows.key_at(1) == b"b"
    rows.forget(b"b")
    rows.expired += 1
    check_rows(rows)
    assert read(rows) == [(0, b"a", b"1"), (2, b"c", b"3")]
    assert (rows.deleted_below, rows.messages, rows.size) == (2, 2, 2 * (2 + ROW))
    rows.forget(b"a")
    rows.expired += 1
    check_rows(rows)
    assert rows.deleted_below == 2
    publish(rows, (b"b", b"4"), at_us=20)
    assert (rows.superseded, rows.offset_of(b"b")) == (0, 3)
