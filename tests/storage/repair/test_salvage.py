"""What can be known of a segment without its head, and of a disk with bad sectors."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import FOLDER, changed, message, path_of, positions, written

from zaichik.storage.record import HEADER, StoredRecord
from zaichik.storage.repair.salvage import SECTOR, PatientDisk, salt_of, salvage
from zaichik.storage.segment import HEAD_SIZE

LOG = path_of(0)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=50), st.integers(0, 2**64 - 1))
def test_a_checksum_tells_the_salt_that_it_began_with(salt, body, base):
    assert salt_of(StoredRecord(base, 5, 1, body).pack(salt, 4096)[: HEADER.size]) == salt


def without_head():
    disk, log = written([[positions(0, 7), message(0, at_us=8), message(1, at_us=9)]])
    disk.content[LOG] = bytes(HEAD_SIZE) + disk.content[LOG][HEAD_SIZE:]
    return disk, log.segments[0]


@pytest.mark.parametrize("knows_salt", [False, True])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_the_first_good_record_tells_the_salt_and_the_time(bad, knows_salt):
    disk, segment = without_head()
    at = [HEAD_SIZE, HEAD_SIZE + 70, HEAD_SIZE + 100][:bad]
    for position in at:
        disk.content[LOG] = changed(disk.content[LOG], position)
    found = salvage(disk, FOLDER, 0, segment.size, [segment.salt] if knows_salt else [])
    assert (found.salt, found.base, found.size, found.accepted_us) == (
        segment.salt,
        0,
        segment.size,
        [7, 8, 8][bad],
    )


def test_bytes_that_only_look_like_a_record_tell_nothing():
    """To the salt that their header would have, their body does not fit."""
    disk, segment = without_head()
    lookalike = b"ZAIK" + bytes(100) + b"ZAIK"
    disk.content[LOG] = bytes(HEAD_SIZE) + lookalike + disk.content[LOG][HEAD_SIZE:]
    assert salvage(disk, FOLDER, 0, segment.size + 108, []).salt == segment.salt
    disk.content[LOG] = bytes(HEAD_SIZE) + lookalike
    found = salvage(disk, FOLDER, 0, HEAD_SIZE + 108, [5])
    assert (found.salt, found.accepted_us, found.size) == (5, 0, HEAD_SIZE + 108)


def test_a_sector_of_another_file_does_not_tell_the_salt():
    """Its records are whole, and come first; but there are more of the others."""
    strange, log = written([[message(base)] for base in range(4)])
    disk, own = written([[message(base)] for base in range(20)])
    salts = log.segments[0].salt, own.segments[0].salt
    sector = strange.content[LOG][HEAD_SIZE:][:SECTOR]
    data = disk.content[LOG]
    disk.content[LOG] = bytes(HEAD_SIZE) + sector + data[HEAD_SIZE + len(sector) :]
    found = salvage(disk, FOLDER, 0, len(data), [])
    assert (found.salt, len({*salts})) == (own.segments[0].salt, 2)
    assert found.accepted_us > 0


def test_records_outvote_the_checkpoint_of_a_file_that_was_replaced():
    """Its salt is in no record; nor must it be believed where it is in some of another file."""
    disk, segment = without_head()
    found = salvage(disk, FOLDER, 0, segment.size, [5])
    assert (found.salt, found.accepted_us) == (segment.salt, 7)
    strange, log = written([[message(base)] for base in range(4)])
    disk, own = written([[message(base)] for base in range(70)])
    sector = strange.content[LOG][HEAD_SIZE:][:SECTOR]
    data = disk.content[LOG]
    disk.content[LOG] = bytes(HEAD_SIZE) + sector + data[HEAD_SIZE + len(sector) :]
    found = salvage(disk, FOLDER, 0, len(data), [log.segments[0].salt])
    assert found.salt == own.segments[0].salt


def test_a_checkpoint_decides_where_all_records_may_be_of_another_file():
    """Of the own records, one is left."""
    strange, log = written([[message(base)] for base in range(9)])
    disk, own = written([[message(base)] for base in range(10)])
    foreign = strange.content[LOG][HEAD_SIZE:]
    data = disk.content[LOG]
    disk.content[LOG] = bytes(HEAD_SIZE) + foreign + data[HEAD_SIZE + len(foreign) :]
    salts = [log.segments[0].salt, own.segments[0].salt]
    assert salvage(disk, FOLDER, 0, len(data), salts[1:]).salt == salts[1]
    assert salvage(disk, FOLDER, 0, len(data), []).salt == salts[0]


def test_of_a_file_that_is_missing_the_checkpoint_tells_the_salt():
    disk, _ = written([])
    found = salvage(disk, FOLDER, 70, 0, [4, 5])
    assert (found.path, found.salt, found.size, found.accepted_us) == (path_of(70), 5, HEAD_SIZE, 0)


def test_of_a_disk_with_bad_sectors_only_those_are_lost(tmp_path, monkeypatch):
    data, bad, real = os.urandom(20 * SECTOR + 100), 7 * SECTOR + 50, os.pread
    (tmp_path / "file").write_bytes(data)

    def pread(file, size, at):
        if at <= bad < at + size:
            raise OSError(errno.EIO, "bad sector")
        return real(file, size, at)

    monkeypatch.setattr(os, "pread", pread)
    found = PatientDisk(tmp_path).read("file", 0, 10**6)
    assert len(found) == len(data)
    wrong = [at for at in range(len(data)) if found[at] != data[at]]
    assert wrong
    assert bad - SECTOR < wrong[0] <= bad <= wrong[-1] < bad + SECTOR
    assert not any(found[wrong[0] : wrong[-1] + 1])
    monkeypatch.setattr(
        os, "pread", lambda *_: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many"))
    )
    with pytest.raises(OSError, match="too many"):
        PatientDisk(tmp_path).read("file", 0, 10)
