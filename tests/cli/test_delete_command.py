"""`zaichik delete`."""

import pytest

from zaichik.client.client import Client
from zaichik.client.errors import Unsupported
from zaichik_protocol import Delete, Error, ErrorCode

pytestmark = pytest.mark.usefixtures("connected")


def test_a_topic_is_deleted(zaichik, topic):
    """TOP-6."""
    zaichik("publish", topic, "1", "2")
    result = zaichik("delete", topic)
    assert (result.code, result.out, result.err) == (0, f"{topic}: deleted\n", "")
    assert zaichik("topics", topic, "--json").json == []


def test_a_topic_that_is_not_empty_stays_if_that_was_asked_for(zaichik, topic):
    """TOP-6."""
    zaichik("publish", topic, "1", "2")
    result = zaichik("delete", topic, "--if-empty")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert f"topic '{topic}' has 2 messages, 0 subscriptions and 0 named positions" in result.err
    assert len(zaichik("topics", topic, "--json").json) == 1
    zaichik("delete", topic)
    zaichik("create", topic)
    assert zaichik("delete", topic, "--if-empty").out == f"{topic}: deleted\n"


def test_a_reader_is_told(zaichik, start, topic):
    """TOP-6."""
    zaichik("publish", topic, "1")
    reader = start("subscribe", topic)
    reader.stdout.readline()
    zaichik("delete", topic)
    assert reader.wait() == 1
    ended = (
        f"zaichik: the subscription to {topic} was ended: the topic was deleted (zaichik "
        "explain DELETED)\n"
    )
    assert reader.stderr.read() == ended


def test_a_topic_that_is_not_there(zaichik, topic):
    result = zaichik("delete", topic)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert f"there is no topic '{topic}'" in result.err


def test_the_brokers_own_topics_are_not_for_clients_to_delete(zaichik):
    result = zaichik("delete", "$journal/t")
    assert (result.code, "belong to the broker" in result.err) == (1, True)


def test_an_older_broker(zaichik, topic, monkeypatch):
    async def delete_topic(self, topic, *, if_empty):
        raise Unsupported(
            Error(
                1,
                ErrorCode.UNSUPPORTED,
                Delete.TYPE,
                "type",
                0,
                "frame type 0x0a is not known here",
            )
        )

    monkeypatch.setattr(Client, "delete_topic", delete_topic)
    result = zaichik("delete", topic)
    assert result.code == 1
    assert "is too old to delete topics" in result.err
