"""What a stream brings, and how it goes on."""

import json
from collections import Counter
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from programs import LINES, broker_and_program, programs

import zaichik
from zaichik.apps.web.topics import forms, front, link, reading
from zaichik.base.clock import ManualClock
from zaichik.learn.server import free_port

pytestmark = pytest.mark.anyio

ALL = "/topics/orders?start=earliest"


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr(reading, "RETRY_WAITS", (0.01, 0.02))
    monkeypatch.setattr(link, "FAILED_S", 0.0)


async def published(client, *payloads, topic="orders"):
    for payload in payloads:
        await client.publish(topic, payload.encode())


async def test_a_message_is_an_event_with_an_id():
    async with broker_and_program() as (client, program, _):
        await client.publish("orders", b"two\napples", key=b"alice")
        epoch = (await client.topic("orders"))["epoch"]
        async with program.reading(ALL) as stream:
            kind, data = await stream.next()
            assert kind == "message"
            assert (data["offset"], data["key"], data["payload"]) == (0, "alice", "two\napples")
            assert stream.last_id == f"{epoch}-0"
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.headers["x-accel-buffering"] == "no"
            assert stream.headers["cache-control"] == "no-store"
            await published(client, "live")
            assert await stream.payloads(1) == ["live"]


async def test_without_a_start_only_what_is_new_comes():
    async with broker_and_program() as (client, program, _):
        await published(client, "old")
        async with program.reading("/topics/orders") as stream:
            await stream.began()
            await published(client, "new")
            assert await stream.payloads(1) == ["new"]


async def test_a_browser_goes_on_where_it_was():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        async with program.reading(ALL) as stream:
            assert await stream.payloads(2) == ["a", "b"]
        await published(client, "d")
        for sent in ({"last_event_id": stream.last_id}, {}):
            address = f"{ALL}&after={stream.last_id}"
            async with program.reading(address, **sent) as again:
                assert await again.payloads(2) == ["c", "d"]


async def test_a_browser_that_was_sent_nothing_goes_on_where_it_began():
    async with broker_and_program() as (client, program, _):
        await published(client, "old")
        async with program.reading("/topics/orders") as stream:
            await stream.began()
        await published(client, "new")
        async with program.reading("/topics/orders", last_event_id=stream.last_id) as again:
            assert await again.payloads(1) == ["new"]


async def test_what_a_browser_sends_by_itself_is_newer_than_its_pages_address():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        epoch = (await client.topic("orders"))["epoch"]
        address, last = f"/topics/orders?after={epoch}-0", f"{epoch}-1"
        async with program.reading(address, last_event_id=last) as stream:
            assert await stream.payloads(1) == ["c"]


async def test_lines_are_messages_with_their_ids():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        async with program.lines(f"{ALL}&until=2") as stream:
            lines = [json.loads(line) for line in (await stream.rest()).splitlines()]
            assert [line["payload"] for line in lines] == ["a", "b"]
            assert stream.headers["content-type"] == "application/x-ndjson"
        async with program.lines(f"/topics/orders?until=3&after={lines[0]['id']}") as stream:
            assert [json.loads(line)["payload"] for line in (await stream.rest()).splitlines()] == [
                "b",
                "c",
            ]


async def test_what_was_read_can_be_published_as_it_is():
    async with broker_and_program() as (client, program, _):
        await client.publish("orders", b"\xff", key=b"a")
        async with program.lines(f"{ALL}&until=1") as stream:
            body = await stream.rest()
        answer = await program.post("/topics/copy", body, content_type="application/x-ndjson")
        assert answer.json["stored"] == 1


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("text/html, */*;q=0.8", "text/event-stream"),
        ("Text/Event-Stream", "text/event-stream"),
        ("application/x-ndjson, text/event-stream", "application/x-ndjson"),
        ("application/x-ndjson;q=0, */*", "text/event-stream"),
    ],
)
async def test_the_form_is_the_one_that_is_accepted(accept, media_type):
    async with (
        broker_and_program() as (_, program, _),
        program.reading("/topics/orders", accept=accept) as stream,
    ):
        await stream.begun.wait()
        assert stream.headers["content-type"] == media_type


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("start=first", {}, 400),
        ("start=-1", {}, 400),
        (f"start={2**64}", {}, 400),
        ("start=9", {}, 416),
        ("until=x", {}, 400),
        (f"until={2**64}", {}, 400),
        ("untl=1", {}, 400),
        ("start=0&start=1", {}, 400),
        ("after=1", {}, 400),
        ("", {"last_event_id": "1\u00e9"}, 400),
        ("name=" + "n" * 2000, {}, 400),
        ("name=", {}, 400),
        ("", {"accept": "application/json"}, 406),
        ("", {"accept": "text/event-stream;q=0"}, 406),
    ],
)
async def test_a_request_that_means_nothing_is_refused(query, headers, status):
    async with broker_and_program() as (_, program, _):
        answer = await program.get(f"/topics/orders?{query}", **headers)
        assert (answer.status, bool(answer.json["error"])) == (status, True)


