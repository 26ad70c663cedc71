"""What a reader is told besides messages, in sentences and in JSON."""

import json

import pytest

from zaichik import DeletionsMissed, Lagged, TopicGone, TopicMissed, TopicUnread
from zaichik.cli import missed

DELETED_UNSEEN = (
    "keys may have been deleted unseen, below offset 4; to be exact, read the table again from "
    "earliest"
)
EVENTS = [
    (
        Lagged("t.1", 4, 5),
        "lag: t.1: 1 message, offset 4, was gone",
        {"lagged": {"topic": "t.1", "start": 4, "end": 5, "count": 1}},
    ),
    (
        Lagged("t.1", 0, 2000),
        "lag: t.1: 2,000 messages, offsets 0 to 1999, were gone",
        {"lagged": {"topic": "t.1", "start": 0, "end": 2000, "count": 2000}},
    ),
    (
        DeletionsMissed("t.1", 4),
        f"deletions missed: t.1: {DELETED_UNSEEN}",
        {"deletions_missed": {"topic": "t.1", "below": 4}},
    ),
    (
        DeletionsMissed("$topics", 4),
        "topics missed: topics may have come and gone unseen",
        {"deletions_missed": {"topic": "$topics", "below": 4}},
    ),
    (
        TopicGone("t.1", 7, 4),
        "topic gone: t.1: the next message to be read was offset 4",
        {"topic_gone": {"topic": "t.1", "epoch": 7, "next": 4}},
    ),
    (
        TopicGone("t.1", 7, 0),
        "topic gone: t.1: nothing of it was read",
        {"topic_gone": {"topic": "t.1", "epoch": 7, "next": 0}},
    ),
    (
        TopicMissed("t.\n", 1),
        "topic missed: t.\\n: 1 topic of that name came and went before anything could be read",
        {"topic_missed": {"topic": "t.\n", "count": 1}},
    ),
    (
        TopicUnread("t.1", "there is no room"),
        "topic unread: t.1: there is no room",
        {"topic_unread": {"topic": "t.1", "reason": "there is no room"}},
    ),
]


@pytest.mark.parametrize(("event", "sentence", "members"), EVENTS)
def test_each_event(capsys, event, sentence, members):
    missed.show(event, as_json=False, of_pattern=True)
    missed.show(event, as_json=True, of_pattern=True)
    captured = capsys.readouterr()
    assert captured.err.replace("\n", " ").strip() == sentence
    assert json.loads(captured.out) == members


def test_the_sentence_of_a_single_topic_does_not_name_it(capsys):
    missed.show(Lagged("t.1", 4, 5), as_json=False, of_pattern=False)
    assert capsys.readouterr().err == "lag: 1 message, offset 4, was gone\n"
