"""Whole lives of a broker, each from one seed: every promise is kept in all of them, and each can
be lived again.

The suite lives some of them, `make test-long` more, and `make simulate` others.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sampling import sampled

from simulation.__main__ import main
from simulation.life import RESIDENT
from simulation.scenario import has_our_client, run
from zaichik.core.broker import Broker

pytestmark = [
    pytest.mark.unmeasured,  # nothing of the broker that its own tests do not run
    pytest.mark.usefixtures("patchable"),  # the books of a world listen in
]

ROOT = Path(__file__).parent.parent.parent
SEEDS = sampled([*range(30), 68, 84, 284], [*range(10), 14, 68, 84])
ENCRYPTED = sampled([seed for seed in range(20) if not has_our_client(seed)], [0, 1, 2, 3, 5])
# All with our client, all but 9 with a disk, and 204 is asked for what it has measured.
LIVED_AGAIN = {"4": ([4], False), "9-94-204": ([9, 94, 204], False), "5-TLS": ([5], True)}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed):
    """RET-1 to RET-10, LAG-1 to LAG-5, TIM-1 to TIM-3, CMT-1 to CMT-3, PUB-1, PUB-2, PUB-4, CLO-1
    to CLO-3.

    And DUR-1 to DUR-3, DUR-5, DUR-7, DUR-8, in those that have a machine; SHR-2 to SHR-5, SHR-7
    in those that have workers, and SHR-9 where they have both.
    """
    outcome = run(seed)
    assert outcome.anomaly is None, outcome.report()
    assert outcome.messages > 0


@pytest.mark.parametrize("seed", ENCRYPTED)
def test_every_promise_is_kept_over_tls(seed):
    """Whatever the weather does to its records."""
    outcome = run(seed, is_encrypted=True)
    assert outcome.anomaly is None, outcome.report()
    assert outcome.messages > 0


@pytest.mark.parametrize(("seeds", "is_encrypted"), LIVED_AGAIN.values(), ids=LIVED_AGAIN)
def test_a_seed_is_one_history_whatever_the_process(seeds, is_encrypted):
    """Byte for byte, also where sets and dicts of strings come in another order, and with what is
    left on a disk.
    """
    script = (
        "from tests.simulation.scenario import run; "
        f"print(*(run(seed, is_encrypted={is_encrypted}).trace.digest() for seed in {seeds}))"
    )
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        found = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        digests.add(found.stdout.strip())
    assert len(digests) == 1


@pytest.mark.long
def test_what_the_broker_measures_follows_from_the_seed(monkeypatch):
    """Its memory, and how long its disk takes: real ones would differ from run to run."""
    told, describe = [], Broker.describe

    def overheard(*args):
        more, page = describe(*args)
        told.append(json.loads(page))
        return more, page

    monkeypatch.setattr(Broker, "describe", overheard)
    run(464)
    measured = {
        (page["resident"], page["sync_p99_us"])
        for page in told
        if page.get("sync_p99_us") is not None
    }
    assert measured == {(RESIDENT, 60_000)}


def test_another_seed_is_another_history():
    assert run(1).trace.digest() != run(2).trace.digest()


def test_the_command_counts_worlds(capsys):
    assert main(["--seeds", "2", "--from", "3"]) == 0
    assert "seeds 3 to 4: no fault in 2 worlds" in capsys.readouterr().out


def test_the_command_shows_one_world(capsys):
    assert main(["--seed", "3", "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "creator        connects as 1" in lines[0]
    assert lines[-1].startswith("seed 3: no fault in ")


def test_the_command_asks_for_a_seed_to_trace(capsys):
    with pytest.raises(SystemExit):
        main(["--trace"])
    assert "name it with --seed N" in capsys.readouterr().err


def test_ctrl_c_waits_for_the_end_of_a_world(monkeypatch, capsys):
    lived = []

    def interrupted(seed):
        signal.raise_signal(signal.SIGINT)
        lived.append(seed)

    monkeypatch.setattr("simulation.scenario.run", interrupted)
    assert main(["--seeds", "2"]) == 130
    assert lived == [0]
    assert "stopped" in capsys.readouterr().err
