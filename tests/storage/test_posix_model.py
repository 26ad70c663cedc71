"""The model of a file system: it asks for the same system calls as the disk that it stands for."""

import os
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest
from posix_model import EveryChoice, File, Folder, ModelDisk, left_by_cut, states_after_cut

from zaichik.storage.disk import PosixDisk

CALLS = {"pwrite": "pwrite", "ftruncate": "ftruncate", "fdatasync": "sync"}
NAMES = {"unlink": "unlink", "mkdir": "mkdir", "rmdir": "rmdir", "rename": "rename"}


def use(disk):
    """Call all that changes something."""
    disk.replace("topics/t/topic", b"first")
    disk.replace("topics/t/topic", b"second")
    disk.write("topics/t/log", 0, [b"head"])
    disk.write("topics/t/log", 4, [b"one", b"two"])
    disk.write("topics/t/log", 7, [])
    disk.write("topics/t/log", 7, [b"!"])
    disk.sync_names("topics/t")
    disk.rename("topics/t", "topics/t.deleted")
    disk.remove(["topics/t.deleted/log", "topics/t.deleted/topic"])
    disk.remove(["topics/t.deleted"])
    disk.remove([])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are asked in other words")
def test_it_is_called_as_the_system_is(tmp_path, monkeypatch, patchable):
    """Those that change something, in their order; opening counts where it makes a file."""
    (tmp_path / "topics").mkdir()
    made = []
    paths = {}

    def relative(path):
        return str(Path(path).relative_to(tmp_path)).removeprefix(".")

    def opened(path, flags, *rest, real=os.open):
        file = real(path, flags, *rest)
        paths[file] = relative(path)
        if not flags & os.O_DIRECTORY:
            made.append(("open", paths[file]))
        return file

    def call(real, told, file, *rest):
        made.append((told, paths[file]))
        return real(file, *rest)

    def change(real, told, path, *rest, **more):
        made.append((told, relative(path)))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", opened)
    for name, told in CALLS.items():
        monkeypatch.setattr(os, name, partial(call, getattr(os, name), told))
    for name, told in {**NAMES, "replace": "rename"}.items():
        monkeypatch.setattr(os, name, partial(change, getattr(os, name), told))
    use(PosixDisk(tmp_path, reserve=0))
    model = ModelDisk()
    use(model)
    assert made == model.calls


def test_a_sync_of_a_file_says_nothing_about_its_name():
    """And a sync of a folder nothing about bytes."""
    folder = Folder()
    file = File()
    folder.change({"log": file})
    file.now = b"12"
    file.sync(file.moment())
    assert {"log" in state.now for state in states_after_cut(folder, 10, Random(0))} == {
        True,
        False,
    }
    file.now = b"1234"
    folder.sync(folder.moment())
    left = {state.now["log"].now for state in states_after_cut(folder, 10, Random(0))}
    assert {b"12", b"1234", b"123", b"12\0\0"} <= left


def test_removals_come_back_in_any_order():
    folder = Folder()
    for name in "abc":
        folder.change({name: File()})
    folder.sync(folder.moment())
    for name in "abc":
        folder.change({name: None})
    left = {"".join(sorted(state.now)) for state in states_after_cut(folder, 10, Random(0))}
    assert left == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_a_rename_is_done_or_not():
    folder = Folder()
    folder.change({"old": File(b"new")})
    folder.change({"it": File(b"old")})
    folder.sync(folder.moment())
    folder.change({"old": None, "it": folder.now["old"]})
    left = [
        {name: it.now for name, it in state.now.items()}
        for state in states_after_cut(folder, 10, Random(0))
    ]
    assert left == [{"old": b"new", "it": b"old"}, {"it": b"new"}]


def test_more_states_than_are_wanted_are_chosen_by_chance():
    folder = Folder()
    for number in range(20):
        folder.change({str(number): File()})
    states = [sorted(state.now) for state in states_after_cut(folder, 7, Random(0))]
    assert len(states) == 7
    assert len({tuple(state) for state in states}) == 7


def test_every_choice_is_made_once():
    every = EveryChoice()
    found = []
    while True:
        found.append((every.pick(2), every.pick(3)))
        if not every.advance():
            break
    assert found == [(a, b) for a in range(2) for b in range(3)]
    assert left_by_cut(Folder(), every.pick).now == {}
