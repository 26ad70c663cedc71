"""The dead are listed, revived and forgotten without a subscription: SHR-5, SHR-9, SHR-11."""

import json

import anyio
import pytest
from brokers import GUARD, SHARED_GRANTED, fake_client

import zaichik
from zaichik import DeadMessage
from zaichik.client import transport as transport_module
from zaichik.client.work import dead as dead_module
from zaichik_protocol import Dead, DeadAction, DeadPage, Error, ErrorCode, Hello

pytestmark = pytest.mark.anyio


def row(offset, **fields):
    known = {"deliveries": 5, "died_us": 2_500_000, "reason": "x", "is_readable": True}
    return {"offset": offset, **known, **fields}


class Names:
    """A broker with one shared name that has these dead, and answers in pages of two.

    Attributes:
        room: how many may be revived.
    """

    def __init__(self, *offsets):
        self.dead = {offset: row(offset) for offset in offsets}
        self.room = 99

    def answer(self, frame):
        chosen = sorted(offset for offset in self.dead if offset >= frame.from_offset)
        if frame.selected:
            chosen = [offset for offset in chosen if offset in frame.offsets]
        page, rest = chosen[:2], chosen[2:]
        if frame.action == DeadAction.LIST:
            rows = json.dumps({"dead": [self.dead[offset] for offset in page]}).encode()
            return DeadPage(frame.id, bool(rest), 0, page[-1] + 1 if page else 0, rows)
        if frame.action == DeadAction.REVIVE:
            rest = page[self.room :] + rest
            page = page[: self.room]
            self.room -= len(page)
        for offset in page:
            del self.dead[offset]
        return DeadPage(frame.id, bool(rest), len(page), rest[0] if rest else 0)


def client_of(names, **options):
    return fake_client({**SHARED_GRANTED, Dead: names.answer}, **options)


async def test_all_pages_are_listed():
    async with client_of(Names(3, 5, 8, 9, 11)) as (broker, client):
        dead = await client.dead("images", "thumbs", user="ann")
        assert dead[0] == DeadMessage(3, 5, 2.5, "x", is_readable=True)
        assert [message.offset for message in dead] == [3, 5, 8, 9, 11]
        requests = broker.of(Dead)
        assert [request.from_offset for request in requests] == [0, 6, 10]
        asked = {(r.topic, r.name, r.user, r.action, r.selected) for r in requests}
        assert asked == {("images", "thumbs", "ann", DeadAction.LIST, False)}


async def test_nobody_is_dead():
    async with client_of(Names()) as (_, client):
        assert await client.dead("images", "thumbs") == []
        assert await client.revive("images", "thumbs") == 0


async def test_some_are_revived():
    names = Names(3, 5, 8, 9, 11)
    async with client_of(names) as (broker, client):
        assert await client.revive("images", "thumbs", [8, 3, 9, 4]) == 3
        assert sorted(names.dead) == [5, 11]
        assert [request.offsets for request in broker.of(Dead)] == [(3, 4, 8, 9)] * 2


async def test_all_are_revived():
    names = Names(3, 5, 8, 9, 11)
    async with client_of(names) as (_, client):
        assert await client.revive("images", "thumbs") == 5
        assert names.dead == {}


@pytest.mark.parametrize("offsets", [None, [3, 5, 8, 9]])
async def test_no_more_are_revived_than_there_is_room_for(offsets):
    names = Names(3, 5, 8, 9)
    names.room = 3
    async with client_of(names) as (_, client):
        assert await client.revive("images", "thumbs", offsets) == 3
        assert sorted(names.dead) == [9]


async def test_they_are_forgotten():
    names = Names(3, 5, 8, 9, 11)
    async with client_of(names) as (_, client):
        assert await client.forget_dead("images", "thumbs", [5]) == 1
        assert await client.forget_dead("images", "thumbs") == 4


async def test_none_of_them_is_asked_for_when_none_is_named():
    async with client_of(Names(3)) as (broker, client):
        assert await client.forget_dead("images", "thumbs", []) == 0
        assert broker.of(Dead) == []


async def test_many_are_asked_for_in_parts(monkeypatch):
    monkeypatch.setattr(dead_module, "DEAD_PAGE", 2)
    names = Names(*range(5))
    async with client_of(names) as (broker, client):
        assert await client.forget_dead("images", "thumbs", range(5)) == 5
        asked = [(request.offsets, request.count) for request in broker.of(Dead)]
        assert asked == [((0, 1), 2), ((2, 3), 2), ((4,), 2)]


async def test_a_name_that_does_not_exist_is_an_error():
    def refuse(frame):
        return Error(frame.id, ErrorCode.NO_SUCH_NAME, Dead.TYPE, "name", 0, "no such name")

    async with fake_client({**SHARED_GRANTED, Dead: refuse}) as (_, client):
        for call in (client.dead, client.revive, client.forget_dead, client.forget_name):
            with pytest.raises(zaichik.NoSuchName):
                await call("images", "thumbs")


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (b"{}", 'did not report "dead"'),
        (b'{"dead": [3]}', "an object"),
        (b'{"dead": [{"offset": -1}]}', "a number from 0"),
        (b'{"dead": [{"offset": 1}]}', 'did not report "died_us"'),
    ],
)
async def test_what_is_no_list_of_dead_is_refused(page, words):
    answers = {**SHARED_GRANTED, Dead: lambda frame: DeadPage(frame.id, 0, 0, 0, page)}
    async with fake_client(answers) as (_, client):
        with pytest.raises(zaichik.UnexpectedReply, match=words):
            await client.dead("images", "thumbs")


async def test_pages_that_lead_nowhere_end():
    answers = {**SHARED_GRANTED, Dead: lambda frame: DeadPage(frame.id, 1, 0, 0, b'{"dead": []}')}
    async with fake_client(answers) as (_, client):
        for call in (client.dead, client.forget_dead):
            with pytest.raises(zaichik.UnexpectedReply, match="more follow"):
                await call("images", "thumbs")


async def test_a_name_is_forgotten_once_though_the_answer_was_lost(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    fake = fake_client({**SHARED_GRANTED, Dead: lambda _: None}, reconnect=GUARD)
    async with fake as (broker, client), anyio.create_task_group() as tasks:
        tasks.start_soon(client.forget_name, "images", "thumbs")
        request = await broker.has_received(Dead)
        assert request.action == DeadAction.FORGET_NAME
        broker.answers[Dead] = lambda frame: Error(
            frame.id, ErrorCode.NO_SUCH_NAME, Dead.TYPE, "name", 0, "no such name"
        )
        await broker.hang_up()
        await broker.has_received(Hello, 2)
