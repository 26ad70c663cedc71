"""What commands write is there as a whole or not at all, whatever else is being written."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from zaichik.cli import access_folder
from zaichik.cli.access_folder import (
    dump,
    edited,
    locked,
    new_password,
    new_token,
    users_in,
    with_token,
    write,
)
from zaichik.cli.failure import Failure
from zaichik.server.access.users import Record, Users


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "access"
    path.mkdir(mode=0o700)
    with locked(path) as descriptor:
        write(descriptor, "users.json", dump(Users(users=(Record("ana"),))))
    return path


def names(folder):
    return [user.name for user in users_in(folder).users]


def test_a_file_is_for_its_owner_alone_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        with edited(folder) as editing:
            editing.put(Record("boris"))
    finally:
        os.umask(before)
    assert (folder / "users.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["users.json"]
    assert names(folder) == ["ana", "boris"]


def test_a_link_is_neither_replaced_nor_followed(folder, tmp_path):
    users = folder / "users.json"
    users.rename(tmp_path / "shared.json")
    users.symlink_to(tmp_path / "shared.json")
    before = users.read_bytes()
    with locked(folder) as descriptor, pytest.raises(Failure, match=r"users\.json is a link to "):
        write(descriptor, "users.json", b"other")
    assert users.is_symlink()
    assert users.read_bytes() == before


def test_what_has_not_changed_is_not_written(folder):
    before = (folder / "users.json").stat()
    with edited(folder) as editing:
        editing.put(Record("ana"))
    assert (folder / "users.json").stat().st_ino == before.st_ino


def test_after_an_exception_nothing_is_written(folder):
    def fail():
        with edited(folder) as editing:
            editing.put(Record("boris"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(folder) == ["ana"]


def test_of_changes_at_once_all_are_there(folder):
    def add(number):
        with edited(folder) as editing:
            editing.put(Record(f"user{number}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(folder)) == 21


KILLED = """
import os, signal, sys
from zaichik.server.access.users import Record
from zaichik.cli import access_folder
real, left = {name: getattr(os, name) for name in ("fsync", "replace", "open")}, [int(sys.argv[2])]
def counted(name):
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real[name](*arguments, **options)
    return call
for name in real:
    setattr(os, name, counted(name))
with access_folder.edited(__import__("pathlib").Path(sys.argv[1])) as editing:
    editing.put(Record("boris"))
"""


@pytest.mark.parametrize("call", range(1, 8))
def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one(folder, call):
    """And nothing that is in the next one's way."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(call)], check=False)
    assert done.returncode in {0, -signal.SIGKILL}
    assert names(folder) in (["ana"], ["ana", "boris"])
    with edited(folder) as editing:
        editing.put(Record("carol"))
    assert "carol" in names(folder)
    assert [path.name for path in folder.iterdir()] == ["users.json"]


def test_it_is_really_killed_at_each_step(folder):
    codes = [
        subprocess.run(
            [sys.executable, "-c", KILLED, str(folder), str(call)], check=False
        ).returncode
        for call in (1, 6, 100)
    ]
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]


def test_a_link_in_the_place_of_the_new_file_is_not_followed(folder, tmp_path):
    (tmp_path / "victim").write_text("untouched")
    (folder / ".users.json.new").symlink_to(tmp_path / "victim")
    with edited(folder) as editing:
        editing.put(Record("boris"))
    assert (tmp_path / "victim").read_text() == "untouched"


@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_a_file_that_others_may_read_is_not_changed(folder, mode):
    (folder / "users.json").chmod(mode)
    with pytest.raises(Failure, match="type: chmod go="), edited(folder):
        pytest.fail("the block ran")


def test_a_user_has_four_tokens_that_are_good(folder):
    record = Record("ana")
    for _ in range(access_folder.MOST_TOKENS):
        record = with_token(record, new_token()[0])
    with pytest.raises(Failure, match="ana has 4 tokens"):
        with_token(record, new_token()[0])
    ended = new_token(expires=1)[0]
    record = with_token(Record("ana", (ended, *record.tokens[1:])), fresh := new_token()[0])
    assert ended not in record.tokens
    assert fresh in record.tokens


@pytest.mark.parametrize(
    "note", ["two\nlines", '"},{"name":"eve"\n', "\x1b[2J", "x" * 10_000, "\udcff"]
)
def test_a_note_is_one_short_line(note):
    with pytest.raises(Failure, match="a note is one line"):
        new_token(note=note)


@pytest.mark.parametrize("password", ["", "x" * 11, "x" * 1025, "\ufdfa" * 60])
def test_a_password_is_neither_short_nor_long(password):
    with pytest.raises(Failure, match="a password has at least 12 letters and at most 1024 bytes"):
        new_password(password)
