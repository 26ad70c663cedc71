"""A world's broker, recorded and replayed: whatever weather, guests and limits do to it, it is all in the recording."""

import pytest

from simulation.__main__ import main
from simulation.scenario import run
from zaichik.console.main import main as zaichik
from zaichik.flight.format import Recording
from zaichik.flight.player import Player

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SEEDS = [0, 3, 7, 8, 9]  # with a broker that stops amid its clients (7), and with our own client (9)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_sends_what_the_broker_has_sent(seed):
    data = bytearray()
    outcome = run(seed, write=lambda chunk: data.extend(chunk) is None)
    recording = Recording(bytes(data))
    steps = list(Player(recording).steps())
    assert [step for step in steps if step.difference or step.error] == []
    assert (recording.problem, outcome.anomaly) == ("", None)
    assert sum(len(step.output) for step in steps) > 100


def test_being_recorded_changes_nothing():
    assert run(3, write=lambda _: True).trace.digest() == run(3).trace.digest()


def test_the_command_records_one_world(tmp_path, capsys):
    file = tmp_path / "life"
    assert main(["--seed", "3", "--record", str(file)]) == 0
    assert capsys.readouterr().out.startswith("seed 3: no fault in ")
    assert zaichik(["replay", str(file)]) == 0
    assert "the same bytes were sent on every connection" in capsys.readouterr().out


def test_a_world_with_a_disk_is_not_recorded(tmp_path, capsys):
    assert main(["--seed", "4", "--record", str(tmp_path / "life")]) == 2
    assert "has a disk" in capsys.readouterr().err


def test_the_command_asks_for_a_seed_to_record(capsys):
    with pytest.raises(SystemExit):
        main(["--record", "life"])
    assert "name it with --seed N" in capsys.readouterr().err
