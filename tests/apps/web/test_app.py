"""What is asked at each address, and what is answered."""

import json
from contextlib import AsyncExitStack
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest
from browsing import broker_and_page, page

import zaichik
from zaichik.apps.web import app, hub
from zaichik.apps.web.events import delta, encoded
from zaichik.apps.web.guard import PAGES
from zaichik.apps.web.interests import Interest, TopicsInterest, View
from zaichik.base.clock import ManualClock
from zaichik.learn.server import free_port

pytestmark = pytest.mark.anyio

MARKUP = "<img src=x onerror=alert(1)>"
ORDERS = "view=topic&topic=orders"


def names(table):
    return [row[table["columns"].index("name")] for row in table["rows"]]


async def test_a_published_message_is_told_to_who_looks_at_the_topic():
    async with broker_and_page() as (client, browser, _), browser().events(ORDERS) as stream:
        kind, hello = await stream.next()
        assert (kind, hello["write"], hello["user"]) == ("hello", True, "")
        state = await stream.until(lambda state: state["reading"]["topic"]["next_offset"] == 0)
        assert state["reading"]["messages"] == {}
        await client.publish("orders", b"two apples", key=b"k")
        state = await stream.until(lambda state: "0" in state["reading"]["messages"])
        assert state["reading"]["messages"]["0"]["payload"] == "two apples"
        assert "resident::0" in state["picture"]["marks"]


async def test_a_reader_has_a_lane_and_is_told_by_name():
    async with broker_and_page() as (client, browser, _), client.subscribe("orders", name="audit"):
        state = (await browser().get(f"/state?{ORDERS}")).json
    (lane,) = state["picture"]["lanes"].values()
    assert lane["label"] == "audit"
    assert state["reading"]["readers"].keys() == state["picture"]["lanes"].keys()


async def test_markup_in_names_keys_and_payloads_is_text_in_json():
    async with broker_and_page() as (client, browser, _):
        await client.publish(MARKUP, MARKUP.encode(), key=MARKUP)
        topics = await browser().get("/state?view=topics")
        async with client.subscribe(MARKUP, name=MARKUP):
            await client.publish(MARKUP, MARKUP.encode(), key=MARKUP)
            one = await browser().get(f"/state?view=topic&topic={MARKUP}")
            connections = await browser().get("/state?view=connections")
    for answer in (topics, one, connections):
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        json.loads(answer.body)
    assert names(topics.json)[0] == MARKUP
    (lane,) = one.json["picture"]["lanes"].values()
    assert lane["label"] == MARKUP


async def test_invisible_characters_of_strangers_are_shown():
    async with (
        broker_and_page() as (client, browser, _),
        client.subscribe("orders", name="a\u202eb"),
    ):
        connections = (await browser().get("/state?view=connections")).json
        assert connections["subscriptions"]["rows"][0]["session"] == "a\\u202eb"


async def test_a_table_is_sorted_searched_and_cut_here():
    async with broker_and_page() as (client, browser, _):
        for size, name in enumerate(["b.eu", "a.eu", "c.us", "d.EU"]):
            await client.create_topic(name, retention_ttl="forever")
            await client.publish(name, b"x" * size * 10)

        async def table(query):
            return (await browser().get(f"/state?view=topics&{query}")).json

        assert names(await table("")) == ["a.eu", "b.eu", "c.us", "d.EU", "orders"]
        assert names(await table("search=Eu")) == ["a.eu", "b.eu", "d.EU"]
        assert names(await table("sort=-bytes&search=.")) == ["d.EU", "c.us", "a.eu", "b.eu"]
        cut = await table("sort=-name&first=1&count=2")
        assert (names(cut), cut["found"], cut["all"]) == (["d.EU", "c.us"], 5, 5)


async def test_a_view_that_does_not_exist_is_refused_in_a_sentence():
    queries = (
        f"view=topic&topic={'x' * 401}",
        "view=nothing",
        "view=topic",
        "view=topics&topic=t",
        "count=x",
        "hz=-1",
        "width=1e9",
        "first=٣",
    )
    async with broker_and_page() as (_, browser, _):
        for query in queries:
            answer = await browser().get(f"/state?{query}")
            assert (answer.status, bool(answer.json["text"])) == (400, True), query


