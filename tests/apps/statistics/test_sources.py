"""Sources: what is there is found before anything is read, and what is read is all of it."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from embedded import embedded_broker

from zaichik.apps.recording.parts import SETTINGS_KEY
from zaichik.apps.recording.recorder import record
from zaichik.apps.recording.recording import Recording
from zaichik.apps.statistics.sources import (
    CountedTwice,
    NothingToRead,
    _settings,
    check_all,
    check_distinct,
    held,
    recorded,
)
from zaichik.client import blocking
from zaichik.client.endpoint import Endpoint
from zaichik.client.errors import ConnectFailed, TopicShrunk
from zaichik_protocol import Batch, Messages


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


def frames(count, start=0):
    return [
        Messages(1, offset, offset * 10, Batch.of([(b"k", b"%d" % offset)]))
        for offset in range(start, start + count)
    ]


def positions(topic):
    return [
        row
        for batch in topic.batches()
        for row in zip(*(batch.column(n).to_pylist() for n in ("epoch", "position")), strict=True)
    ]


@pytest.fixture
def folder(tmp_path):
    """Topic t with two epochs, the later one in two files; topic j with its journal."""
    with Recording.open(tmp_path, "t") as one:
        one.add(7, frames(3))
        one.add(5, frames(12))
        one.flush()
        one.add(7, frames(2, start=3))
    for name in ("j", "$journal/j"):
        with Recording.open(tmp_path, name, {"compaction_window_ms": 5}) as one:
            one.add(1, [Messages(1, 0, 0, Batch.of([(b"k", bytes(40))]))])
    return tmp_path


def test_a_recording_is_read_in_the_order_of_its_messages(folder):
    journal, topic = recorded(folder)
    assert positions(topic) == [(5, n) for n in range(12)] + [(7, n) for n in range(5)]
    assert (topic.name, topic.rows, topic.is_journaled, topic.settings) == (
        "t",
        17,
        False,
        {5: None, 7: None},
    )
    assert (journal.name, journal.rows, journal.is_journaled) == ("j", 1, True)
    assert journal.settings == {1: {"compaction_window_ms": 5}}
    assert (topic.ends, journal.ends) == ({5: 12, 7: 5}, {1: 1})


def test_what_a_recorder_writes_says_which_settings_the_topic_had(broker, tmp_path):
    broker.create("t", compaction_window=5, journal=10_000, retention_ttl="forever")
    broker.publish("t", [("k", b"1"), ("k", b"2")])
    with blocking.connect(port=broker.port) as client:
        for name in ("t", "$journal/t"):
            record(client, name, tmp_path)
    (topic,) = recorded(tmp_path)
    assert (topic.is_journaled, topic.rows) == (True, 2)
    ((epoch, settings),) = topic.settings.items()
    assert (epoch, settings) == (broker.topics()[-1]["epoch"], broker.topics()[-1]["settings"])
    assert settings["compaction_window_ms"] == 5000


def test_epochs_that_were_recorded_without_their_journal_are_counted(tmp_path):
    """The journal was made later: what came before is in the topic's own recording only."""
    with Recording.open(tmp_path, "j") as one:
        one.add(1, frames(5))
        one.add(2, frames(3))
    with Recording.open(tmp_path, "$journal/j") as one:
        one.add(2, [Messages(1, 0, 0, Batch.of([(b"k", bytes(40))]))])
    (topic,) = recorded(tmp_path)
    assert (topic.is_journaled, topic.rows, topic.left_out) == (True, 1, 5)


def test_a_file_that_goes_while_it_is_read_is_not_called_damaged(folder):
    """A recorder may merge it with others."""
    topic = recorded(folder)[1]
    for file in topic.files:
        file.unlink()
    with pytest.raises(NothingToRead, match="has gone meanwhile: a recorder merges small files"):
        positions(topic)


def test_a_topic_at_a_broker_is_read_as_far_as_it_was_described(broker):
    broker.create("t", retention_ttl="forever")
    broker.publish("t", [("k", b"1")], [("k", b"2"), (None, b"3")])
    (topic,) = held(Endpoint("127.0.0.1", broker.port), ["t"])
    broker.publish("t", [("k", b"later")])
    assert [position for _, position in positions(topic)] == [0, 1, 2]
    assert (topic.rows, topic.counters["published"], topic.place) == (3, 3, broker.address)


def test_what_is_gone_of_a_table_is_not_what_was_superseded(broker, tmp_path):
    """TAB-2: holes are no gaps; not at the broker, nor in a recording."""
    broker.create("t", table=True)
    batches = [[("k", b"%d" % number), ("other", b"x")] for number in range(3)]
    for batch in batches:
        broker.publish("t", batch)
    (topic,) = held(Endpoint("127.0.0.1", broker.port), ["t"])
    assert [position for _, position in positions(topic)] == [4, 5]
    assert topic.gone(2) == (0, 0)
    with blocking.connect(port=broker.port) as client:
        record(client, "t", tmp_path)
    (copy,) = recorded(tmp_path)
    assert (copy.rows, copy.gone(2)) == (2, (0, 0))
    broker.publish("t", [("k", b"later")])
    assert [position for _, position in positions(topic)] == [5]
    assert topic.gone(1) == (0, 1), "superseded after it was described, and so not read"


