"""Topics written down: nothing missing, nothing twice, whatever happened to the recorder before."""

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from embedded import START_US, embedded_broker

from zaichik.apps.recording import parts, recording
from zaichik.apps.recording.folders import shown_name, topic_of
from zaichik.apps.recording.recorder import NoSuchRecordedTopic, record
from zaichik.apps.recording.recording import CannotRecord, Part, Recording
from zaichik.client import blocking
from zaichik.client.errors import TopicShrunk
from zaichik_protocol import Batch, Messages

DAY = 86_400


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with blocking.connect(port=broker.port) as client:
        yield client


def numbered(count, start=0):
    return [(b"k", b"%d" % number) for number in range(start, start + count)]


def rows(root):
    """All that is recorded, as another tool reads it."""
    table = ds.dataset(root, partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: (row["topic"], row["offset"]))


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet"))


def frame(base, count=2, accepted_us=START_US):
    return Messages(1, base, accepted_us, Batch.of((b"", b"x") for _ in range(count)))


# -- what is written down ------------------------------------------------------------------------


def test_a_topic_is_written_down_by_day(broker, client, tmp_path):
    epoch = broker.create("orders")
    broker.publish("orders", [(b"key", b"one"), (None, b"two")])
    broker.clock.advance(DAY)
    broker.publish("orders", [(None, b"three")])
    progress = record(client, "orders", tmp_path)
    assert (progress.recorded, progress.missing, progress.next) == (3, 0, 3)
    assert files(tmp_path) == [
        f"topic=orders/day=2023-11-14/{epoch}-0-2.parquet",
        f"topic=orders/day=2023-11-15/{epoch}-2-3.parquet",
    ]
    assert [(row["offset"], row["key"], row["payload"]) for row in rows(tmp_path)] == [
        (0, b"key", b"one"),
        (1, None, b"two"),
        (2, None, b"three"),
    ]
    assert rows(tmp_path)[0]["timestamp"].timestamp() == START_US / 1e6


def test_a_recording_goes_on_where_it_ends(broker, client, tmp_path):
    broker.create("t")
    broker.publish("t", numbered(3))
    record(client, "t", tmp_path)
    assert record(client, "t", tmp_path).recorded == 0
    broker.publish("t", numbered(2, start=3))
    assert record(client, "t", tmp_path).recorded == 2
    assert [row["payload"] for row in rows(tmp_path)] == [b"%d" % number for number in range(5)]


def test_what_was_gone_in_between_is_counted(broker, client, tmp_path):
    """LAG-1: also when another recorder looks at the files later."""
    epoch = broker.create("t", capacity=4)
    broker.publish("t", numbered(4))
    record(client, "t", tmp_path)
    broker.publish("t", numbered(4), numbered(2))
    progress = record(client, "t", tmp_path)
    assert (progress.recorded, progress.missing) == (4, 2)
    assert Recording(tmp_path, "t").parts() == [Part(epoch, 0, 4), Part(epoch, 6, 10)]


def test_a_table_keeps_its_offsets_and_its_tombstones(broker, client, tmp_path):
    """TAB-2, TAB-5: its holes are not missing, and make no files of their own."""
    epoch = broker.create("t", table=True)
    keyed = [(str(number % 3), b"%d" % number) for number in range(10)]
    broker.publish("t", keyed, [("a", b"1"), ("0", None)], [("b", b"2")], [("b", b"3")])
    progress = record(client, "t", tmp_path)
    assert (progress.recorded, progress.missing, progress.deletions_missed) == (5, 0, 0)
    assert [(row["offset"], row["key"], row["payload"]) for row in rows(tmp_path)] == [
        (7, b"1", b"7"),
        (8, b"2", b"8"),
        (10, b"a", b"1"),
        (11, b"0", b""),
        (13, b"b", b"3"),
    ]
    broker.publish("t", [("b", b"4")], [("b", b"5")])
    assert record(client, "t", tmp_path).recorded == 1
    assert Recording(tmp_path, "t").parts() == [Part(epoch, 0, 14), Part(epoch, 14, 16)]


def test_a_table_that_was_recorded_can_be_published_again(broker, client, tmp_path):
    """TAB-6: deletions included."""
    for name in ("t", "copy"):
        broker.create(name, table=True)
    broker.publish("t", [("a", b"1"), ("b", b"2")], [("a", None)])
    broker.publish("copy", [("a", b"0")])
    record(client, "t", tmp_path)
    recorded = [(row["key"], row["payload"]) for row in rows(tmp_path)]
    client.publish_batch("copy", recorded, tombstones=True)
    with client.subscribe("copy", until=client.topic("copy")["next_offset"]) as subscription:
        assert [(message.key, message.is_tombstone) for message in subscription] == [
            (b"b", False),
            (b"a", True),
        ]