async def test_a_topic_that_is_not_there_is_told_and_waited_for():
    async with (
        broker_and_page() as (client, browser, _),
        browser().events("view=topic&topic=later") as stream,
    ):
        _, trouble = await stream.next("trouble")
        assert trouble["text"].startswith("there is no topic of that name")
        await client.create_topic("later")
        await stream.until(lambda state: state["reading"]["topic"]["name"] == "later")


async def test_ten_pages_ask_the_broker_as_one():
    async with broker_and_page() as (client, browser, web), anyio.create_task_group() as tasks:

        async def look():
            async with browser().events(ORDERS) as stream:
                await stream.next("state")

        for _ in range(10):
            tasks.start_soon(look)
        async with browser().events(ORDERS) as stream:
            await stream.next("state")
            hub = (await web.sessions.anybody()).hub
            assert len(hub._interests) == 1
        assert [row["client"] for row in await client.connections()].count("zaichik web") == 2


async def test_the_65th_page_gets_a_sentence_and_a_place_when_another_has_gone():
    async with broker_and_page() as (_, browser, _), anyio.create_task_group() as tasks:
        opened, are_open, done = [], anyio.Event(), anyio.Event()

        async def look():
            async with browser().events(ORDERS) as stream:
                opened.append(await stream.next("hello"))
                if len(opened) == 63:
                    are_open.set()
                await done.wait()

        for _ in range(63):
            tasks.start_soon(look)
        await are_open.wait()
        async with browser().events(ORDERS) as leaves:
            await leaves.next("hello")
            refused = await browser().get(f"/events?{ORDERS}")
            assert (refused.status, refused.json["text"]) == (
                503,
                "64 pages are open, which is the limit; close one",
            )
        async with browser().events(ORDERS) as comes:
            await comes.next("hello")
        done.set()


async def test_the_head_of_a_stream_takes_no_place():
    async with broker_and_page() as (_, browser, web):
        assert (await browser().get(f"/events?{ORDERS}", "HEAD")).status == 200
        assert web.sessions.pages() == 0


