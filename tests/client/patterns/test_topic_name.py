"""The name in a message of a pattern, which knows its epoch."""

import pickle

from zaichik.client.patterns.topic_name import TopicName, may_be_of


def test_it_is_the_name():
    name = TopicName("t.1", 7)
    assert name == "t.1"
    assert hash(name) == hash("t.1")
    assert repr(name) == "'t.1'"


def test_a_copy_of_it_knows_the_same_epoch():
    assert pickle.loads(pickle.dumps(TopicName("t.1", 7))).epoch == 7


def test_it_is_of_the_topic_that_has_its_epoch():
    assert may_be_of(TopicName("t.1", 7), 7)
    assert not may_be_of(TopicName("t.1", 7), 8)


def test_a_name_without_an_epoch_may_be_of_any():
    assert may_be_of("t.1", 7)
    assert may_be_of(TopicName("t.1"), 7)