async def test_messages_that_are_gone_are_reported_and_not_twice():
    async with broker_and_program() as (client, program, _):
        await client.create_topic("small", capacity=2, retention_ttl="forever")
        await published(client, *"abcd", topic="small")
        async with program.reading("/topics/small?start=0") as stream:
            assert await stream.next() == ("lagged", {"start": 0, "end": 2, "count": 2})
            last = stream.last_id
        async with program.reading("/topics/small", last_event_id=last) as stream:
            assert await stream.payloads(2) == ["c", "d"]
        async with program.lines("/topics/small?start=0&until=4") as stream:
            assert (await stream.next())["lagged"] == {"start": 0, "end": 2, "count": 2}
            assert await stream.payloads(2) == ["c", "d"]


async def test_a_deleted_key_has_null_for_a_payload():
    async with broker_and_program() as (client, program, _):
        await client.create_topic("prices", table=True)
        await client.publish("prices", b"1", key=b"a")
        async with program.reading("/topics/prices?start=earliest") as stream:
            assert (await stream.next())[1]["payload"] == "1"
            await client.publish("prices", None, key=b"a")
            assert (await stream.next())[1] | {"time": 0} == {
                "offset": 1,
                "time": 0,
                "key": "a",
                "payload": None,
            }


async def test_a_reader_that_has_missed_deletions_begins_anew():
    clock = ManualClock()
    async with (
        zaichik.running_broker(clock=clock) as server,
        zaichik.connect(port=server.port) as client,
        programs(server.port) as (program, _),
    ):
        await client.create_topic("prices", table=True, tombstones=1)
        await client.publish("prices", b"1", key=b"a")
        await client.publish("prices", b"1", key=b"b")
        async with program.reading("/topics/prices?start=earliest") as stream:
            await stream.payloads(1)
        first = stream.last_id
        await client.publish("prices", None, key=b"b")
        await client.publish("prices", b"2", key=b"c")
        clock.advance(seconds=10)
        server.broker.sweep()
        async with program.reading("/topics/prices", last_event_id=stream.last_id) as stream:
            assert await stream.next() == ("deletions_missed", {"below": 3})
            assert [(await stream.next())[1]["key"] for _ in range(2)] == ["a", "c"]
        address = f"/topics/prices?after={first}&until=4"
        async with program.lines(address) as lines:
            assert await lines.next() == {"deletions_missed": {"below": 3}}
            assert [(await lines.next())["key"] for _ in range(2)] == ["a", "c"]


async def test_the_end_tells_a_browser_not_to_come_again():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        async with program.reading(f"{ALL}&until=2") as stream:
            assert await stream.payloads(2) == ["a", "b"]
            assert await stream.next() == ("end", {"next": 2})
            assert await stream.rest() == ""
        answer = await program.get(f"{ALL}&until=2", last_event_id=stream.last_id)
        assert (answer.status, answer.body) == (204, b"")
        lines = await program.get(
            f"{ALL}&until=2", last_event_id=stream.last_id, accept="application/x-ndjson"
        )
        assert (lines.status, lines.body) == (200, b"")


async def test_a_silent_stream_has_comments(monkeypatch):
    monkeypatch.setattr(reading, "COMMENT_S", 0.01)
    async with (
        broker_and_program() as (client, program, _),
        program.reading("/topics/orders") as stream,
    ):
        await stream.began()
        for _ in range(3):
            assert await stream.until(b"\n\n") == ":"
        await published(client, "a")
        assert await stream.payloads(1) == ["a"]


