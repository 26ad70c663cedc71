"""Recorders of several topics: those of patterns come and go, those that are named must not."""

import threading

import pytest
from embedded import embedded_broker

from zaichik.apps.recording import recorders
from zaichik.apps.recording.matching import MatchingTopics
from zaichik.apps.recording.recorder import Progress, record
from zaichik.apps.recording.recorders import Recorders
from zaichik.apps.recording.recording import Recording
from zaichik.client import blocking
from zaichik.client.errors import ConnectionLost, SubscriptionLost
from zaichik.client.patterns.pattern import Pattern
from zaichik_protocol import EndCode


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(recorders, "POLL_SECONDS", 0.001)


class World:
    """What each look finds, one after the other; then it is time to stop.

    Recorders go on until then, unless one is in `ends`: it ends with that error when a look no
    longer finds its topic.
    """

    def __init__(self, *looks):
        self._looks = list(looks)
        self.there, self.unseen = {}, []
        self.begun = []
        self.ends = {}
        self._changed = threading.Condition()
        self.is_over = False

    def look(self):
        """As `MatchingTopics`. The next one waits until all of this one's recorders have begun."""
        with self._changed:
            assert self._changed.wait_for(self._is_settled, 60)
            if not self._looks:
                self.is_over = True
            else:
                found = self._looks.pop(0)
                if isinstance(found, Exception):
                    raise found
                self.there = found
            self._changed.notify_all()

    def _is_settled(self):
        return all(name in self.begun or name in self.held for name in self.there)

    held = ()

    def record(self, name):
        with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self.is_over or (name in self.ends and name not in self.there), 60
            )
            if name in self.ends and not self.is_over:
                raise self.ends[name]
        return Progress(name, 1, 0, None, 0)

    def stopping(self):
        return self.is_over

    def run(self, *names, follow=True):
        return Recorders(self.record, names, [self], follow=follow).run(self.stopping)


def topics(found):
    return sorted(progress.topic for progress in found.progress)


def test_topics_that_come_later_are_recorded_if_they_are_followed():
    world = World({}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2})
    assert topics(world.run("named")) == ["a", "b", "named"]
    assert sorted(world.begun) == ["a", "b", "named"]


def test_a_topic_that_is_named_and_matches_is_recorded_once():
    world = World({"a": 1})
    assert topics(world.run("a")) == ["a"]


def gone():
    return SubscriptionLost("the topic was deleted", EndCode.DELETED.name)


def test_a_topic_that_goes_is_said_and_the_others_go_on(caplog):
    world = World({"a": 1, "b": 2}, {"b": 2}, {"b": 2})
    world.ends["a"] = gone()
    found = world.run()
    assert (topics(found), found.gone, found.failures) == (["b"], ["a"], [])
    assert "a: the topic is gone; what was recorded of it is kept" in caplog.text


def test_topics_that_came_and_went_are_said(caplog):
    world = World({})
    world.unseen = ["a"]
    assert world.run().unseen == ["a"]
    assert "a: came and went before it could be recorded" in caplog.text


def test_no_more_topics_are_followed_than_there_may_be(monkeypatch, caplog):
    monkeypatch.setattr(recorders, "MOST_FOLLOWED", 1)
    world = World({"a": 1, "b": 2}, {"a": 1, "b": 2})
    world.held = ("b",)
    found = world.run()
    assert (topics(found), found.unread) == (["a"], {"b"})
    assert caplog.text.count("b: is not recorded, because no more than 1 of a pattern") == 1


def test_what_is_wrong_with_a_named_topic_ends_all():
    world = World({"a": 1}, {"a": 1})
    failures = {"named": gone()}

    def fail(name):
        if name in failures:
            raise failures[name]
        world.begun.append(name)
        assert some.failed.wait(60)
        return Progress(name, 1, 0, None, 0)

    some = Recorders(fail, ["named"], [world], follow=True)
    found = some.run(lambda: world.is_over or some.failed.is_set())
    assert found.failures == [failures["named"]]


def test_a_look_that_fails_ends_all():
    """The broker is gone, and the recorders are not waited for."""
    lost = ConnectionLost("for good")
    world = World({"a": 1}, lost)
    stopped = threading.Event()

    def follow(name):
        world.begun.append(name)
        assert some.failed.wait(60)
        stopped.set()

    some = Recorders(follow, [], [world], follow=True)
    with pytest.raises(ConnectionLost):
        some.run(some.failed.is_set)
    assert stopped.is_set()


def test_all_topics_that_match_are_recorded(tmp_path):
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        for topic in ("orders.de", "orders.fr", "other"):
            broker.create(topic)
            broker.publish(topic, [(None, topic.encode())])

        def recorded(topic):
            with blocking.connect(port=broker.port) as another:
                return record(another, topic, tmp_path)

        matching = MatchingTopics(client, Pattern("orders.*"))
        found = Recorders(recorded, [], [matching], follow=False).run(lambda: False)
        matching.close()
    assert topics(found) == ["orders.de", "orders.fr"]
    assert [len(Recording(tmp_path, topic).parts()) for topic in topics(found)] == [1, 1]
