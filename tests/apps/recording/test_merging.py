"""Many small files become few, and never is a message missing or read twice."""

import random

import pyarrow.parquet as pq
import pytest

from zaichik.apps.recording import merging
from zaichik.apps.recording.folders import folder_of
from zaichik.apps.recording.merging import FEWEST, merge, uncovered
from zaichik.apps.recording.parts import MERGING, Part, rows_at_once
from zaichik.apps.recording.recording import Recording
from zaichik.apps.statistics.sources import recorded
from zaichik_protocol import Batch, Messages

DAY_US = 86_400_000_000


def frame(offset, day=0):
    return Messages(1, offset, day * DAY_US + offset, Batch.of([(b"k", b"%d" % offset)]))


def files(folder, topic="t"):
    return sorted((folder / folder_of(topic)).glob("day=*/*.parquet"))


def offsets(folder):
    (topic,) = recorded(folder)
    return [
        position for batch in topic.batches() for position in batch.column("position").to_pylist()
    ]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(merging, "FEWEST", 3)


def record(folder, *groups, epoch=1):
    """A file for each group of frames."""
    with Recording.open(folder, "t", {"compaction_window_ms": 7}) as one:
        for group in groups:
            for item in group:
                one.add(epoch, [item])
            one.flush()


def test_many_small_files_of_a_day_become_one(tmp_path):
    record(tmp_path, *[[frame(n)] for n in range(FEWEST)])
    (file,) = files(tmp_path)
    assert file.name == f"1-0-{FEWEST}.parquet"
    assert offsets(tmp_path) == list(range(FEWEST))
    metadata = pq.read_schema(file).metadata
    assert (metadata[b"zaichik.topic"], metadata[b"zaichik.layout"]) == (b"t", b"2")
    assert recorded(tmp_path)[0].settings == {1: {"compaction_window_ms": 7}}


def test_a_few_stay_as_they_are(tmp_path):
    record(tmp_path, *[[frame(n)] for n in range(FEWEST - 1)])
    assert len(files(tmp_path)) == FEWEST - 1


@pytest.mark.usefixtures("few")
def test_days_gaps_and_epochs_stay_apart(tmp_path):
    """A file's name says that nothing is missing within it."""
    record(
        tmp_path,
        *[[frame(n)] for n in (0, 1, 2, 5, 6, 7)],
        *[[frame(n, day=1)] for n in (8, 9, 10)],
    )
    record(tmp_path, *[[frame(n)] for n in (0, 1, 2)], epoch=2)
    assert [file.stem for file in files(tmp_path)] == ["1-0-3", "1-5-8", "2-0-3", "1-8-11"]


@pytest.mark.usefixtures("few")
def test_files_do_not_grow_beyond_their_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "FILE_MESSAGES", 4)
    record(tmp_path, *[[frame(n)] for n in range(10)])
    assert [file.stem for file in files(tmp_path)] == ["1-0-4", "1-4-8", "1-8-9", "1-9-10"]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("survivors", [0, 1, 3])
def test_a_merge_that_was_interrupted_counts_nothing_twice(tmp_path, survivors):
    """After the merged file has appeared, and some of those that it was made of have gone."""
    record(tmp_path, *[[frame(n)] for n in range(2)])
    small = {file.name: file.read_bytes() for file in files(tmp_path)}
    record(tmp_path, [frame(2)])
    (merged,) = files(tmp_path)
    for name in [*small][:survivors]:
        (merged.parent / name).write_bytes(small[name])
    (merged.parent / MERGING).write_bytes(b"half a file")
    assert offsets(tmp_path) == [0, 1, 2]
    assert Recording(tmp_path, "t").parts() == [Part(1, 0, 3)]
    record(tmp_path, [frame(3)])
    assert [file.stem for file in files(tmp_path)] == ["1-0-3", "1-3-4"]


@pytest.mark.usefixtures("few")
def test_a_merge_that_fails_leaves_everything(tmp_path, monkeypatch, caplog):
    record(tmp_path, [frame(0)], [frame(1)])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(merging.os, "fsync", full)
    merge_after(tmp_path, frame(2))
    assert offsets(tmp_path) == [0, 1, 2]
    assert len(files(tmp_path)) == 3
    assert "cannot be merged ([Errno 28] No space left on device)" in caplog.text


def merge_after(folder, item):
    """A third file, and then the merge alone."""
    day = files(folder)[0].parent
    with merging.parquet_writer(day / "1-2-3.parquet", {}) as writer:
        whole = pq.read_table(files(folder)[0])
        writer.write_table(
            whole.set_column(0, writer.schema.field(0), [[item.base]]).cast(writer.schema)
        )
    merge(day.parent)


@pytest.mark.usefixtures("few")
def test_a_large_file_is_not_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "LARGE_BYTES", 0)
    record(tmp_path, *[[frame(n)] for n in range(5)])
    assert len(files(tmp_path)) == 5


def test_large_messages_are_read_a_few_at_a_time(tmp_path):
    """So that what is in memory does not depend on their size."""
    with Recording.open(tmp_path, "t") as one:
        one.add(
            1,
            [
                Messages(1, n, n, Batch.of([(b"", random.Random(n).randbytes(2**20))]))
                for n in range(64)
            ],
        )
    (file,) = files(tmp_path)
    assert rows_at_once(pq.read_metadata(file)) < 32
    record(tmp_path, [frame(64)])
    assert rows_at_once(pq.read_metadata(files(tmp_path)[1])) > 1000


def test_what_is_covered_is_left_out(tmp_path):
    names = ["1-0-9", "1-0-5", "1-5-9", "1-9-12", "2-0-3", "2-3-4"]
    kept = uncovered(tmp_path / f"{name}.parquet" for name in names)
    assert [file.stem for file in kept] == ["1-0-9", "1-9-12", "2-0-3", "2-3-4"]


def test_files_that_a_damaged_one_covers_are_kept(tmp_path, caplog):
    """It may be half of a copy."""
    record(tmp_path, [frame(0)], [frame(1)])
    (day,) = tmp_path.glob("*/day=*")
    (day / "1-0-3.parquet").write_bytes(b"PAR1 half of")
    merge(day.parent)
    assert [file.stem for file in files(tmp_path)] == ["1-0-1", "1-0-3", "1-1-2"]
    assert "1-0-3.parquet: files that it covers are kept, for it is damaged" in caplog.text
