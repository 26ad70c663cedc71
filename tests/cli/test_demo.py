"""The demo shows what it says, in any surroundings, and its exit code is the truth."""

import argparse
import io
import os
import re
import sys
import tempfile

import pytest
from rich.console import Console

from zaichik.cli import demo_restart, meter
from zaichik.cli.arguments import add
from zaichik.cli.commands import demo
from zaichik.client.client import Client

pytestmark = pytest.mark.anyio

CONTROL_CHARACTER = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


async def shown(*words, **settings):
    """The demo's exit code and everything it printed."""
    parser = argparse.ArgumentParser()
    add(parser, demo.ARGUMENTS)
    console = Console(file=io.StringIO(), width=100, **settings)
    code = await demo.run(parser.parse_args(words), console)
    return code, console.file.getvalue()


async def test_each_step_shows_its_code_and_its_result():
    code, text = await shown("--no-flights")
    assert code == 0
    for expected in (
        '    await client.publish("echo", b"hello")\n',
        "=> b'hello' at offset 0",
        "the first latecomer got b'it rains', b'it pours'",
        "60 seconds later the second one got nothing",
        "of 101 rings 2 stored, 99 compacted",
        "890 messages are gone, offsets 10 to 899",
        "110 received + 890 lagged = 1000 published",
        (
            "    async with running_broker(data=folder) as broker, connect(port=broker.port) as "
            "client:\n"
        ),
        "100 orders acknowledged, at offsets 0 to 99",
        "100 orders read afterwards, at offsets 0 to 99",
        "each order at the same offset of the same topic: nothing was lost with the broker",
    ):
        assert expected in text
    assert "def " not in text
    assert '"""' not in text
    assert "Flights" not in text


async def test_the_account_adds_up():
    _, text = await shown("--no-flights")
    assert "published = stored + compacted: 1,205 = 1,007 + 198" in text
    assert "stored = resident + expired + evicted: 1,007 = 100 + 7 + 900" in text
    assert "It adds up" in text


async def test_flights_without_a_terminal_take_a_few_lines():
    code, text = await shown("--days", "2", "--no-stats")
    assert code == 0
    assert "1,785 departures: 1,631 stored, 154 compacted" in text
    assert (
        len(re.findall(r"Jan 2013: .* published, .* messages/s", text))
        == meter.LINES_WITHOUT_TERMINAL
    )
    assert not CONTROL_CHARACTER.search(text)


async def test_flights_on_a_terminal_have_a_bar():
    code, text = await shown(
        "--days",
        "1",
        "--no-stats",
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    assert code == 0
    assert "━" in text
    assert "100%" in text
    assert "published, " not in text


async def test_without_the_data_the_step_is_skipped(monkeypatch):
    def not_installed(days):
        raise ModuleNotFoundError("it is not installed; get it with `make`")

    monkeypatch.setattr(demo, "read_departures", not_installed)
    code, text = await shown()
    assert code == 0
    assert "This step is skipped: it is not installed; get it with `make`" in text
    assert "It adds up" in text


@pytest.mark.parametrize("lost", ["published", "expired"])
async def test_an_account_that_does_not_add_up_fails_the_demo(monkeypatch, lost):
    true_topics = Client.topics

    async def topics(self, prefix=""):
        return [
            state | {lost: state[lost] + (state["name"] == "news")}
            for state in await true_topics(self, prefix)
        ]

    monkeypatch.setattr(Client, "topics", topics)
    code, text = await shown("--no-flights")
    assert code == 1
    assert "news does not add up, which is a bug of the broker" in text
    assert "echo does not" not in text
    assert "It adds up" not in text


@pytest.mark.parametrize("change", [{7: b"another order"}, {}])
async def test_a_restart_that_loses_something_fails_the_demo(monkeypatch, change):
    """An order that is missing, or has another one in its place."""

    async def restart(folder):
        acknowledged = {offset: b"order %d" % offset for offset in range(100)}
        return acknowledged, {
            offset: order for offset, order in acknowledged.items() if offset != 7
        } | change

    monkeypatch.setattr(demo_restart, "restart", restart)
    code, text = await shown("--no-flights")
    assert code == 1
    assert "The restart has lost 1 of them, which is a bug of the broker." in text
    assert "nothing was lost with the broker" not in text


async def test_nothing_is_left_of_a_restart(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, _ = await shown("--no-flights")
    assert (code, list(tmp_path.iterdir())) == (0, [])


async def test_pause_waits_for_enter_after_each_step(monkeypatch):
    keyboard, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        os.write(keyboard, b"\n" * 6)
        monkeypatch.setattr(sys, "stdin", stdin)
        code, text = await shown("--pause", "--days", "1", "--no-stats")
    os.close(keyboard)
    assert code == 0
    assert text.count("Press Enter to continue") == 6


async def test_without_a_keyboard_nothing_waits(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, text = await shown("--pause", "--no-flights")
    assert code == 0
    assert "Enter" not in text