async def test_another_topic_is_an_event_and_then_follows_from_its_beginning():
    async with broker_and_program() as (client, program, _):
        await published(client, "old")
        async with program.reading(ALL) as stream:
            assert await stream.payloads(1) == ["old"]
            await client.delete_topic("orders")
            kind, data = await stream.next()
            assert (kind, data["epoch"]) == ("epoch", (await client.topic("orders"))["epoch"])
            assert "orders" in data["text"]
            await published(client, "new")
            assert await stream.payloads(1) == ["new"]


async def test_to_lines_another_topic_is_an_error():
    async with broker_and_program() as (client, program, _):
        await published(client, "old")
        async with program.lines(ALL) as stream:
            last = (await stream.next())["id"]
            await client.delete_topic("orders")
            assert (await stream.next())["error"] == "DELETED"
            assert await stream.rest() == ""
        await client.create_topic("orders")
        answer = await program.get(
            "/topics/orders", last_event_id=last, accept="application/x-ndjson"
        )
        assert (answer.status, answer.json["error"]) == (410, "EPOCH_CHANGED")
        async with program.reading("/topics/orders", last_event_id=last) as stream:
            assert (await stream.next())[0] == "epoch"


async def test_a_broker_without_a_topic_is_waited_for_by_events(monkeypatch):
    """A browser would give up for good at any other status."""
    port = free_port()
    async with programs(port) as (program, _):
        lines = await program.get("/topics/orders", accept="application/x-ndjson")
        assert (lines.status, lines.json["error"]) == (503, "CONNECT_FAILED")
        async with program.reading(ALL) as stream:
            assert await stream.until(b"\n\n") == ":"
            assert stream.status == 200
            async with zaichik.running_broker(port=port), zaichik.connect(port=port) as client:
                await stream.began()
                await published(client, "a")
                assert await stream.payloads(1) == ["a"]


@pytest.mark.parametrize("reconnect", [0.0, 60.0])
async def test_a_restart_of_the_broker_costs_no_message(tmp_path, monkeypatch, reconnect):
    """Whether the client goes on by itself, or has given up and another one goes on."""
    monkeypatch.setattr(link, "RECONNECT_S", reconnect)
    port = free_port()

    @asynccontextmanager
    async def broker():
        async with (
            zaichik.running_broker(port=port, data=tmp_path),
            zaichik.connect(port=port) as client,
        ):
            yield client

    async with broker() as client:
        await client.create_topic("orders", durable=True)
    async with programs(port) as (program, _), program.reading(ALL) as stream:
        async with broker() as client:
            await published(client, *"ab")
            assert await stream.payloads(2) == ["a", "b"]
        async with broker() as client:
            await published(client, *"cd")
            assert await stream.payloads(2) == ["c", "d"]


async def test_a_slow_reader_costs_its_credit_and_nothing_more():
    async with broker_and_program() as (client, program, _):
        await client.create_topic("many", capacity=10_000, retention_ttl="forever")
        await client.publish_batch("many", [(None, b"%d" % number) for number in range(5000)])
        async with program.reading("/topics/many?start=earliest") as stream:
            await stream.payloads(1)
            with anyio.fail_after(60):
                while True:
                    (row,) = await client.subscriptions("many")
                    if row["in_flight"] >= reading.CREDIT // 2:
                        break
            assert row["cursor"] <= 2 * reading.CREDIT
            assert await stream.payloads(4999) == [str(number) for number in range(1, 5000)]


async def test_streams_that_are_behind_write_by_turns(monkeypatch):
    """Whatever else waits for the event loop waits for one stream, and not for all of them."""
    rounds, written = 0, []

    class Counted(forms.Events):
        def messages(self, *args, **named):
            written.append(rounds)
            return super().messages(*args, **named)

    async def count_rounds():
        nonlocal rounds
        while True:
            await anyio.lowlevel.checkpoint()
            rounds += 1

    async def read(program):
        async with program.reading("/topics/many?start=earliest") as stream:
            await stream.payloads(500)

    monkeypatch.setattr(front, "form_of", lambda _: Counted())
    async with broker_and_program() as (client, program, _):
        await client.create_topic("many", retention_ttl="forever")
        await client.publish_batch("many", [(None, b"x")] * 500)
        async with anyio.create_task_group() as counting:
            counting.start_soon(count_rounds)
            async with anyio.create_task_group() as tasks:
                for _ in range(12):
                    tasks.start_soon(read, program)
            counting.cancel_scope.cancel()
    # The task that counts may be before one of them and after the next one.
    assert max(Counter(written).values()) <= 2


