"""What the page about several machines says, and the containers that it starts."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from zaichik.cli import default_ports
from zaichik.cli.main import main

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "run" / "beyond-one-machine.md"
CONTAINERS = ROOT / "deploy" / "cluster" / "compose.yaml"

# The last cell of a row: a test, and the file that has it.
SHOWN_BY = re.compile(r"\| \[(\w+)\]\(\.\./\.\./(tests/[\w/]+\.py)\) \|$", re.MULTILINE)


def promises():
    """The rows of the table of promises."""
    text = PAGE.read_text(encoding="utf-8")
    _, _, after = text.partition("| what dies")
    lines = after.split("\n\n")[0].splitlines()[2:]
    return [line for line in lines if line]


def test_each_promise_is_shown_by_a_test_that_is_there():
    rows = promises()
    assert len(rows) > 10
    for row in rows:
        ((test, file),) = SHOWN_BY.findall(row)
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), row


def machines():
    """The words of the command of each container that is a machine of the cluster."""
    text = CONTAINERS.read_text(encoding="utf-8")
    return [
        json.loads(words) for words in re.findall(r"^    command: (\[.*\])$", text, re.MULTILINE)
    ]


def test_the_machines_are_one_cluster_and_take_all_of_its_shards():
    options = [dict(zip(words[2::2], words[3::2], strict=False)) for words in machines()]
    assert len({one["--machine"] for one in options}) == len(options) == 3
    ((shards, place),) = {(one["--shards"], one["--zookeeper"]) for one in options}
    assert int(shards) == sum(int(one["--most"]) for one in options)
    for zookeeper in place.partition("/")[0].split(","):
        assert f"\n  {zookeeper}:\n" in CONTAINERS.read_text(encoding="utf-8")


def test_each_machine_is_asked_at_a_port_of_its_own_shards():
    """The first takes the first shards, since the others wait for it."""
    text = CONTAINERS.read_text(encoding="utf-8")
    ports = re.findall(r'ping, --connect, "127\.0\.0\.1:(\d+)"', text)
    most = [int(words[words.index("--most") + 1]) for words in machines()]
    first = default_ports.CLUSTER
    assert [int(port) for port in ports] == [first + sum(most[:n]) for n in range(len(most))]


@pytest.mark.skipif(importlib.util.find_spec("kazoo") is None, reason="kazoo is not installed")
def test_the_command_knows_all_options_of_a_machine(tmp_path, capsys):
    words = machines()[0]
    words[words.index("--data") + 1] = str(tmp_path / "file" / "shards")
    # It is a file, so the node ends as soon as it has read its options.
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(words) == 1
    assert "file" in capsys.readouterr().err
