"""All topics in a table."""

import pytest

import zaichik
from zaichik.apps.views.styled_lines import plain
from zaichik.apps.watch.polling import Poller
from zaichik.cli.top import Table
from zaichik.client.client import connect

pytestmark = pytest.mark.anyio

A_PAGE = 50


async def test_a_sweep_that_is_not_over_says_how_much_it_has_counted(monkeypatch):
    monkeypatch.setattr("zaichik.cli.top.SECONDS", -1)  # tell after each page
    table, titles = Table(), []
    async with zaichik.running_broker() as server, connect("127.0.0.1", server.port) as client:
        for number in range(A_PAGE + 1):
            await client.create_topic(f"t{number}")
        await table.poll(
            Poller(client, rests=False),
            lambda: titles.append(plain(table.lines(80, 24)[0]).split("  ")[1]),
        )
    assert titles == ["50 of 51 topics counted", "51 topics", "51 topics"]
