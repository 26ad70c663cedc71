"""The newest offset of each key, in dictionaries that stay small."""

import sys

from zaichik.core.tables.key_index import MANY_KEYS, SHARDS, KeyIndex


def index_of(**offsets):
    index = KeyIndex()
    index.update({key.encode(): offset for key, offset in offsets.items()}, 0)
    return index


def test_offsets_are_counted_from_the_base():
    index = KeyIndex()
    index.update({b"a": 0, b"b": 2}, 10)
    assert (index.get(b"a"), index.get(b"b"), index.get(b"c")) == (10, 12, -1)


def test_the_newest_offset_wins_and_a_key_counts_once():
    index = index_of(abc=1, d=2)
    index.update({b"abc": 5}, 0)
    assert (len(index), index.key_bytes, index.get(b"abc")) == (2, 4, 5)


def test_what_is_found_is_in_the_order_asked_for_and_at_least_that():
    index = index_of(a=1, b=2, c=3)
    assert index.find([b"c", b"x", b"b", b"a"], 2) == [3, 2]


def test_a_key_is_removed_only_if_it_still_has_that_offset():
    index = index_of(ab=1)
    index.discard(b"ab", 0)
    assert len(index) == 1
    index.discard(b"ab", 1)
    index.discard(b"ab", 1)
    assert (len(index), index.key_bytes, index.get(b"ab")) == (0, 0, -1)


def test_many_keys_are_divided_and_stay_what_they_were():
    index = KeyIndex()
    for number in range(MANY_KEYS + 1):
        assert len(index._shards) == 1
        index.update({b"%d" % number: 0}, number)
    assert len(index._shards) == SHARDS
    assert len(index) == MANY_KEYS + 1
    assert all(index.get(b"%d" % number) == number for number in range(MANY_KEYS + 1))
    # None has so many that enlarging it would take long.
    assert max(map(len, index._shards)) < MANY_KEYS // 16


def test_keys_that_are_gone_take_no_room():
    """TAB-4: a dictionary alone never shrinks as keys are removed."""
    index = KeyIndex()
    keys = {b"%d" % number: number for number in range(20_000)}
    index.update(keys, 0)
    for key, offset in keys.items():
        index.discard(key, offset)
    assert len(index) == 0
    assert all(sys.getsizeof(shard) == sys.getsizeof({}) for shard in index._shards)
