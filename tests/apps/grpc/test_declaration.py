"""The declaration: what was generated from it is current, and it says what the broker has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from zaichik.apps.grpc import broker_pb2 as pb
from zaichik_protocol import Overflow, Setting

ROOT = Path(__file__).parents[3]
PROTO = Path("zaichik/apps/grpc/broker.proto")
GENERATED = ("broker_pb2.py", "broker_pb2.pyi", "broker_pb2_grpc.py")


def test_what_is_generated_from_it_is_current(tmp_path):
    """`make docs` generates it."""
    pytest.importorskip("grpc_tools")
    out = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", *out, PROTO], cwd=ROOT, check=True
    )
    folder = ROOT / PROTO.parent
    for name in GENERATED:
        assert (folder / name).read_text() == (tmp_path / PROTO.parent / name).read_text(), name


def test_settings_have_the_names_and_numbers_of_the_wire():
    fields = {field.name: field.number for field in pb.Settings.DESCRIPTOR.fields}
    assert fields == {setting.name.lower(): setting.value for setting in Setting}


def test_overflow_has_the_names_and_numbers_of_the_wire():
    assert dict(pb.Overflow.items()) == {f"OVERFLOW_{it.name}": it.value for it in Overflow}


def test_every_rule_that_it_names_exists():
    rules = (ROOT / "docs" / "understand" / "semantics.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b[A-Z]{3}-\d+\b", (ROOT / PROTO).read_text(encoding="utf-8")))
    assert len(named) > 20
    assert {rule for rule in named if f"**{rule}**" not in rules} == set()


def test_every_field_is_explained():
    """By a comment of its own, or that of the message, where the name says the rest."""
    plain = {"topic", "settings", "payload", "messages", "lagged", "deletions_missed", "offset"}
    before, unexplained = "", []
    for line in (ROOT / PROTO).read_text(encoding="utf-8").splitlines():
        field = re.match(r"  .*?(\w+) = \d+;", line)
        if field and not before.strip().startswith("//") and field[1] not in plain:
            unexplained.append(line)
        before = line
    assert unexplained == []