async def test_a_bug_is_logged_and_told_without_its_traceback(monkeypatch, caplog):
    monkeypatch.setattr(app.View, "of", lambda _: 1 // 0)
    async with broker_and_page() as (_, browser, _web):
        with pytest.raises(ZeroDivisionError):  # for the server, which says nothing more about it
            await browser().get("/state")
    assert [record.message for record in caplog.records] == ["a bug in answering /state"]


async def test_a_browser_that_leaves_before_its_request_is_complete_is_no_error():
    async with broker_and_page() as (_, browser, _web):
        assert (await browser().leave("/login")).status == 400


async def test_when_the_server_stops_every_page_gets_a_bye():
    async with broker_and_page() as (_, browser, web), anyio.create_task_group() as tasks:
        byes = []

        async def look():
            async with browser().events(ORDERS) as stream:
                await stream.next("state")
                started.append(stream)
                if len(started) == 10:
                    web.stop()
                byes.append(await stream.next("bye"))
                with pytest.raises(anyio.EndOfStream):
                    await stream.next()

        started = []
        for _ in range(10):
            tasks.start_soon(look)
    assert byes == [("bye", {"text": "the page's server has stopped", "login": False})] * 10


async def test_a_message_is_published_with_write_only():
    async with broker_and_page() as (client, browser, _):
        answer = await browser().post("/publish", {"topic": "orders", "payload": "é", "key": "k"})
        assert (answer.status, answer.json["offset"]) == (200, 0)
        async with client.subscribe("orders", until=1) as messages:
            assert [(message.key, message.payload) async for message in messages] == [
                (b"k", "é".encode())
            ]
    async with broker_and_page(can_write=False) as (_, browser, _):
        assert (await browser().post("/publish", {"topic": "orders", "payload": "x"})).status == 404


async def test_a_body_that_is_not_an_object_of_texts_is_refused():
    texts = (
        b"",
        b"[]",
        b"nothing",
        b"\xff",
        b'{"topic": "t"}',
        b'{"topic": 1, "payload": "x"}',
        b"[" * 100_000,
    )
    async with broker_and_page() as (_, browser, _):
        for body in (*texts, b'{"topic": "t", "payload": "\\ud800"}'):
            assert (await browser().post("/publish", body)).status == 400, body[:40]


async def test_what_the_broker_refuses_is_told():
    async with broker_and_page() as (_client, browser, _):
        answer = await browser().post("/publish", {"topic": "$broker", "payload": "x"})
        assert (answer.status, answer.json["text"].endswith("[INVALID_FIELD]")) == (400, True)


async def test_a_page_publishes_twenty_messages_a_second():
    clock = ManualClock(1_000_000_000)
    async with broker_and_page(clock=clock) as (_, browser, _):

        async def status():
            return (await browser().post("/publish", {"topic": "orders", "payload": "x"})).status

        assert [await status() for _ in range(21)] == [200] * 20 + [429]
        clock.advance(0.05)
        assert [await status() for _ in range(2)] == [200, 429]


async def test_a_topic_that_stays_full_is_told(monkeypatch):
    monkeypatch.setattr(app, "PUBLISH_S", 0.01)
    async with broker_and_page() as (client, browser, _):
        await client.create_topic("full", capacity=1, overflow="reject", retention_ttl=0)
        async with client.subscribe("full", name="r"):
            await client.publish("full", b"x")
            answer = await browser().post("/publish", {"topic": "full", "payload": "x"})
            assert (answer.status, "full" in answer.json["text"]) == (504, True)


async def test_a_broker_that_is_gone_is_told_and_found_again():
    port = free_port()
    async with zaichik.running_broker(port=port), zaichik.connect(port=port) as client:
        await client.create_topic("orders")
    async with page(port) as (browser, _), browser().events(ORDERS) as stream:
        _, trouble = await stream.next("trouble")
        assert f"no broker answers at 127.0.0.1:{port}" in trouble["text"]
        assert (await browser().get(f"/state?{ORDERS}")).status == 503
        for number in range(2):
            async with zaichik.running_broker(port=port), zaichik.connect(port=port) as client:
                await client.create_topic("orders", retention_ttl="forever")
                await client.publish("orders", f"{number}".encode())
                await stream.until(lambda state, text=f"{number}": _first(state) == text)
            await stream.next("trouble")


def _first(state):
    return state["reading"]["messages"].get("0", {}).get("payload")


async def test_an_answer_that_is_not_understood_takes_one_view_and_not_the_others(
    monkeypatch, caplog
):
    async def ask(_self, _poller):
        raise KeyError("columns")

    monkeypatch.setattr(TopicsInterest, "ask", ask)
    async with broker_and_page() as (_, browser, _):
        failed = await browser().get("/state?view=topics")
        assert (failed.status, "not understood" in failed.json["text"]) == (503, True)
        assert (await browser().get(f"/state?{ORDERS}")).status == 200
    assert "KeyError: 'columns'" in caplog.text


async def test_the_page_and_its_files_are_there():
    async with broker_and_page() as (_, browser, _):
        answer = await browser().get("/")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b'<script type="module" src="/static/' in answer.body
        assert (await browser().get("/static/../app.py")).status == 404
        assert (await browser().get("/nothing")).status == 404


async def test_each_view_has_an_address_that_others_may_link_to():
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    async with broker_and_page() as (_, browser, _):
        for path in PAGES:
            assert (await browser().get(path, **link)).body == (await browser().get("/")).body
        assert (await browser().get("/stage/scenes", **link)).status == 403


async def test_a_stage_is_played_on_a_broker_of_its_own():
    async with broker_and_page() as (client, browser, _):
        scene = (await browser().get("/stage/scenes")).json[0]["slug"]
        opened = await browser().post("/stage?width=800", {"link": scene})
        assert (opened.status, "marks" in opened.json["here"]["picture"]) == (200, True)
        stepped = (await browser().post(f"/stage/{opened.json['id']}/step")).json
        assert stepped["here"]["step"] == opened.json["here"]["step"] + 1
        assert [topic["name"] for topic in await client.topics()] == ["orders"]


async def test_many_topics_are_shown_while_they_are_counted(monkeypatch):
    class Many:
        client = SimpleNamespace(describe=None)

        def __init__(self, names):
            self.names = names

        async def ask(self, _):
            return {"now_us": 0}

        async def counters(self, now_us):
            numbers = (
                "head",
                "next_offset",
                "bytes",
                "published",
                "damaged",
                "refused",
                "subscriptions",
                "needed",
            )
            row = dict.fromkeys((*numbers, "needed_us", "capacity"), 0)
            for name in self.names:
                yield now_us, [row | {"name": name}]

    monkeypatch.setattr(Interest, "seconds", -1)
    shown, topics = [], TopicsInterest()
    topics.put = lambda: shown.append(names(topics.show(View.of({}))[1]))
    await topics.ask(Many("abc"))
    await topics.ask(Many("b"))
    assert shown == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c"]]
    assert names(topics.show(View.of({}))[1]) == ["b"]


async def test_topics_that_nobody_looks_at_any_longer_make_room(monkeypatch):
    monkeypatch.setattr(hub, "MOST_INTERESTS", 2)
    async with broker_and_page() as (client, browser, _), browser().events(ORDERS) as stream:
        await stream.next("state")
        for number in range(5):
            await client.create_topic(f"t{number}")
            assert (await browser().get(f"/state?view=topic&topic=t{number}")).status == 200
        async with browser().events("view=topics") as other:
            await other.next("rows")
            assert (await browser().get("/state?view=connections")).status == 503
        await client.publish("orders", b"x")
        await stream.until(lambda state: state["reading"]["topic"]["next_offset"] == 1)


async def test_a_page_may_ask_why_a_message_did_not_arrive():
    async with broker_and_page() as (client, browser, _):
        await client.publish("orders", b"x", key="k")
        for query in ("offset=0", "key=k"):
            answer = await browser().get(f"/explain?topic=orders&{query}")
            assert (answer.status, bool(answer.json)) == (200, True), query
        for query in ("", "&offset=x", "&offset=-1"):
            assert (await browser().get(f"/explain?topic=orders{query}")).status == 400, query
        assert (
            (await browser().get("/explain?topic=none&offset=0"))
            .json["text"]
            .endswith("[NO_SUCH_TOPIC]")
        )


async def test_texts_that_no_frame_can_carry_are_refused():
    huge = "x" * 100_000
    async with broker_and_page() as (_, browser, _):
        for body in (
            {"topic": huge, "payload": "x"},
            {"topic": "orders", "payload": "x", "key": huge},
        ):
            assert (await browser().post("/publish", body)).status == 400
        for body in ({"secret": huge}, {"user": huge, "secret": "x"}):
            assert (await browser().post("/login", body)).status in {400, 403}
        assert (await browser().get(f"/explain?topic={huge}&offset=1")).status == 400


async def test_a_state_and_its_changes_are_small():
    async with broker_and_page() as (client, browser, _), AsyncExitStack() as readers:
        for number in range(12):
            await readers.enter_async_context(
                client.subscribe("orders", name=f"reader-{number}", credit=20)
            )
        for _ in range(100):
            await client.publish("orders", b"two apples", key=b"AA1234")
        async with browser().events(ORDERS) as stream:
            before = await stream.until(
                lambda state: state["reading"]["topic"]["next_offset"] == 100
            )
            await client.publish("orders", b"two apples", key=b"AA1234")
            after = await stream.until(lambda state: "100" in state["reading"]["messages"])
    assert len(encoded("state", before, 1)) < 24_000
    assert len(encoded("delta", delta(before, after), 2)) < 6_000
    assert delta(before, after)["reading"]["messages"].keys() == {"50", "100"}
