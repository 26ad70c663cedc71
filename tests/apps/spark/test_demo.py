"""The end of the demo, its command run here with the session that runs already; `make test-cluster`
runs the whole.
"""

import io
import sys
from functools import partial
from subprocess import CompletedProcess

import pytest
from embedded import embedded_broker
from rich.console import Console

import zaichik
from zaichik.apps.demo.departures import read_departures
from zaichik.cli import demo_statistics
from zaichik.cli.commands import demo
from zaichik.cli.main import main
from zaichik.cli.meter import Meter


@pytest.mark.usefixtures("spark")
def test_spark_and_the_broker_count_the_same(monkeypatch, capsys):
    done = CompletedProcess([], 1)

    async def run_process(command, **_):
        done.args = command  # of the one there is by then
        return done

    monkeypatch.setattr(demo_statistics.anyio, "run_process", run_process)
    first, second = (Console(file=io.StringIO(), width=200) for _ in range(2))
    departures = read_departures(2)
    with embedded_broker(start_us=departures[0].scheduled_us) as broker:

        async def publish():
            async with zaichik.connect(port=broker.port) as client:
                with Meter(first, broker.clock, len(departures)) as meter:
                    await demo.flights(client, broker.clock, departures, meter)

        async def statistics(console):
            async with zaichik.connect(port=broker.port) as client:
                return await demo.show_statistics(
                    demo.Show(console, pause=False), client, broker.port
                )

        broker.run(publish)
        # It told its command, which was not run; here it is.
        assert not broker.run(partial(statistics, first))
        assert done.args[:3] == [sys.executable, "-m", "zaichik"]
        assert main(done.args[3:]) == 0
        done = CompletedProcess([], 0, stdout=capsys.readouterr().out)
        assert broker.run(partial(statistics, second))
    text = second.file.getvalue()
    assert "Spark counts 1,785 published, 1,631 stored, 154 compacted" in text
    assert "They match the broker's own counters." in text
    (row,) = [line.split() for line in text.splitlines() if line.strip().startswith("6h ")]
    assert row[:2] == ["6h", "1,631"]
