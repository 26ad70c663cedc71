"""A world's broker, recorded and replayed: whatever weather, guests and limits do to it, it is all
in the recording.
"""

import pytest
from sampling import sampled

from simulation.__main__ import main
from simulation.scenario import run
from zaichik.apps.flight.format import FlightKind, Recording
from zaichik.apps.flight.player import Player
from zaichik.cli.main import main as zaichik

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SEEDS = [
    0,
    3,
    7,
    8,
    9,
    22,
]  # with a broker that stops amid its clients (7), with our own client (9), and with a table (22)
DISKS = [4, 14, 24]  # with a machine that restarts, is full, and loses power


class Boots:
    """Recordings of all lives of a world's broker.

    Attributes:
        data: by boot.
    """

    def __init__(self):
        self.data = {}

    def begin(self, boot):
        data = self.data[boot] = bytearray()
        return lambda chunk: data.extend(chunk) is None

    def steps(self):
        """Of all replays."""
        for data in self.data.values():
            recording = Recording(bytes(data))
            yield from Player(recording).steps()
            assert recording.problem == ""


@pytest.mark.parametrize("seed", sampled(SEEDS + DISKS, [7, 9, 14, 22]))
def test_a_replay_sends_what_the_broker_has_sent(seed):
    boots = Boots()
    outcome = run(seed, record=boots.begin)
    steps = list(boots.steps())
    assert [step for step in steps if step.difference or step.error] == []
    assert outcome.anomaly is None
    assert sum(len(step.output) for step in steps) > 100
    if seed in DISKS:
        assert len(boots.data) > 1
        assert {FlightKind.RECOVERED, FlightKind.TAKE, FlightKind.LOG} <= {
            step.record.kind for step in steps
        }


@pytest.mark.parametrize("seed", sampled([3, 4, 204], [4]))
def test_being_recorded_changes_nothing(seed):
    assert run(seed, record=Boots().begin).trace.digest() == run(seed).trace.digest()


def test_the_command_records_one_world(tmp_path, capsys):
    file = tmp_path / "life"
    assert main(["--seed", "3", "--record", str(file)]) == 0
    assert capsys.readouterr().out.startswith("seed 3: no fault in ")
    assert zaichik(["replay", str(file)]) == 0
    assert "the same bytes were sent on every connection" in capsys.readouterr().out


@pytest.mark.long
def test_the_command_records_each_life_of_a_world_with_a_disk(tmp_path, capsys):
    file = tmp_path / "life"
    assert main(["--seed", "14", "--record", str(file)]) == 0
    names = capsys.readouterr().out.splitlines()[-1].removeprefix("recorded: ").split(", ")
    assert names[:2] == [str(file), f"{file}.2"]
    assert sorted(names) == sorted(map(str, tmp_path.iterdir()))
    assert zaichik(["replay", names[-1]]) == 0
    assert "the same bytes were sent on every connection" in capsys.readouterr().out


def test_the_command_asks_for_a_seed_to_record(capsys):
    with pytest.raises(SystemExit):
        main(["--record", "life"])
    assert "name it with --seed N" in capsys.readouterr().err
