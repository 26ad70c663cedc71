"""A body becomes a message, or a batch, and is stored once."""

import json
from contextlib import asynccontextmanager
from itertools import cycle

import anyio
import anyio.lowlevel
import pytest
from programs import LINES, broker_and_program, programs

import zaichik
from zaichik.apps.web.topics import link, producers, publishing
from zaichik.apps.web.topics.front import TopicsRoute
from zaichik.apps.web.topics.producers import Producers
from zaichik.learn.server import free_port

pytestmark = pytest.mark.anyio

BATCH = {"content-type": LINES}


async def stored(client, topic="orders"):
    """Returns keys and payloads of all that a topic has."""
    state = await client.topic(topic)
    async with client.subscribe(topic, until=state["next_offset"]) as messages:
        return [(message.key, message.payload) async for message in messages]


async def test_a_body_is_the_payload_as_it_is():
    async with broker_and_program() as (client, program, _):
        answer = await program.post("/topics/orders?key=alice", b"two\x00 apples\xff")
        assert (answer.status, answer.json) == (
            200,
            {"offset": 0, "compacted": False, "subscribers": 0, "durable": False},
        )
        async with client.subscribe("orders"):
            assert (await program.post("/topics/orders", b"")).json["subscribers"] == 1
        assert await stored(client) == [(b"alice", b"two\x00 apples\xff"), (None, b"")]


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "application/json", "text/plain", "nonsense", ""],
)
async def test_a_content_type_changes_nothing(content_type):
    async with broker_and_program() as (client, program, _):
        answer = await program.post("/topics/orders", b'{"a":NaN', content_type=content_type)
        assert answer.status == 200
        assert await stored(client) == [(None, b'{"a":NaN')]


async def test_lines_are_one_batch():
    body = b'{"key":"a","payload":"1"}\n{"payload_base64":"/w=="}\n'
    async with broker_and_program() as (client, program, _):
        answer = await program.post(
            "/topics/orders", body, content_type=f"{LINES.upper()}; charset=utf-8"
        )
        assert answer.json == {
            "first_offset": 0,
            "stored": 2,
            "compacted": 0,
            "dropped": [],
            "subscribers": 0,
            "durable": False,
        }
        assert await stored(client) == [(b"a", b"1"), (None, b"\xff")]


async def test_of_a_batch_with_a_wrong_line_nothing_is_stored():
    async with broker_and_program() as (client, program, _):
        answer = await program.post("/topics/orders", b'{"payload":"1"}\n{}', **BATCH)
        assert (answer.status, answer.json["error"]) == (400, "BAD_REQUEST")
        assert await stored(client) == []


async def test_what_a_window_drops_is_told():
    async with broker_and_program() as (client, program, _):
        await client.create_topic("prices", compaction_window=60)
        lines = b'{"key":"a","payload":"1"}\n{"key":"a","payload":"2"}'
        assert (await program.post("/topics/prices", lines, **BATCH)).json["dropped"] == [1]
        answer = await program.post("/topics/prices?key=a", b"3")
        assert (answer.json["offset"], answer.json["compacted"]) == (None, True)


async def test_null_deletes_a_key_from_a_table():
    async with broker_and_program() as (client, program, _):
        await client.create_topic("prices", table=True)
        await program.post("/topics/prices?key=a", b"1")
        answer = await program.post("/topics/prices", b'{"key":"a","payload":null}', **BATCH)
        assert answer.status == 200
        assert (await program.post("/topics/prices?key=a", b"")).status == 400
        assert await stored(client, "prices") == [(b"a", b"")]


@pytest.mark.parametrize(
    ("address", "headers", "body"),
    [
        ("/topics/orders?key=", {}, b"x"),
        ("/topics/orders?key=a&key=b", {}, b"x"),
        ("/topics/orders?kee=a", {}, b"x"),
        ("/topics/orders?key=" + "a" * 2000, {}, b"x"),
        ("/topics/orders?key=a", BATCH, b'{"payload":"1"}'),
        ("/topics/%24orders", {}, b"x"),
        ("/topics/a%0D%0ASet-Cookie:a", {}, b"x"),
        ("/topics/" + "a" * 201, {}, b"x"),
        ("/topics/orders", BATCH, b'{"key":"a","payload":null}\n{"key":"b","payload":""}'),
    ],
)
async def test_what_cannot_be_stored_is_refused(address, headers, body):
    async with broker_and_program() as (client, program, _):
        answer = await program.post(address, body, **headers)
        assert (answer.status, bool(answer.json["text"])) == (400, True)
        assert "set-cookie" not in answer.headers
        assert await stored(client) == []