def test_deletions_that_were_gone_in_between_are_told(broker, client, tmp_path):
    """TAB-5."""
    broker.create("t", table=True, tombstones=60)
    broker.publish("t", [("a", b"1"), ("b", b"2")])
    record(client, "t", tmp_path)
    broker.publish("t", [("a", None), ("b", b"3")])
    broker.clock.advance(60)
    broker.sweep()
    progress = record(client, "t", tmp_path)
    assert (progress.recorded, progress.missing, progress.deletions_missed) == (1, 0, 3)


def test_what_has_expired_of_a_table_is_counted_and_shows_in_the_names(broker, client, tmp_path):
    """TAB-8: below the head, holes are lag."""
    epoch = broker.create("t", table=True, retention_ttl=60)
    broker.publish("t", [("a", b"1")])
    record(client, "t", tmp_path)
    broker.publish("t", [("a", b"2")], [("b", b"3")])
    broker.clock.advance(61)
    broker.publish("t", [("c", b"4")])
    progress = record(client, "t", tmp_path)
    assert (progress.recorded, progress.missing) == (1, 2)
    assert Recording(tmp_path, "t").parts() == [Part(epoch, 0, 1), Part(epoch, 3, 4)]


def test_a_first_recording_begins_with_what_is_there_and_tells_what_is_gone(
    broker, client, tmp_path
):
    broker.create("t", capacity=4)
    broker.publish("t", numbered(4), numbered(4))
    progress = record(client, "t", tmp_path)
    assert (progress.start, progress.recorded, progress.missing) == (0, 4, 4)


