"""Looks at `$topics`: what matches is known, and what came and went is told."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from embedded import embedded_broker

from zaichik.apps.recording.matching import MatchingTopics
from zaichik.client import blocking
from zaichik.client.errors import EpochChanged
from zaichik.client.messages import DeletionsMissed
from zaichik.client.patterns.pattern import Pattern
from zaichik_protocol import Batch, Error, ErrorCode, Messages

PATTERN = Pattern("orders.*")
ANEW = Error(0, ErrorCode.EPOCH_CHANGED, 0, "epoch", 0, "another one")


def record(offset, name, **members):
    payload = json.dumps({"epoch": 5, "earlier": 0} | members).encode()
    return Messages(1, offset, 0, Batch.of([(name.encode(), payload)]))


class Scripted:
    """A client of a broker whose `$topics` has these rounds of records, by epoch."""

    def __init__(self, *tables):
        self._tables = list(tables)
        self.next = self.start = 0
        self._rounds = []

    @property
    def epoch(self):
        return self._tables[0][0]

    @property
    def live(self):
        return self._tables[0][1]

    @contextmanager
    def subscribe(self, topic, *, start="earliest", **_):
        assert topic == "$topics"
        if start == "latest":
            yield SimpleNamespace(epoch=self.epoch, start=self.live)
            return
        self.start_over()
        yield self

    def start_over(self):
        self.next = 0
        self._rounds = list(self._tables[0][2])

    def fetch(self):
        item = self._rounds.pop(0)
        if isinstance(item, EpochChanged):
            del self._tables[0]
            raise item
        if isinstance(item, Messages):
            self.next = item.base + 1
        else:
            del self._tables[0]
        return [item]


def test_a_look_has_all_topics_that_match():
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        matching = MatchingTopics(client, PATTERN)
        epoch = broker.create("orders.de")
        broker.create("other")
        matching.look()
        assert (matching.there, matching.unseen) == ({"orders.de": epoch}, [])
        broker.delete("orders.de")
        matching.look()
        assert (matching.there, matching.unseen) == ({}, []), "it was seen"
        matching.close()


def test_after_records_that_were_missed_all_is_read_again():
    """PAT-1: what came and went in between has no name any more."""
    before = (1, 2, [record(0, "orders.old"), DeletionsMissed("$topics", 2)])
    after = (1, 3, [record(2, "orders.de", epoch=7)])
    matching = MatchingTopics(Scripted(before, after), PATTERN)
    matching.look()
    assert (matching.there, matching.unseen) == ({"orders.de": 7}, [MatchingTopics.UNNAMED])


def test_a_table_that_is_made_anew_is_read_anew():
    """PAT-5."""
    changed = EpochChanged(ANEW)
    matching = MatchingTopics(
        Scripted((1, 1, [changed]), (2, 1, [record(0, "orders.de", epoch=7)])), PATTERN
    )
    matching.look()
    assert matching.there == {"orders.de": 7}


def test_a_table_that_is_made_anew_for_ever_is_an_error():
    tables = [(number, 1, [EpochChanged(ANEW)]) for number in range(9)]
    with pytest.raises(EpochChanged):
        MatchingTopics(Scripted(*tables), PATTERN).look()
