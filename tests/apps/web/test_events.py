"""What a page is sent, and what it may miss."""

import json
import math

import pytest
from browsing import applied
from hypothesis import given, settings
from hypothesis import strategies as st

from zaichik.apps.web import events
from zaichik.apps.web.events import Mailbox, delta, encoded, lean, stream
from zaichik_protocol import FOREVER

plain = st.sampled_from([0, 1, 1.0, -2.5, 2**60, math.inf, math.nan, True, False, None, "", "x"])
names = st.sampled_from("abcd")
inner = st.recursive(
    plain | st.lists(st.sampled_from([None, "", "x", 2.5, {}, {"a": None}]), max_size=2),
    lambda it: st.dictionaries(names, it, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(names, inner, max_size=4)


@settings(max_examples=50)
@given(documents, documents)
def test_a_delta_makes_the_new_state_of_the_old_one(before, after):
    before, after = lean(before), lean(after)
    made = applied(json.loads(json.dumps(delta(before, after))), before)
    assert json.dumps(made, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert delta(before, before) == {}


def test_what_a_patch_or_javascript_cannot_say_is_said_in_another_way():
    told = {
        "gone": None,
        "endless": math.inf,
        "ttl": FOREVER,
        "boot": 2**60,
        "in": [{"gone": None, "n": 1}, None],
    }
    assert lean(told) == {"ttl": "forever", "boot": str(2**60), "in": [{"n": 1}, None]}


@given(st.text())
def test_an_event_is_three_lines_whatever_is_in_it(text):
    head, kind, data, *rest = encoded("state", {"text": text}, 7).decode().split("\n")
    assert (head, kind, rest) == ("id: 7", "event: state", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {"text": text}


@pytest.mark.anyio
class TestAStream:
    @pytest.fixture
    def mailbox(self):
        return Mailbox()

    @pytest.fixture
    def following(self, mailbox):
        """What has happened so far, and the stream that tells of it."""
        now = []
        return now, stream(
            mailbox, {"version": "1"}, lambda: ("state", {"n": now[-1]}) if now else None, 1000
        )

    async def kind(self, told):
        event = await anext(told)
        return event.split(b"\n")[1].removeprefix(b"event: ").decode()

    async def test_begins_with_hello_and_the_whole_state(self, following):
        now, told = following
        assert await self.kind(told) == "hello"
        now.append(1)
        assert await anext(told) == encoded("state", {"n": 1}, 1)

    async def test_leaves_out_what_was_replaced_before_there_was_room(self, following, mailbox):
        now, told = following
        now.append(1)
        assert [await self.kind(told) for _ in range(2)] == ["hello", "state"]
        for n in range(2, 100):
            now.append(n)
            mailbox.put()
        assert await anext(told) == encoded("delta", {"n": 99}, 2)

    async def test_is_whole_again_after_a_while(self, following, mailbox, monkeypatch):
        monkeypatch.setattr(events, "KEYFRAME_S", 0)
        now, told = following
        now.append(1)
        assert [await self.kind(told) for _ in range(2)] == ["hello", "state"]
        now.append(2)
        mailbox.put()
        assert await anext(told) == encoded("state", {"n": 2}, 2)

    async def test_says_that_it_is_there_when_nothing_happens(self, following, monkeypatch):
        monkeypatch.setattr(events, "HEARTBEAT_S", 0.001)
        _, told = following
        assert await self.kind(told) == "hello"
        assert await self.kind(told) == "alive"

    async def test_says_that_it_is_there_when_there_is_news_that_is_the_same(
        self, following, mailbox, monkeypatch
    ):
        """A broker that does not answer is asked again and again, and the page's stream goes on."""
        monkeypatch.setattr(events, "HEARTBEAT_S", 0)
        now, told = following
        now.append(1)
        assert [await self.kind(told) for _ in range(2)] == ["hello", "state"]
        mailbox.put()
        assert await anext(told) == encoded("alive", {}, 1)

    async def test_ends_with_bye_and_the_first_reason(self, following, mailbox):
        now, told = following
        now.append(1)
        assert [await self.kind(told) for _ in range(2)] == ["hello", "state"]
        now.append(2)
        mailbox.end("logged out", login=True)
        mailbox.end("something else")
        assert await anext(told) == encoded("bye", {"text": "logged out", "login": True}, 2)
        assert [event async for event in told] == []