MOST = 1024 * 1024


async def test_a_body_is_as_large_as_a_message():
    async with broker_and_program() as (client, program, _):
        assert (await program.post("/topics/orders", b"x" * MOST)).status == 200
        # Its key counts as well.
        answer = await program.post("/topics/orders?key=a", b"x" * MOST)
        assert (answer.status, answer.json["error"]) == (413, "MESSAGE_TOO_LARGE")
        answer = await program.post("/topics/orders", b"x" * (MOST + 1))
        assert (answer.status, answer.json["error"]) == (413, "BODY_TOO_LARGE")
        assert (await client.topic("orders"))["next_offset"] == 1


async def test_a_chunked_body_is_counted_as_it_comes():
    async with broker_and_program() as (client, program, _):
        half = b"x" * (MOST // 2)
        assert (await program.chunked("/topics/orders", half, half)).status == 200
        answer = await program.chunked("/topics/orders", half, half, b"x")
        assert (answer.status, answer.json["error"]) == (413, "BODY_TOO_LARGE")
        assert (await client.topic("orders"))["next_offset"] == 1


async def test_all_bodies_share_memory_that_comes_back():
    async with broker_and_program() as (_, program, web):
        bodies = publishing.Bodies(1000)
        (topics,) = (route.app for route in web.app.routes if isinstance(route, TopicsRoute))
        topics._publishing._bodies = bodies
        answer = await program.post("/topics/orders", b"x" * 1001)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        for _ in range(3):
            assert (await program.post("/topics/orders", b"x" * 1000)).status == 200
        assert (await program.leave("/topics/orders")).status == 0
        assert bodies._free == 1000


async def test_a_compressed_body_is_not_stored_as_something_else():
    async with broker_and_program() as (_, program, _):
        answer = await program.post("/topics/orders", b"x", content_encoding="gzip")
        assert (answer.status, answer.json["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def full(client):
    """Returns a topic that has no room, and a reader that keeps it so."""
    await client.create_topic("jobs", capacity=1, overflow="reject", retention_ttl="forever")
    return client.subscribe("jobs", name="worker", commit="explicit", credit=10)


async def test_a_full_topic_takes_nothing_and_says_when_to_try_again(monkeypatch):
    monkeypatch.setattr(publishing, "PUBLISH_S", 0.05)
    async with broker_and_program() as (client, program, _), await full(client) as worker:
        assert (await program.post("/topics/jobs", b"1")).status == 200
        answer = await program.post("/topics/jobs", b"2")
        assert (answer.status, answer.json["error"]) == (503, "TOPIC_FULL")
        assert int(answer.headers["retry-after"]) >= 1
        # What was given up does not come later.
        assert (await anext(worker)).payload == b"1"
        await worker.commit(0)
        assert (await program.post("/topics/jobs", b"3")).json["offset"] == 1
        assert (await anext(worker)).payload == b"3"


async def test_a_retry_with_the_key_of_a_request_gets_its_answer():
    async with broker_and_program() as (client, program, _):
        first = await program.post("/topics/orders?key=a", b"x", idempotency_key="1")
        again = await program.post("/topics/orders?key=a", b"x", idempotency_key="1")
        assert first.body == again.body
        for address, body in (("?key=a", b"y"), ("?key=b", b"x"), ("", b"x")):
            answer = await program.post(f"/topics/orders{address}", body, idempotency_key="1")
            assert (answer.status, answer.json["error"]) == (422, "IDEMPOTENCY_KEY_REUSED")
        assert (await program.post("/topics/bills", b"y", idempotency_key="1")).status == 200
        assert await stored(client) == [(b"a", b"x")]


async def test_an_answer_is_repeated_long_after_the_broker_has_forgotten_it():
    """The broker remembers 64 answers to a producer."""
    async with broker_and_program() as (client, program, _):
        first = await program.post("/topics/orders", b"x", idempotency_key="1")
        for _ in range(70):
            await program.post("/topics/orders", b"y")
        again = await program.post("/topics/orders", b"x", idempotency_key="1")
        assert (again.status, again.body) == (200, first.body)
        assert (await client.topic("orders"))["next_offset"] == 71


async def test_a_batch_is_repeated_as_a_whole():
    lines = b'{"payload":"1"}\n{"payload":"2"}'
    async with broker_and_program() as (client, program, _):
        answers = [
            await program.post("/topics/orders", lines, idempotency_key="1", **BATCH)
            for _ in range(2)
        ]
        assert answers[0].json == answers[1].json
        assert len(await stored(client)) == 2
        # The same bytes as a message are something else.
        assert (await program.post("/topics/orders", lines, idempotency_key="1")).status == 422


async def test_what_a_full_topic_refused_is_stored_by_its_retry_and_once(monkeypatch):
    monkeypatch.setattr(publishing, "PUBLISH_S", 0.05)
    async with broker_and_program() as (client, program, _), await full(client) as worker:
        await program.post("/topics/jobs", b"1")
        for _ in range(2):
            refused = await program.post("/topics/jobs", b"2", idempotency_key="2")
            assert refused.status == 503
        assert (await anext(worker)).payload == b"1"
        await worker.commit(0)
        monkeypatch.setattr(publishing, "PUBLISH_S", 60)
        for _ in range(2):
            answer = await program.post("/topics/jobs", b"2", idempotency_key="2")
            assert (answer.status, answer.json["offset"]) == (200, 1)


async def test_repeats_that_come_at_once_are_one(monkeypatch):
    async with broker_and_program() as (client, program, _):
        answers = []

        async def post():
            answers.append(await program.post("/topics/orders", b"x", idempotency_key="1"))

        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(post)
        assert {answer.body for answer in answers} == {answers[0].body}
        assert answers[0].json["offset"] == 0
        assert len(await stored(client)) == 1


async def test_a_refused_key_may_be_used_again():
    async with broker_and_program() as (_, program, _):
        too_large = await program.post("/topics/orders?key=a", b"x" * MOST, idempotency_key="1")
        assert too_large.status == 413
        assert (await program.post("/topics/orders", b"x", idempotency_key="1")).status == 200


@pytest.fixture
def lost_answer(monkeypatch):
    """The first answer of a broker never arrives."""
    publish = Producers.publish
    lost = []

    async def lose_the_first(self, number, batch, *, tombstones):
        result = await publish(self, number, batch, tombstones=tombstones)
        if not lost:
            lost.append(result)
            raise zaichik.ConnectionLost("the answer was lost")
        return result

    monkeypatch.setattr(Producers, "publish", lose_the_first)


async def test_a_lost_answer_is_no_reason_to_store_twice(lost_answer):
    async with broker_and_program() as (client, program, _):
        answer = await program.post("/topics/orders", b"x", idempotency_key="1")
        assert (answer.status, answer.json["error"]) == (503, "CONNECTION_LOST")
        for _ in range(2):
            answer = await program.post("/topics/orders", b"x", idempotency_key="1")
            assert (answer.status, answer.json["offset"]) == (200, 0)
        assert await stored(client) == [(None, b"x")]


async def test_nor_is_a_restart_of_the_broker_where_a_disk_remembers(tmp_path, lost_answer):
    port = free_port()

    @asynccontextmanager
    async def broker():
        async with (
            zaichik.running_broker(port=port, data=tmp_path),
            zaichik.connect(port=port) as client,
        ):
            yield client

    async with programs(port) as (program, _):
        async with broker() as client:
            await client.create_topic("orders", durable=True)
            answer = await program.post("/topics/orders", b"x", idempotency_key="1")
            assert answer.status == 503
        async with broker() as client:
            answer = await program.post("/topics/orders", b"x", idempotency_key="1")
            assert (answer.status, answer.json["offset"]) == (200, 0)
            assert await stored(client) == [(None, b"x")]


async def test_where_it_remembers_nothing_a_retry_is_stored_in_the_new_topic(lost_answer):
    port = free_port()
    async with programs(port) as (program, _):
        async with zaichik.running_broker(port=port):
            assert (await program.post("/topics/orders", b"w")).status == 503
            # The first of its producer has an answer, so this one has another number than 0.
            assert (await program.post("/topics/orders", b"w")).status == 200
        async with zaichik.running_broker(port=port), zaichik.connect(port=port) as client:
            await client.create_topic("orders", retention_ttl="forever")
            answer = await program.post("/topics/orders", b"x", idempotency_key="1")
            assert (answer.status, answer.json["offset"]) == (200, 0)


async def test_programs_that_retry_store_each_message_once_whatever_becomes_of_the_broker(
    tmp_path, monkeypatch
):
    """It is restarted twice, and most requests are given up before they are answered."""
    monkeypatch.setattr(link, "RECONNECT_S", 0.05)
    monkeypatch.setattr(link, "FAILED_S", 0.0)
    port, offsets = free_port(), {}
    patience = cycle([0.0, 0.001, 0.003, 1.0])

    async def publish(program, name):
        for number in range(10):
            key = f"{name}-{number}"
            while key not in offsets:
                monkeypatch.setattr(publishing, "PUBLISH_S", next(patience))
                answer = await program.post("/topics/orders", key, idempotency_key=key)
                assert answer.status in {200, 503}
                if answer.status == 200:
                    offsets[key] = answer.json["offset"]
                await anyio.lowlevel.checkpoint()

    @asynccontextmanager
    async def broker():
        async with (
            zaichik.running_broker(port=port, data=tmp_path),
            zaichik.connect(port=port) as client,
        ):
            await client.create_topic("orders", durable=True)
            yield client

    with anyio.fail_after(120):
        async with programs(port) as (program, _), anyio.create_task_group() as tasks:
            for run in range(3):
                async with broker() as client:
                    if run == 0:
                        for name in range(8):
                            tasks.start_soon(publish, program, name)
                    while len(offsets) < (20, 40, 80)[run]:
                        await anyio.lowlevel.checkpoint()
                    if run == 2:
                        found = [payload.decode() for _, payload in await stored(client)]
    assert found == sorted(offsets, key=lambda key: offsets[key])
    assert sorted(offsets.values()) == [*range(80)]


@pytest.fixture
def frozen(monkeypatch):
    """From now on, the broker answers nothing; its connections stay open."""

    def freeze():
        async def never(*_, **__):
            await anyio.sleep_forever()

        monkeypatch.setattr(zaichik.Client, "publish_batch", never)
        monkeypatch.setattr(zaichik.Client, "ping", never)
        monkeypatch.setattr(publishing, "PUBLISH_S", 0.01)
        monkeypatch.setattr(publishing, "PING_S", 0.01)

    return freeze


async def test_a_broker_that_does_not_answer_is_not_waited_for(frozen):
    async with broker_and_program() as (_, program, _):
        frozen()
        answer = await program.post("/topics/orders", b"x")
        assert (answer.status, answer.json["error"]) == (503, "NOT_ANSWERED")
        assert "not known" in answer.json["text"]
        assert answer.headers["retry-after"] == "1"


async def test_a_producer_that_was_idle_for_long_is_not_used_again(monkeypatch):
    """The broker may have forgotten it by then."""
    async with broker_and_program() as (client, program, _):
        await program.post("/topics/orders", b"x")
        monkeypatch.setattr(producers, "IDLE_S", -1.0)
        await program.post("/topics/orders", b"x")
        assert (await client.describe())["producers"] == 2


async def test_producers_serve_one_request_after_the_other():
    async with broker_and_program() as (client, program, _):
        for number in range(20):
            await program.post("/topics/orders", str(number))
        assert (await client.describe())["producers"] == 1


async def test_a_program_is_told_when_there_is_no_broker():
    async with programs(free_port()) as (program, _):
        answer = await program.post("/topics/orders", b"x")
    assert (answer.status, answer.json["error"]) == (503, "CONNECT_FAILED")
    assert answer.headers["retry-after"] == "1"
    json.loads(answer.body)