async def test_a_stream_is_written_in_small_parts(monkeypatch):
    """A client that reads nothing costs memory for its messages, and for JSON of few of them."""
    counts = []

    class Counted(forms.Events):
        def messages(self, epoch, messages, **named):
            counts.append(len(messages))
            return super().messages(epoch, messages, **named)

    monkeypatch.setattr(front, "form_of", lambda _: Counted())
    async with broker_and_program() as (client, program, _):
        await client.publish_batch("orders", [(None, b"\x01" * (reading.PART_BYTES // 2))] * 8)
        async with program.reading(ALL) as stream:
            await stream.payloads(8)
            assert counts == [2] * 4
            assert stream.largest <= reading.PART_BYTES


async def test_a_stream_ends_with_its_client():
    async with broker_and_program() as (client, program, web):
        async with program.reading("/topics/orders") as stream:
            await stream.began()
            assert len(await client.subscriptions("orders")) == 1
        with anyio.fail_after(60):
            while await client.subscriptions("orders"):
                pass
        assert (await web.sessions.anybody()).readers == set()


async def test_a_gateway_that_stops_says_goodbye():
    async with (
        broker_and_program() as (_, program, web),
        program.reading("/topics/orders") as stream,
        program.lines("/topics/orders") as lines,
    ):
        await stream.began()
        await lines.begun.wait()
        web.stop()
        kind, data = await stream.next()
        assert (kind, data["error"]) == ("bye", "STOPPING")
        assert await stream.rest() == ""
        assert (await lines.next())["error"] == "STOPPING"
        with anyio.fail_after(60):
            await lines.over.wait()


@pytest.fixture
def frozen(monkeypatch):
    """The broker does not answer a subscription; what is returned is set when it was asked."""
    asked = anyio.Event()

    @asynccontextmanager
    async def never(*_, **__):
        asked.set()
        await anyio.sleep_forever()
        yield

    monkeypatch.setattr(zaichik.Client, "subscribe", never)
    monkeypatch.setattr(reading, "FIRST_S", 0.01)
    return asked


async def test_a_broker_that_does_not_answer_is_not_waited_for_by_lines(frozen):
    async with broker_and_program() as (_, program, _):
        answer = await program.get("/topics/orders", accept=LINES)
        assert (answer.status, answer.json["error"]) == (503, "NOT_ANSWERED")
        assert answer.headers["retry-after"] == "1"
        async with program.reading("/topics/orders") as stream:
            for _ in range(3):
                assert await stream.until(b"\n\n") == ":"


async def test_a_gateway_that_stops_refuses_what_has_not_begun(frozen, monkeypatch):
    monkeypatch.setattr(reading, "FIRST_S", 60)
    async with broker_and_program() as (_, program, web), anyio.create_task_group() as tasks:

        async def read():
            answer = await program.get("/topics/orders", accept=LINES)
            assert (answer.status, answer.json["error"]) == (503, "STOPPING")

        tasks.start_soon(read)
        await frozen.wait()
        web.stop()


async def test_streams_have_a_limit_and_give_their_place_back(monkeypatch):
    monkeypatch.setattr(front, "MOST_STREAMS", 2)
    async with broker_and_program() as (_, program, _):
        for _ in range(2):
            async with program.reading(ALL) as first, program.reading(ALL) as second:
                await first.began()
                await second.began()
                answer = await program.get(ALL)
                assert (answer.status, answer.json["error"]) == (503, "TOO_MANY_STREAMS")
                assert answer.headers["retry-after"] == "1"


async def test_there_may_be_another_number_of_streams():
    async with broker_and_program(streams=1) as (_, program, _), program.reading(ALL) as first:
        await first.began()
        assert (await program.get(ALL)).json["error"] == "TOO_MANY_STREAMS"


async def test_all_streams_share_one_connection():
    async with broker_and_program() as (client, program, _):
        async with program.reading(ALL) as first, program.reading(ALL) as second:
            await first.began()
            await second.began()
            await program.post("/topics/orders", b"x")
            names = [row["client"] for row in await client.connections()]
        assert names.count("zaichik web topics") == 1
