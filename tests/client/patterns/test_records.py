"""What came and went between two records of a topic (PAT-1)."""

import pytest

from zaichik import Message, UnexpectedReply
from zaichik.client.patterns import records
from zaichik.client.patterns.records import Change, KnownTopics, Record, record_of


def message(payload, key=b"t"):
    return Message("$topics", 7, 0.0, key, payload)


def test_a_record_has_what_follow_2_says():
    assert record_of(message(b'{"epoch":4,"earlier":0}')) == Record("t", 4)
    last = b'{"epoch":9,"earlier":2,"first":4,"gone":true,"color":"red"}'
    assert record_of(message(last, "é".encode())) == Record("é", 9, 2, 4, gone=True)


def test_the_largest_numbers_and_the_longest_name_are_right():
    payload = b'{"epoch":18446744073709551615,"earlier":18446744073709551615}'
    assert record_of(message(payload, b"a" * 200)).earlier == 2**64 - 1


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        (b"", b"t"),
        (b"4", b"t"),
        (b"[]", b"t"),
        (b'{"epoch":4}', b"t"),
        (b'{"epoch":0,"earlier":0}', b"t"),
        (b'{"epoch":4,"earlier":-1}', b"t"),
        (b'{"epoch":4,"earlier":true}', b"t"),
        (b'{"epoch":4,"earlier":0,"gone":1}', b"t"),
        (b'{"epoch":4,"earlier":0}', None),
        (b'{"epoch":4,"earlier":0}', b"\xff"),
        (b'{"epoch":4,"earlier":0}', b"a" * 201),
        (b'{"epoch":4,"earlier":0}', b"a\nb"),
        (b'{"epoch":4,"earlier":0}', b"a\x1b[31mb"),
        (b'{"epoch":18446744073709551616,"earlier":0}', b"t"),
        (b'{"epoch":4,"earlier":18446744073709551616}', b"t"),
        (b'{"epoch":4,"earlier":1,"first":18446744073709551616}', b"t"),
        (b'{"epoch":1' + b"0" * 5000 + b',"earlier":0}', b"t"),
        (b"[" * 200_000, b"t"),
    ],
)
def test_anything_else_is_no_record(payload, key):
    with pytest.raises(UnexpectedReply, match=r"message 7 of \$topics is no record"):
        record_of(message(payload, key))


NEW = Change(is_new=True, missed=0, over=0)
NOTHING = Change(is_new=False, missed=0, over=0)


def missed(*taken):
    """How many topics were missed by each of these records."""
    known = KnownTopics()
    return [known.take(record).missed for record in taken]


def test_a_topic_comes_and_goes_and_comes_again():
    known = KnownTopics()
    assert known.take(Record("t", 4)) == NEW
    assert known.has("t", 4)
    assert known.take(Record("t", 4, gone=True)) == Change(is_new=False, missed=0, over=4)
    assert not known.has("t", 4)
    assert known.take(Record("t", 9, 1, 4)) == NEW
    assert known.take(Record("u", 9)) == NEW


def test_the_same_record_changes_nothing():
    known = KnownTopics()
    known.take(Record("t", 4))
    assert known.take(Record("t", 4)) == NOTHING


def test_topics_in_between_are_missed():
    assert missed(Record("t", 4), Record("t", 9, 3, 4)) == [0, 2]
    assert missed(Record("t", 4), Record("t", 9, 3, 4, gone=True)) == [0, 3]
    assert missed(Record("t", 4, gone=True), Record("t", 9, 1, 4)) == [1, 0]


def test_a_topic_that_is_replaced_is_over():
    known = KnownTopics()
    known.take(Record("t", 4))
    assert known.take(Record("t", 9, 3, 4)) == Change(is_new=True, missed=2, over=4)


def test_a_name_that_was_not_known_has_missed_all_that_are_counted():
    assert missed(Record("t", 9, 3, 4)) == [3]
    assert missed(Record("t", 9, 3, 4, gone=True)) == [4]


def test_what_was_before_the_first_look_is_nobodys_loss():
    known = KnownTopics()
    assert known.take(Record("t", 9, 3, 4), is_first=True) == NEW
    assert known.take(Record("u", 9, 3, 4, gone=True), is_first=True) == NOTHING
    assert known.take(Record("u", 12, 4, 4)) == NEW


def test_a_count_that_has_begun_again_begins_after_what_is_known():
    """follow.4."""
    assert missed(Record("t", 4, 7, 1), Record("t", 9, 2, 5)) == [7, 2]
    assert missed(Record("t", 4, 7, 1), Record("t", 9)) == [7, 0]


def test_a_count_that_has_begun_again_with_what_is_known_does_not_count_it_twice():
    """PAT-5: the topic was there when `$topics` was made anew."""
    assert missed(Record("t", 4, 7, 1), Record("t", 9, 3, 4)) == [7, 2]


def test_what_was_found_to_be_gone_is_not_missed_when_its_record_comes():
    known = KnownTopics()
    known.take(Record("t", 4))
    known.note_gone("t", 4)
    known.note_gone("t", 3)
    assert not known.has("t", 4)
    assert known.take(Record("t", 4, gone=True)) == NOTHING
    assert known.take(Record("t", 9, 1, 4)) == NEW


def test_names_that_are_gone_are_forgotten_the_oldest_first(monkeypatch):
    monkeypatch.setattr(records, "MOST_GONE", 2)
    known = KnownTopics()
    for topic in "abc":
        known.take(Record(topic, 4, gone=True))
    assert [known.take(Record(topic, 9, 1, 4)).missed for topic in "bca"] == [0, 0, 1]