def test_what_was_told_and_is_gone_is_not_waited_for(broker, client, tmp_path, monkeypatch):
    """As when an older copy of the broker's folder is restored in between."""
    broker.create("t")
    broker.publish("t", numbered(3))
    topic = client.topic
    monkeypatch.setattr(client, "topic", lambda name: topic(name) | {"next_offset": 5})
    with pytest.raises(TopicShrunk, match="t ends before offset 3, and had reached 5"):
        record(client, "t", tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize("us", [-(2**63), 2**63 - 1])
def test_a_time_that_no_calendar_has_is_written_down_as_a_number(tmp_path, us):
    """One wrong time must not keep all other messages from being saved."""
    with Recording.open(tmp_path, "t") as recording:
        recording.add(1, [frame(0), frame(2, accepted_us=us), frame(4)])
    file = f"topic=t/day={us // (DAY * 1_000_000)}/1-2-4.parquet"
    assert set(files(tmp_path)) == {
        "topic=t/day=2023-11-14/1-0-2.parquet",
        "topic=t/day=2023-11-14/1-4-6.parquet",
        file,
    }
    times = pq.read_table(tmp_path / file).column("timestamp")
    assert times.cast(pa.int64()).to_pylist() == [us, us]


def test_a_topic_of_another_epoch_is_begun_anew(tmp_path, caplog):
    """TOP-5: the broker was restarted; offsets of both count from 0."""
    for expected in (3, 3):
        with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
            broker.clock.advance(len(files(tmp_path)))
            broker.create("t")
            broker.publish("t", numbered(3))
            assert record(client, "t", tmp_path).recorded == expected
    assert "another topic" in caplog.text
    assert [row["offset"] for row in rows(tmp_path)] == [0, 0, 1, 1, 2, 2]


def test_a_topic_that_is_followed_is_written_down_until_told_to_stop(broker, client, tmp_path):
    broker.create("t")
    broker.publish("t", numbered(2))
    told = []

    def tell(progress):
        told.append(progress.next)
        if progress.next == 2 and len(told) == 3:
            broker.publish("t", numbered(3))

    progress = record(client, "t", tmp_path, follow=True, tell=tell, stopping=lambda: 5 in told)
    assert (progress.end, progress.recorded) == (None, 5)
    assert [row["offset"] for row in rows(tmp_path)] == list(range(5))


@pytest.mark.usefixtures("patchable")
def test_a_folder_may_look_like_a_url(broker, client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broker.create("orders")
    broker.publish("orders", [(None, b"one")])
    for part in ("run:1", "s3:/lake"):
        assert record(client, "orders", Path(part)).recorded == 1
        assert [row["payload"] for row in rows(Path(part).resolve())] == [b"one"]


def test_a_name_that_is_no_folder_name(broker, client, tmp_path):
    broker.create("a/b=c d")
    broker.publish("a/b=c d", numbered(1))
    record(client, "a/b=c d", tmp_path)
    (file,) = files(tmp_path)
    assert file.startswith("topic=a%2Fb%3Dc%20d/day=")
    assert rows(tmp_path)[0]["topic"] == "a/b=c d"


@pytest.mark.parametrize(
    "topic", ["д" * 100, "名" * 66, "🐇" * 50, "/" * 200], ids=lambda topic: ascii(topic[0])
)
def test_a_name_that_does_not_fit_is_in_the_files(broker, client, tmp_path, topic):
    """TOP-4: 200 bytes, of which a folder's name would need 600."""
    broker.create(topic)
    broker.publish(topic, numbered(1))
    assert record(client, topic, tmp_path).recorded == 1
    assert record(client, topic, tmp_path).recorded == 0
    (file,) = tmp_path.rglob("*.parquet")
    assert topic_of(file) == topic
    assert rows(tmp_path)[0]["topic"] == shown_name(topic)


def test_a_recording_of_before_is_gone_on_with(broker, client, tmp_path):
    """Its files do not name their topic: the folder does."""
    epoch = broker.create("über")
    broker.publish("über", numbered(2))
    old = tmp_path / "topic=%C3%BCber" / "day=2023-11-14" / f"{epoch}-0-1.parquet"
    old.parent.mkdir(parents=True)
    columns = [
        pa.array([0]),
        pa.array([START_US], pa.timestamp("us", "UTC")),
        pa.array([b"k"]),
        pa.array([b"0"]),
    ]
    pq.write_table(pa.table(columns, schema=parts.SCHEMA), old)
    assert record(client, "über", tmp_path).start == 1
    assert [(row["topic"], row["offset"]) for row in rows(tmp_path)] == [("über", 0), ("über", 1)]


def test_deleting_a_missing_topic_does_not_create_it(client, tmp_path):
    with pytest.raises(NoSuchRecordedTopic, match="no topic 't';"):
        record(client, "t", tmp_path)
    assert client.topics() == []
    assert list(tmp_path.iterdir()) == []


# -- files ---------------------------------------------------------------------------------------


def test_a_file_appears_when_it_is_complete(tmp_path):
    with Recording.open(tmp_path, "t") as one:
        one.add(7, [frame(0), frame(2)])
        assert one.parts() == []
        one.flush()
        assert one.parts() == [Part(7, 0, 4)]
        one.add(7, [frame(4)])
    assert one.parts() == [Part(7, 0, 4), Part(7, 4, 6)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), CannotRecord),
    ],
)
def test_a_file_whose_writing_was_interrupted_never_appears(tmp_path, monkeypatch, error, told):
    """What it has is not known: to go on might write messages twice. Nor does it fill the disk."""
    write, errors = pq.ParquetWriter.write_batch, iter([error])

    def write_batch(writer, batch):
        write(writer, batch)
        for one in errors:
            raise one

    monkeypatch.setattr(recording, "GROUP_BYTES", 0)
    monkeypatch.setattr(pq.ParquetWriter, "write_batch", write_batch)
    with (
        pytest.raises(told, match=r"^$|cannot be written to \(No space"),
        Recording.open(tmp_path, "t") as one,
    ):
        one.add(7, [frame(0)])
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.fixture
def lost_by_a_power_cut(monkeypatch):
    """Returns those of some names that were not put on the disk since they were given."""
    synced, sync = {}, parts.sync_folder

    def note(folder):
        synced[folder] = {path.name for path in folder.iterdir()}
        sync(folder)

    for module in (parts, recording):
        monkeypatch.setattr(module, "sync_folder", note)
    return lambda file, root: [
        path
        for path in (file, *file.parents)
        if path.is_relative_to(root) and path.name not in synced.get(path.parent, ())
    ]


def test_a_power_cut_loses_no_file_and_no_folder(tmp_path, lost_by_a_power_cut):
    root = tmp_path / "new" / "recording"
    with Recording.open(root, "t") as one:
        one.add(7, [frame(0), frame(2, accepted_us=START_US + 86_400_000_000)])
        one.flush()
        for file in one.folder.glob("*/*.parquet"):
            assert lost_by_a_power_cut(file, tmp_path / "new") == []


