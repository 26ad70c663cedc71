"""The position of a name moves when its client says so, and not before."""

import anyio
import pytest
from programs import LINES, broker_and_program

from zaichik.apps.web.topics import reading

pytestmark = pytest.mark.anyio

BILL = "/topics/orders?name=bill&start=earliest"
NAME = "/names/bill/topics/orders"


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr(reading, "RETRY_WAITS", (0.01, 0.02))


async def published(client, *payloads):
    for payload in payloads:
        await client.publish("orders", payload.encode())


async def committed(client):
    (row,) = await client.subscriptions("orders")
    return row["committed"]


async def settle(program, body):
    answer = await program.post(NAME, body)
    return answer.status, answer.json.get("next", answer.json.get("error"))


async def test_written_to_a_socket_is_not_received():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        for _ in range(2):
            async with program.reading(BILL) as stream:
                assert await stream.payloads(3) == ["a", "b", "c"]
        assert await committed(client) == 0


async def test_a_browser_that_comes_again_settles_what_it_has_received():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        async with program.reading(BILL) as stream:
            await stream.payloads(2)
        async with program.reading(BILL, last_event_id=stream.last_id) as again:
            assert await again.payloads(1) == ["c"]
            assert await committed(client) == 2
        async with program.reading(BILL) as later:
            assert await later.payloads(1) == ["c"]


async def test_a_client_settles_by_the_offset_that_it_wants_next():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        async with program.reading(BILL) as stream:
            await stream.payloads(3)
            assert await settle(program, b'{"next":4}') == (409, "NOT_IN_FLIGHT")
            assert await settle(program, b'{"next":2}') == (200, 2)
            assert await committed(client) == 2
            # Never back.
            assert await settle(program, b'{"next":1}') == (200, 1)
            assert await committed(client) == 2
            assert await settle(program, b'{"next":0}') == (200, 0)
        async with program.reading(BILL) as stream:
            assert await stream.payloads(1) == ["c"]


async def test_no_more_comes_than_may_be_unsettled(monkeypatch):
    monkeypatch.setattr(reading, "CREDIT", 4)
    async with broker_and_program() as (client, program, _):
        await published(client, *"abcdef")
        async with program.reading(BILL) as stream:
            assert await stream.payloads(4) == ["a", "b", "c", "d"]
            (row,) = await client.subscriptions("orders")
            assert (row["cursor"], row["in_flight"]) == (4, 4)
            assert await settle(program, b'{"next":2}') == (200, 2)
            assert await stream.payloads(2) == ["e", "f"]


async def test_a_name_without_a_stream_is_settled_as_well():
    async with broker_and_program() as (client, program, _):
        await published(client, *[str(number) for number in range(250)])
        async with program.reading(BILL) as stream:
            await stream.payloads(1)
        assert await settle(program, b'{"next":249}') == (200, 249)
        assert await settle(program, b'{"next":3}') == (200, 3)
        async with program.reading(BILL) as stream:
            assert await stream.payloads(1) == ["249"]


async def test_a_new_name_may_begin_anywhere_in_the_topic():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        assert await settle(program, b'{"next":4}') == (416, "OFFSET_AHEAD")
        assert await settle(program, b'{"next":2}') == (200, 2)
        assert await settle(program, b'{"next":4}') == (416, "OFFSET_AHEAD")
        async with program.reading(BILL) as stream:
            assert await stream.payloads(1) == ["c"]


async def test_what_a_browser_has_of_another_topic_settles_nothing():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        epoch = (await client.topic("orders"))["epoch"]
        for last in (f"{epoch + 1}-1", f"{epoch}-7"):
            async with program.reading(BILL, last_event_id=last) as stream:
                kind, data = await stream.next()
                assert (kind, data["epoch"]) == ("epoch", epoch)
                assert await stream.payloads(1) == ["a"]
        assert await committed(client) == 0
        lines = {"accept": LINES, "last_event_id": f"{epoch + 1}-1"}
        assert (await program.get(BILL, **lines)).status == 410


async def test_an_offset_is_of_one_topic():
    async with broker_and_program() as (client, program, _):
        await published(client, *"abc")
        epoch = (await client.topic("orders"))["epoch"]
        right, wrong = b'{"next":2,"epoch":%d}' % epoch, b'{"next":2,"epoch":%d}' % (epoch + 1)
        assert await settle(program, wrong) == (410, "EPOCH_CHANGED")
        assert await settle(program, right) == (200, 2)
        async with program.reading(BILL) as stream:
            await stream.payloads(1)
            assert await settle(program, wrong) == (410, "EPOCH_CHANGED")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"2",
        b"[]",
        b"{}",
        b'{"next":"2"}',
        b'{"next":-1}',
        b'{"next":1.0}',
        b'{"next":true}',
        b'{"next":NaN}',
        b'{"next":18446744073709551616}',
        b'{"next":' + b"1" * 900 + b"}",
        b'{"next":1,"epoch":0}',
        b'{"next":1,"epoch":"1"}',
        b'{"next":1,"offset":1}',
        b'{"next":' + b"[" * 1000,
        b"\xff",
    ],
)
async def test_what_is_no_offset_is_refused(body):
    async with broker_and_program() as (client, program, _):
        assert await settle(program, body) == (400, "BAD_REQUEST")
        assert await client.subscriptions("orders") == []


async def test_a_body_that_is_too_long_is_refused():
    async with broker_and_program() as (_, program, _):
        assert await settle(program, b" " * 1025) == (413, "BODY_TOO_LARGE")


async def test_a_name_that_was_taken_over_is_not_taken_back(monkeypatch):
    """Two pages of one name would take it from each other for ever."""
    monkeypatch.setattr(reading, "COMMENT_S", 0.01)
    async with broker_and_program() as (client, program, _):
        await published(client, "a")
        async with program.reading(BILL) as first:
            assert await first.payloads(1) == ["a"]
            async with program.reading(BILL) as second:
                assert await second.payloads(1) == ["a"]
                kind, data = await first.next()
                assert (kind, data["error"]) == ("failed", "TAKEN_OVER")
                # It stays open, so that its browser has no reason to connect again.
                for _ in range(3):
                    assert await first.until(b"\n\n") == ":"
                await published(client, "b")
                assert await second.payloads(1) == ["b"]
                # Settling goes over the one that has it.
                assert await settle(program, b'{"next":2}') == (200, 2)


async def test_lines_end_when_their_name_was_taken_over():
    async with broker_and_program() as (client, program, _), program.lines(BILL) as first:
        await first.begun.wait()
        async with client.subscribe("orders", name="bill"):
            assert (await first.next())["error"] == "TAKEN_OVER"
            with anyio.fail_after(60):
                await first.over.wait()


async def test_without_write_nothing_is_published_or_settled():
    async with broker_and_program(can_write=False) as (client, program, _):
        await published(client, "a")
        for answer in (
            await program.post("/topics/orders", b"x"),
            await program.post(NAME, b'{"next":1}'),
            await program.get(BILL),
        ):
            assert (answer.status, answer.json["error"]) == (403, "READ_ONLY")
            assert "--write" in answer.json["text"]
        async with program.reading("/topics/orders?start=earliest") as stream:
            assert await stream.payloads(1) == ["a"]
        assert (await client.topic("orders"))["next_offset"] == 1
