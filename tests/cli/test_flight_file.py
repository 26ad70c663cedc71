"""The file of a recording: nobody else's to read, bounded, and never in the broker's way."""

import io
import logging
import threading
from pathlib import Path

import pytest

from zaichik.apps.flight.format import MAGIC
from zaichik.cli import flight_file
from zaichik.cli.flight_file import FlightFile, opened

MIB = 1024 * 1024


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_is_written_is_in_the_file(tmp_path):
    file = FlightFile(opened(tmp_path / "flight"), MIB)
    assert all(file.write(b"%d" % number) for number in range(9))
    file.close()
    assert (tmp_path / "flight").read_bytes() == b"012345678"


def test_nobody_else_can_read_it(tmp_path):
    opened(tmp_path / "flight").close()
    assert (tmp_path / "flight").stat().st_mode & 0o777 == 0o600


def test_three_earlier_recordings_are_kept(tmp_path):
    for number in range(6):
        with opened(tmp_path / "flight") as file:
            file.write(MAGIC + b"%d" % number)
    assert {path.name: path.read_bytes()[len(MAGIC) :] for path in tmp_path.iterdir()} == {
        "flight": b"5",
        "flight.1": b"4",
        "flight.2": b"3",
        "flight.3": b"2",
    }


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_folder_is_no_recording(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileExistsError, match="exists, and is not a recording"):
        opened(Path(name))


@pytest.mark.parametrize("name", ["flight", "flight.1", "flight.3"])
@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_what_is_no_recording_stays_where_it_is(tmp_path, name, kind):
    path = tmp_path / name
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(tmp_path / "elsewhere")
        case "file":
            path.write_text("a letter")
    with pytest.raises(FileExistsError, match=f"{name} exists, and is not a recording"):
        opened(tmp_path / "flight")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_an_empty_file_is_a_recording_of_nothing(tmp_path):
    for _ in range(3):
        opened(tmp_path / "flight").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flight", "flight.1", "flight.2"]


def test_it_ends_with_whole_records_at_its_limit(tmp_path, caplog):
    file = FlightFile(opened(tmp_path / "flight"), 10)
    assert file.write(b"four")
    assert file.write(b"four")
    assert not file.write(b"four")
    assert not file.write(b"4")
    file.close()
    assert (tmp_path / "flight").read_bytes() == b"fourfour"
    assert lines(caplog) == [
        (
            "the recording ends here: it has reached its limit (--record-limit); the broker goes "
            "on "
            "without one"
        )
    ]


class Full(io.BytesIO):
    """A file on a disk that is full from some byte on."""

    def __init__(self, room, error=28):
        super().__init__()
        self.room, self.error = room, error
        self.failed = threading.Event()

    def write(self, data):
        if len(self.getvalue()) + len(data) > self.room:
            self.failed.set()
            raise OSError(self.error, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("room", [0, 4])
def test_a_full_disk_ends_it_with_one_line(room, caplog):
    full = Full(room)
    file = FlightFile(full, MIB)
    file.write(b"four")
    file.write(b"four")
    assert full.failed.wait(60)
    file._thread.join(60)
    assert not file.write(b"four")
    assert not file.write(b"four")
    file.close()
    assert lines(caplog) == [
        "the recording ends here: No space left on device; the broker goes on without one"
    ]


def test_the_real_thing(caplog):
    """A file that is always full."""
    file = FlightFile(Path("/dev/full").open("wb"), MIB)  # noqa: SIM115 (it closes it)
    file.write(b"four")
    file.close()
    assert not file.write(b"four")
    assert len(lines(caplog)) == 1


class Stuck(io.BytesIO):
    """A file on a disk that does not answer."""

    def __init__(self):
        super().__init__()
        self.may_go_on = threading.Event()

    def write(self, data):
        self.may_go_on.wait(60)
        return super().write(data)


def test_a_disk_that_does_not_answer_holds_up_nobody(monkeypatch, caplog):
    monkeypatch.setattr(flight_file, "WAITING", 10)
    monkeypatch.setattr(flight_file, "CLOSE_SECONDS", 0)
    stuck = Stuck()
    file = FlightFile(stuck, MIB)
    assert [file.write(b"four") for _ in range(5)] == [True, True, True, False, False]
    file.close()
    assert lines(caplog) == [
        "the recording ends here: its disk is too slow; the broker goes on without one"
    ]
    stuck.may_go_on.set()
    file._thread.join(60)
