"""`zaichik check`."""

import errno
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from embedded import embedded_broker

from zaichik.storage.ownership import name_of
from zaichik.storage.segment import HEAD_SIZE


@dataclass
class Served:
    """A broker with a folder for durable topics.

    Attributes:
        data: the folder.
        process: the broker.
        address: HOST:PORT.
    """

    data: Path
    process: Any
    address: str

    def stop(self):
        self.process.terminate()
        self.process.communicate()


@pytest.fixture
def served(start, tmp_path):
    data = tmp_path / "topics of mine"
    process = start("serve", "--port", "0", "--json", "--data", str(data))
    told = json.loads(process.stdout.readline())
    return Served(data, process, f"127.0.0.1:{told['port']}")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a broker that was stopped: two messages in `orders`."""
    data = tmp_path_factory.mktemp("stopped") / "topics of mine"
    with embedded_broker(data=data) as broker:
        broker.create("orders", durable=True)
        broker.publish("orders", [(None, b"two")], [(None, b"apples")])
    return data


@pytest.fixture
def folder(stopped, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(stopped, tmp_path / "topics of mine"))


def log_of(folder):
    (log,) = folder.glob("topics/orders.*/*.log")
    return log


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_what_is_whole_is_counted(zaichik, folder):
    result = zaichik("check", str(folder))
    assert (result.code, result.err) == (0, "")
    assert [line.split(maxsplit=1) for line in result.out.splitlines()][:3] == [
        ["orders:", "whole"],
        ["messages", "2"],
        ["offsets", "0 to 1"],
    ]


def test_a_damaged_byte_is_found_and_nothing_is_changed(zaichik, folder):
    flip(log_of(folder), HEAD_SIZE + 70)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = zaichik("check", str(folder), "--json")
    assert result.code == 1
    assert (result.json["topic"], result.json["messages"], result.json["end"]) == ("orders", 1, 2)
    (problem,) = result.json["problems"]
    assert f"bytes {HEAD_SIZE} to " in problem
    assert "offsets 0 to 0" in problem
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert zaichik("check", str(folder)).out.startswith("orders: NOT WHOLE\n")


def test_a_damaged_end_and_a_damaged_head_are_found(zaichik, folder):
    log = log_of(folder)
    flip(log, log.stat().st_size - 1)
    assert "offsets 1 to 1" in zaichik("check", str(folder)).out, (
        "a checkpoint tells that there were two"
    )
    for path in folder.glob("topics/orders.*/*.state"):
        path.unlink()
    assert "a torn end, which a start cuts off" in zaichik("check", str(folder)).out
    flip(log, 20)
    assert "the head of the file is damaged" in zaichik("check", str(folder)).out


def test_a_check_writes_nothing_not_even_a_lock(zaichik, folder):
    flip(log_of(folder), HEAD_SIZE + 70)
    (folder / "lock").unlink()
    places = [folder, *folder.rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in places}
    assert zaichik("check", str(folder)).code == 1
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before


def test_a_repair_gives_up_what_is_damaged_and_keeps_the_damaged_file(zaichik, folder, start):
    log = log_of(folder)
    flip(log, HEAD_SIZE + 70)
    damaged = log.read_bytes()
    result = zaichik("check", str(folder), "--repair", "--json")
    assert (result.code, result.json["repaired"], result.json["messages"], result.json["lost"]) == (
        0,
        True,
        1,
        1,
    )
    assert log.with_name(f"{log.name}.damaged").read_bytes() == damaged
    assert zaichik("check", str(folder)).out.startswith("orders: whole\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = zaichik("check", str(folder), "--repair", "--json")
    assert (again.code, again.json["repaired"], again.json["problems"], again.json["lost"]) == (
        0,
        False,
        [],
        1,
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    told = json.loads(
        start("serve", "--port", "0", "--json", "--data", str(folder)).stdout.readline()
    )
    address = f"127.0.0.1:{told['port']}"
    assert (
        "2 = resident 1 + expired 0 + evicted 0 + damaged 1\n"
        in zaichik("describe", "orders", "--connect", address).out
    )
    assert zaichik("publish", "orders", "pears", "--connect", address).code == 0
    assert [
        line
        for line in zaichik("check", str(folder), "--repair").err.splitlines()
        if "another broker uses" in line
    ]


def test_a_repair_says_what_was_wrong(zaichik, folder):
    flip(log_of(folder), HEAD_SIZE + 70)
    rows = [
        line.split(maxsplit=1)
        for line in zaichik("check", str(folder), "--repair").out.splitlines()
    ]
    assert (rows[0], rows[3]) == (["orders:", "repaired"], ["lost", "1"])


def test_what_cannot_be_repaired_is_told(zaichik, folder):
    for path in folder.glob("topics/orders.*/*"):
        path.write_bytes(bytes(5000))
    for more in ([], ["--repair"]):
        result = zaichik("check", str(folder), "--json", *more)
        assert (result.code, result.json["repaired"]) == (1, False)
        assert result.json["hopeless"] == ["neither topic nor a segment tells which topic it is"]
    assert "cannot be repaired" in zaichik("check", str(folder)).out


def test_root_does_not_repair_what_the_broker_of_another_user_could_not_read_then(
    zaichik, folder, monkeypatch, patchable
):
    flip(log_of(folder), HEAD_SIZE + 70)
    if os.geteuid() == 0:
        os.chown(folder / "topics", 1, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = zaichik("check", str(folder), "--repair")
    assert (result.code, result.out) == (os.EX_NOPERM, "")
    owner = name_of((folder / "topics").stat().st_uid)
    assert f"belongs to {owner}: repair it as that user" in result.err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert zaichik("check", str(folder)).code == 1


def test_without_room_a_repair_is_not_complete(zaichik, folder, monkeypatch, patchable):
    flip(log_of(folder), HEAD_SIZE + 70)
    monkeypatch.setattr("zaichik.storage.disk.PosixDisk._write", _no_room)
    result = zaichik("check", str(folder), "--repair")
    assert (result.code, result.out) == (os.EX_IOERR, "")
    assert result.err.startswith(
        "zaichik: the repair is not complete: there is no room on the disk"
    )


def _no_room(*_):
    raise OSError(errno.ENOSPC, "full")


def test_damaged_caches_are_found_but_harmless(zaichik, folder):
    for path in folder.glob("topics/orders.*/*.state"):
        flip(path, path.stat().st_size - 1)
    result = zaichik("check", str(folder), "--json")
    assert (result.code, result.err, result.json["messages"]) == (1, "", 2)
    assert "not needed" in result.json["problems"][0]


def test_a_folder_that_a_broker_uses_is_left_alone(zaichik, served):
    result = zaichik("check", str(served.data))
    assert (result.code, result.out) == (os.EX_CANTCREAT, "")
    assert result.err == f"zaichik: a broker uses {served.data}; stop it first\n"


def test_a_folder_without_durable_topics(zaichik, tmp_path, served):
    result = zaichik("check", str(tmp_path))
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    served.stop()
    assert zaichik("check", str(served.data)).out == "there are no durable topics\n"


def test_a_name_cannot_write_to_the_terminal(zaichik, served):
    zaichik("create", "\u202eorders", "--durable", "--connect", served.address)
    served.stop()
    assert "\u202e" not in zaichik("check", str(served.data)).out