def test_what_was_described_and_is_gone_is_not_waited_for(broker):
    """As when an older copy of the broker's folder is restored in between."""
    broker.create("t")
    broker.publish("t", [(b"k", b"1")])
    (topic,) = held(Endpoint("127.0.0.1", broker.port), ["t"])
    longer = replace(topic, read=topic.read | {"next_offset": 2})
    with pytest.raises(TopicShrunk, match="t ends before offset 1, and had reached 2"):
        positions(longer)


def test_a_topic_goes_by_the_name_of_its_journal_too(broker):
    broker.create("j", journal=10_000)
    broker.publish("j", [("k", b"1")])
    for name in ("j", "$journal/j"):
        (topic,) = held(Endpoint("127.0.0.1", broker.port), [name])
        assert (topic.name, topic.is_journaled, topic.rows, topic.counters["name"]) == (
            "j",
            True,
            1,
            "j",
        )


def test_what_is_gone_by_the_time_it_is_read_is_left_out(broker):
    broker.create("t", retention_ttl="forever", capacity=3)
    broker.publish("t", *[[("k", b"%d" % n)] for n in range(3)])
    (topic,) = held(Endpoint("127.0.0.1", broker.port), ["t"])
    broker.publish("t", [("k", b"later")])
    assert [position for _, position in positions(topic)] == [1, 2]


def test_a_durable_topic_is_read_from_the_disk(tmp_path):
    """All of it, although memory holds a hundred messages; after a restart as well."""
    with (
        embedded_broker(data=tmp_path / "data") as broker,
        blocking.connect(port=broker.port) as client,
    ):
        client.create_topic("t", durable=True, capacity=100)
        with client.producer("t", max_batch=100) as producer:
            for number in range(20_000):
                producer.send(b"%d" % number, key=b"%d" % (number % 7))
        for _ in range(2):
            (topic,) = held(Endpoint("127.0.0.1", broker.port), ["t"])
            assert (topic.rows, topic.counters["published"]) == (20_000, 20_000)
            assert [position for _, position in positions(topic)] == list(range(20_000))
            broker.stop()
            broker.start()


def test_what_is_not_there_is_told(broker, folder, tmp_path_factory):
    with pytest.raises(NothingToRead, match="is not a recording"):
        recorded(tmp_path_factory.mktemp("empty"))
    with pytest.raises(NothingToRead, match="there is no topic 'nowhere'"):
        held(Endpoint("127.0.0.1", broker.port), ["nowhere"])
    with pytest.raises(ConnectFailed):
        held(Endpoint("127.0.0.1", 1), ["t"])
    broken = folder / "topic=t" / "day=1970-01-01" / "9-0-5.parquet"
    broken.write_bytes(b"PAR1 half of a file")
    with pytest.raises(NothingToRead, match=r"9-0-5\.parquet is damaged"):
        recorded(folder)


def test_damage_in_the_midst_of_a_file_names_it(folder):
    file = folder / "topic=t" / "day=1970-01-01" / "7-0-3.parquet"
    whole = file.read_bytes()
    # The end, which tells where everything is, is sound.
    file.write_bytes(whole[:4] + bytes(40) + whole[44:])
    topic = recorded(folder)[1]
    for read in (positions, check_all):
        with pytest.raises(NothingToRead, match=r"7-0-3\.parquet is damaged"):
            read(topic)


def test_nothing_is_counted_twice(broker, folder, tmp_path_factory):
    broker.create("t")
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "other")
    with pytest.raises(CountedTwice, match=f"^j is in {folder} and in {copy}"):
        check_distinct([*recorded(folder), *recorded(copy)])
    twice = held(Endpoint("127.0.0.1", broker.port), ["t", "t"])
    with pytest.raises(CountedTwice, match=f"^t is at {broker.address}, and named twice"):
        check_distinct(twice)


@pytest.mark.parametrize("text", [b"", b"[" * 50_000, b"[1]", b'{"capacity": "5"}', b"\xff"])
def test_settings_that_make_no_sense_are_not_known(text):
    """Somebody may have written the file of a recording, or a part of it."""
    assert _settings(SimpleNamespace(metadata={SETTINGS_KEY: text})) is None


def test_settings_are_those_of_the_file():
    assert _settings(SimpleNamespace(metadata={SETTINGS_KEY: b'{"capacity": 5}'})) == {
        "capacity": 5
    }
    assert _settings(SimpleNamespace(metadata=None)) is None
