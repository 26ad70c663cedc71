"""One topic on the screen: what keys change about it."""

import anyio
import pytest
from history import History

from zaichik.apps.views.styled_lines import plain
from zaichik.cli.watch_topic import Topic

pytestmark = pytest.mark.anyio


class Answers:
    """A poll that always reads the same."""

    def __init__(self, history):
        state = history.reading()
        self.page = {
            "now_us": state.now_us,
            "boot": state.boot,
            "topic": state.topic,
            "readers": state.readers,
        }

    async def reading(self):
        return self.page


def shown(topic, width=80):
    return [plain(row) for row in topic.lines(width, 24, "● live")]


async def looking_at(history):
    topic = Topic("orders")
    assert await topic.poll(Answers(history))
    return topic


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("a b", ["describe 'a b'", "subscribe --from 2 'a b'"]),
        ("-x", ["describe -- -x", "subscribe --from 2 -- -x"]),
    ],
)
async def test_the_command_that_is_copied_can_be_pasted(name, copied):
    history = History()
    history.subscribe("billing", credit=2)
    history.publish(5)
    history.read("billing")
    topic = Topic(name)
    assert await topic.poll(Answers(history))
    whole = topic.command
    topic.obey("tab")
    assert [whole, topic.command] == [f"zaichik {words}" for words in copied]


async def test_the_table_has_the_numbers_and_says_how_fresh_they_are():
    history = History()
    history.subscribe("billing", credit=2)
    history.publish(5)
    history.read("billing")
    topic = await looking_at(history)
    topic.obey("t")
    title, heads, row = shown(topic)[:3]
    assert title.split() == ["orders", "●", "live"]
    assert heads.split() == [
        "reader",
        "committed",
        "cursor",
        "in",
        "flight",
        "ahead",
        "skipped",
        "state",
    ]
    assert row.split() == ["billing", "0", "2", "2", "3", "0", "waits", "for", "commit"]


async def test_the_numbers_of_a_tables_readers_are_without_its_holes():
    history = History(table=1)
    history.subscribe("late", credit=2)
    for key in (b"a", b"b", b"b", b"c", b"b"):
        history.publish(key=key)
    history.read("late")
    history.commit("late", 1)
    topic = await looking_at(history)
    topic.obey("t")
    _, heads, row = shown(topic)[:3]
    names = "reader committed cursor in flight lag skipped passed state"
    assert " ".join(heads.split()) == names
    assert " ".join(row.split()) == "late 1 5 2 0 0 2 waits for commit"


async def test_the_zoom_is_told_unless_it_is_the_usual_one():
    history = History()
    history.subscribe("billing")
    topic = await looking_at(history)
    topic.obey("tab")
    told = []
    for _ in range(6):
        told.append(shown(topic)[0].rpartition("evict")[2].split())
        topic.obey("z")
    names = ("ring", "lag", "live", "reader")
    assert told == [
        ["●", "live"],
        *(["zoom", name, "·", "●", "live"] for name in names),
        ["●", "live"],
    ]


async def test_the_journal_of_a_topic_that_comes_back_is_followed_when_it_is_there(monkeypatch):
    history = History(journal_bytes=1 << 20)
    topic, followed, polled = await looking_at(history), [], []

    class ComesBack(Answers):
        def __init__(self, *_):
            super().__init__(history)

        async def reading(self):
            polled.append(self)
            return None if len(polled) == 1 else self.page

        async def follow_journal(self):
            followed.append(len(polled))

    monkeypatch.setattr("zaichik.cli.watch_topic.TopicPoll", ComesBack)
    with anyio.CancelScope() as scope:
        await topic.watch(None, lambda: scope.cancel() if len(polled) == 3 else None)
    assert followed
    assert followed[0] > 1
