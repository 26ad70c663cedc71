"""A pattern's reader whose rights change, at a broker with users (PAT-5)."""

import pytest
from attacked import attacked_broker

from zaichik import DeletionsMissed, Message, TopicUnread

pytestmark = pytest.mark.anyio

ANA = "user ana\nallow all *\nuser boris\nallow subscribe "


def change(broker, rules):
    (broker.folder / "rules").write_text(rules)
    assert broker.gate.reload()
    broker.server.sweep()


async def told(pattern, count):
    """What it is told next, in short; there is no order between topics."""
    found = set()
    for _ in range(count):
        match await anext(pattern):
            case Message() as message:
                found.add((message.topic, message.offset))
            case TopicUnread() as unread:
                found.add((unread.topic, "unread"))
            case DeletionsMissed() as missed:
                found.add((missed.topic, "missed"))
    return found


async def test_a_reader_gets_what_it_may_read_and_goes_on_when_it_may_again(tmp_path):
    async with (
        attacked_broker(tmp_path / "access", ANA + "public\n") as broker,
        broker.client("ana") as ana,
        broker.client("boris") as boris,
    ):
        for topic in ("public", "hidden"):
            await ana.create_topic(topic, retention_ttl="forever")
            await ana.publish(topic, b"first")
        async with boris.subscribe_pattern("**", events=True) as pattern:
            assert await told(pattern, 1) == {("public", 0)}
            change(broker, ANA + "hidden\n")
            unread = {("public", "unread"), ("$topics", "missed")}
            assert await told(pattern, 3) == unread | {("hidden", 0)}
            assert pattern.topics == ("hidden",)
            await ana.publish("public", b"meanwhile")
            change(broker, ANA + "public\nallow subscribe hidden\n")
            found = set()
            while ("public", 1) not in found:
                found |= await told(pattern, 1)
            assert found == {("$topics", "missed"), ("public", 1)}
            assert sorted(pattern.topics) == ["hidden", "public"]