def test_what_a_killed_recorder_has_named_is_put_on_the_disk_before_it_counts(
    tmp_path, lost_by_a_power_cut
):
    folder = tmp_path / "recording" / "topic=t" / "day=2023-11-14"
    folder.mkdir(parents=True)
    (folder / "7-0-2.parquet").write_bytes(b"PAR1")
    with Recording.open(tmp_path / "recording", "t") as one:
        assert one.parts() == [Part(7, 0, 2)]
        assert lost_by_a_power_cut(folder / "7-0-2.parquet", tmp_path / "recording") == []


def test_a_gap_is_between_two_files(tmp_path):
    with Recording.open(tmp_path, "t") as one:
        one.add(7, [frame(0), frame(6)])
    assert one.parts() == [Part(7, 0, 2), Part(7, 6, 8)]


def test_what_a_killed_recorder_left_is_taken_away(tmp_path):
    folder = tmp_path / "topic=t" / "day=2023-11-14"
    folder.mkdir(parents=True)
    (folder / ".unfinished.parquet").write_bytes(b"PAR1 half of")
    with Recording.open(tmp_path, "t") as one:
        assert one.parts() == []
        one.add(7, [frame(0)])
    assert [path.name for path in folder.iterdir()] == ["7-0-2.parquet"]


def test_a_large_topic_becomes_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FILE_MESSAGES", 4)
    monkeypatch.setattr(recording, "GROUP_BYTES", 200)
    with Recording.open(tmp_path, "t") as one:
        one.add(7, [frame(base) for base in range(0, 10, 2)])
    assert one.parts() == [Part(7, 0, 4), Part(7, 4, 8), Part(7, 8, 10)]
    assert pq.read_metadata(next(tmp_path.rglob("7-0-4.parquet"))).num_row_groups == 2


def test_two_do_not_record_the_same(tmp_path):
    with (
        Recording.open(tmp_path, "t"),
        pytest.raises(CannotRecord, match="another program"),
        Recording.open(tmp_path, "t"),
    ):
        pass
    with Recording.open(tmp_path, "t"):
        pass


def test_a_file_that_is_none_of_ours_is_told(tmp_path):
    (tmp_path / "topic=t" / "day=2023-11-14").mkdir(parents=True)
    (tmp_path / "topic=t" / "day=2023-11-14" / "mine.parquet").touch()
    with pytest.raises(CannotRecord, match="EPOCH-START-END"):
        Recording(tmp_path, "t").parts()


# -- durable topics ------------------------------------------------------------------------------


@pytest.fixture
def durable(tmp_path):
    """A broker that has the durable topic t, of which its memory holds a hundred messages; and a
    client of it.
    """
    with (
        embedded_broker(data=tmp_path / "data") as broker,
        blocking.connect(port=broker.port) as client,
    ):
        client.create_topic("t", durable=True, capacity=100)
        send(client, 20_000)
        yield broker, client


def send(client, count, start=0):
    with client.producer("t", max_batch=100) as producer:
        for number in range(start, start + count):
            producer.send(b"%d" % number)


def recorded_numbers(root):
    found = [(row["offset"], int(row["payload"])) for row in rows(root)]
    assert all(offset == number for offset, number in found)
    return [number for _, number in found]


def test_a_durable_topic_is_recorded_from_the_disk_and_again_after_a_restart(
    durable, tmp_path, caplog
):
    """DUR-8: it is the same topic, so the recording goes on."""
    broker, client = durable
    first = record(client, "t", tmp_path / "recording")
    broker.stop()
    broker.start()
    send(client, 10_000, start=20_000)
    second = record(client, "t", tmp_path / "recording")
    assert (first.recorded, second.recorded, first.missing + second.missing) == (20_000, 10_000, 0)
    assert recorded_numbers(tmp_path / "recording") == list(range(30_000))
    assert "another topic" not in caplog.text


def test_a_durable_topic_is_followed_across_a_restart(durable, tmp_path):
    broker, client = durable
    told = []

    def tell(progress):
        told.append(progress.next)
        if told.count(20_000) == 1 == len(told) - told.index(20_000):
            broker.stop()
            broker.start()
            send(client, 1000, start=20_000)

    record(
        client, "t", tmp_path / "recording", follow=True, tell=tell, stopping=lambda: 21_000 in told
    )
    assert recorded_numbers(tmp_path / "recording") == list(range(21_000))


def test_a_durable_topic_that_was_made_anew_is_told_so(durable, tmp_path, caplog):
    _, client = durable
    record(client, "t", tmp_path / "recording")
    client.delete_topic("t")
    client.create_topic("t", durable=True)
    record(client, "t", tmp_path / "recording")
    assert (
        "another topic than the one recorded before: it was deleted and created again since"
        in caplog.text
    )
