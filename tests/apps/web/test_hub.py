"""A broker whose answers are not as we know them: it may be newer, broken, or wish us ill."""

import logging

import anyio
import pytest
from browsing import broker_and_page

from zaichik.apps.watch import polling
from zaichik.apps.web import hub
from zaichik.client.client import Client
from zaichik_protocol import Kind

pytestmark = pytest.mark.anyio
VIEWS = ("view=topics", "view=topic&topic=orders", "view=connections")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def answers(monkeypatch):
    """Returns a function that has all of the broker's descriptions changed by another one."""
    ask = Client.describe_page

    def change(changed):
        async def describe_page(self, kind, *args, **kwargs):
            return changed(kind, *await ask(self, kind, *args, **kwargs))

        monkeypatch.setattr(Client, "describe_page", describe_page)

    return change


def mistyped(value):
    """Returns JSON with every number and text of another type."""
    match value:
        case dict():
            return {name: mistyped(member) for name, member in value.items()}
        case list():
            return [mistyped(item) for item in value]
        case str():
            return 10**400
    return "text"


BROKEN = {
    "no object": lambda _, page: [],
    "nothing": lambda _, page: {},
    "wrong types": lambda _, page: mistyped(page),
    "nulls": lambda _, page: dict.fromkeys(page),
    "numbers without measure": lambda _, page: {
        name: [
            {**row, "next_offset": 10**400, "name": "x"} if isinstance(row, dict) else row
            for row in member
        ]
        if isinstance(member, list)
        else member
        for name, member in page.items()
    },
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("view", VIEWS)
async def test_an_answer_that_is_not_understood_is_told_and_the_server_goes_on(
    answers, broken, view, caplog
):
    caplog.set_level(logging.CRITICAL)
    is_broken = True
    answers(lambda kind, page, more: (broken(kind, page) if is_broken else page, more))
    async with broker_and_page() as (_, browser, _web):
        with anyio.fail_after(60):
            first = await browser().get(f"/state?{view}")
            is_broken = False
            while (again := await browser().get(f"/state?{view}")).status != 200:
                pass
    assert first.status in {200, 503}
    assert "text" not in again.json


async def test_why_an_answer_is_not_understood_is_logged_once(answers, caplog):
    answers(lambda kind, page, more: ({}, more) if kind == Kind.TOPICS else (page, more))
    async with broker_and_page() as (_, browser, _web), browser().events(VIEWS[1]) as stream:
        _, told = await stream.next("trouble")
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
    assert told == {"text": hub.NOT_UNDERSTOOD}
    assert [record.message for record in caplog.records] == ["a view cannot be shown"]


@pytest.mark.parametrize("view", [VIEWS[0], VIEWS[2]])
async def test_a_list_without_an_end_is_given_up(answers, view, monkeypatch):
    monkeypatch.setattr(polling, "MOST_PAGES", 3)
    answers(lambda kind, page, _: (page, kind != Kind.BROKER))
    async with broker_and_page() as (_, browser, _web), browser().events(view) as stream:
        while not (await stream.next("trouble"))[1]["text"].endswith("has no end"):
            pass
