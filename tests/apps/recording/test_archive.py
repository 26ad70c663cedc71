"""Topics in an object store: nothing missing, nothing twice, whatever fails on the way."""

import dataclasses
import io
import logging
import shlex
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import START_US, embedded_broker
from hypothesis import given
from hypothesis import strategies as st

from zaichik.apps.recording import archive, recorder
from zaichik.apps.recording.archive import Archive
from zaichik.apps.recording.parts import CannotRecord, Part
from zaichik.apps.recording.pieces import Piece, pieces, pieces_of
from zaichik.apps.recording.recorder import record
from zaichik.apps.recording.stores import Store, StoreRefused, StoreUnavailable
from zaichik.client import blocking
from zaichik.client.errors import ConnectionLost
from zaichik_protocol import Batch, Messages

DAY_US = 86_400 * 1_000_000


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with blocking.connect(port=broker.port) as client:
        yield client


@pytest.fixture
def store(s3):
    return Store.at(s3.url())


def numbered(count, start=0):
    return [(None, b"%d" % number) for number in range(start, start + count)]


def frame(base, count=2, accepted_us=START_US):
    return Messages(1, base, accepted_us, Batch.of((b"", b"x") for _ in range(count)))


def rows(s3):
    """All rows that are in the store, those that are there twice included, by offset."""
    tables = [pq.read_table(io.BytesIO(data)) for data in s3.objects.values()]
    found = pa.concat_tables(tables).to_pylist() if tables else []
    return sorted(found, key=lambda row: (row["epoch"], row["offset"]))


def numbers(s3, store, epoch):
    """The messages that a reader takes from each object, which say their offsets."""
    found = []
    for piece in pieces_of(store, "t", epoch):
        table = pq.read_table(io.BytesIO(s3.objects[piece.path.removeprefix("lake/")]))
        found += [
            (row["offset"], int(row["payload"]))
            for row in table.to_pylist()
            if piece.start <= row["offset"] < piece.end
        ]
    assert all(offset == number for offset, number in found)
    return [offset for offset, _ in found]


def names(s3):
    return sorted(key.rpartition("/")[2] for key in s3.objects)


def position(broker, name="archive"):
    (committed,) = [one["committed"] for one in broker.subscriptions() if one["session"] == name]
    return committed


# -- objects -------------------------------------------------------------------------------------


def test_an_object_has_what_its_name_says_and_the_epoch_in_each_row(s3, store):
    one = Archive(store, "t", {"retention_ttl_ms": 7})
    one.add(7, [frame(0), frame(2)])
    assert s3.objects == {}
    one.flush()
    ((key, data),) = s3.objects.items()
    assert key == "zaichik/topic=t/day=2023-11-14/7-0-4.parquet"
    table = pq.read_table(io.BytesIO(data))
    assert table.column("offset").to_pylist() == [0, 1, 2, 3]
    assert table.column("epoch").to_pylist() == [7] * 4
    assert table.schema.metadata[b"zaichik.topic"] == b"t"
    assert one.complete == 4


def test_an_object_ends_at_a_gap_at_midnight_and_when_it_is_large(s3, store, monkeypatch):
    monkeypatch.setattr(archive, "OBJECT_MESSAGES", 6)
    one = Archive(store, "t")
    one.add(7, [frame(0), frame(4), frame(6, accepted_us=START_US + DAY_US)])
    one.add(7, [frame(base, accepted_us=START_US + DAY_US) for base in (8, 10, 12)])
    one.flush()
    assert one.parts() == [Part(7, 0, 2), Part(7, 4, 6), Part(7, 6, 12), Part(7, 12, 14)]


def test_holes_of_a_table_are_no_gap(broker, client, s3, store):
    epoch = broker.create("t", table=True)
    broker.publish("t", [("a", b"0")], [("a", b"1")], [("b", b"2")])
    record(client, "t", store)
    broker.publish("t", [("a", b"3")], [("a", b"4")])
    progress = record(client, "t", store)
    assert (progress.recorded, progress.missing) == (1, 0)
    assert names(s3) == [f"{epoch}-0-3.parquet", f"{epoch}-3-5.parquet"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(1, 0, 10), (1, 10, 20)], [(1, 0, 10), (1, 10, 20)]),
        ([(1, 5, 15), (1, 0, 10)], [(1, 0, 10), (1, 10, 15)]),
        ([(1, 0, 10), (1, 2, 8), (1, 8, 12)], [(1, 0, 10), (1, 10, 12)]),
        ([(1, 0, 10), (1, 0, 4)], [(1, 0, 10)]),
        ([(1, 0, 10), (1, 20, 30), (1, 5, 8)], [(1, 0, 10), (1, 20, 30)]),
        ([(1, 0, 10), (2, 5, 15)], [(1, 0, 10), (2, 5, 15)]),
    ],
)
def test_what_is_in_two_objects_is_read_from_one(parts, expected):
    """AR-3."""
    paths = [f"t/{epoch}-{start}-{end}.parquet" for epoch, start, end in parts]
    found = pieces(paths)
    assert [(piece.epoch, piece.start, piece.end) for piece in found] == expected
    assert all(isinstance(piece, Piece) for piece in found)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 30), st.integers(1, 15)), max_size=8))
def test_whatever_recorders_have_written_is_read_once_and_none_of_it_is_left_out(parts):
    """AR-3."""
    paths = [f"t/{epoch}-{start}-{start + count}.parquet" for epoch, start, count in parts]
    read = [
        (piece.epoch, offset) for piece in pieces(paths) for offset in range(piece.start, piece.end)
    ]
    there = {
        (epoch, offset) for epoch, start, count in parts for offset in range(start, start + count)
    }
    assert read == sorted(there)


def test_an_object_that_is_none_of_ours_is_told(s3, store):
    s3.objects["zaichik/topic=t/day=2023-11-14/mine.parquet"] = b"x"
    with pytest.raises(CannotRecord, match="EPOCH-START-END"):
        Archive(store, "t").parts()


def test_other_files_beside_the_days_are_nobody_s_business(s3, store):
    one = Archive(store, "t")
    one.add(7, [frame(0)])
    one.flush()
    for name in (
        "README.md",
        "_SUCCESS",
        "backup/part-0.parquet",
        "x/day=2023-11-14/7-2-9.parquet",
    ):
        s3.objects[f"zaichik/topic=t/{name}"] = b"x"
    assert one.parts() == [Part(7, 0, 2)]


# -- uploads that fail ---------------------------------------------------------------------------


def failing(s3, call, times, answer):
    """Have the store refuse a call so often."""
    refused = []

    def refuse(name, number):
        if name != call or len(refused) >= times:
            return None
        refused.append(number)
        return answer

    s3.refuse = refuse
    return refused


@pytest.mark.parametrize("call", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"])
def test_an_upload_that_failed_is_tried_again_with_credentials_that_are_found_then(
    s3, store, call, caplog, monkeypatch
):
    failing(s3, call, 2, (400, "ExpiredToken"))
    reopened = []
    monkeypatch.setattr(Store, "reopened", lambda self: reopened.append(self) or self)
    pauses = []
    one = Archive(store, "t", pause=pauses.append)
    one.add(7, [frame(0)])
    one.flush()
    assert names(s3) == ["7-0-2.parquet"]
    assert (pauses, len(reopened)) == ([0.5, 1], 2)
    assert caplog.text.count("trying again for a minute") == 1


def test_what_could_not_be_written_is_not_forgotten(s3, store):
    s3.refuse = lambda name, number: (403, "AccessDenied") if name == "UploadPart" else None
    one = Archive(store, "t")
    one.add(7, [frame(0)])
    with pytest.raises(StoreRefused):
        one.flush()
    assert one.complete == 0
    s3.refuse = lambda name, number: None
    one.add(7, [frame(2)])
    one.flush()
    assert names(s3) == ["7-0-4.parquet"]


def test_a_recorder_that_is_to_stop_does_not_try_again(s3, store):
    s3.refuse = lambda name, number: (400, "ExpiredToken") if name == "UploadPart" else None
    one = Archive(store, "t", stopping=lambda: True, pause=None)
    one.add(7, [frame(0)])
    with pytest.raises(StoreUnavailable, match="expired"):
        one.flush()


def test_a_store_that_stays_away_ends_the_recorder_after_a_minute(s3, store, monkeypatch):
    now = 0.0
    monkeypatch.setattr("zaichik.apps.recording.archive.time.monotonic", lambda: now)

    def pause(seconds):
        nonlocal now
        now += seconds

    s3.refuse = lambda name, number: (400, "ExpiredToken") if name == "UploadPart" else None
    one = Archive(store, "t", pause=pause)
    one.add(7, [frame(0)])
    with pytest.raises(StoreUnavailable):
        one.flush()
    assert 60 <= now < 75


# -- topics --------------------------------------------------------------------------------------


def follow(client, store, end, *, name="archive", every=300, told=lambda progress: None):
    """Records the topic t until that offset."""
    reached = []

    def tell(progress):
        told(progress)
        if progress.next >= end:
            reached.append(True)

    return record(
        client, "t", store,
        follow=True, name=name, every=every, tell=tell, stopping=lambda: bool(reached),
    )  # fmt: skip


def lossless(broker, capacity=100):
    return broker.create("t", capacity=capacity, retention_ttl="forever", overflow="reject")


def test_a_position_moves_after_the_object_is_complete_and_never_before(broker, client, s3, store):
    """AR-4."""
    lossless(broker)
    broker.publish("t", numbered(10))
    seen = []

    def look(name, number):
        if name in {"CompleteMultipartUpload", "HeadObject"}:
            seen.append(position(broker))

    s3.refuse = look
    follow(client, store, 10)
    assert seen == [0, 0]
    assert position(broker) == 10


def test_a_lossless_topic_waits_for_the_archive(broker, client, s3, store, caplog):
    """AR-4, RET-9: its name keeps what is not archived while no recorder runs."""
    epoch = lossless(broker, capacity=20)
    broker.publish("t", numbered(10))
    follow(client, store, 10)
    broker.publish("t", numbered(20, 10))
    publishing = threading.Thread(target=broker.publish, args=("t", numbered(1, 30)))
    publishing.start()
    assert client.topic("t")["next_offset"] == 30, "the last one waits"
    follow(client, store, 31)
    publishing.join()
    assert numbers(s3, store, epoch) == list(range(31))
    assert "will be missing" not in caplog.text


@pytest.mark.parametrize(
    "settings",
    [
        {"retention_ttl": "forever"},
        {"retention_ttl": 3600, "overflow": "reject", "capacity": 10},
    ],
)
def test_a_topic_that_does_not_wait_is_told_so_at_the_start(
    broker, client, store, caplog, settings
):
    broker.create("t", **settings)
    broker.publish("t", numbered(1))
    follow(client, store, 1)
    assert caplog.text.count("t: messages that expire or are evicted before they are recor") == 1


def test_each_gap_is_told_and_shows_in_the_names(broker, client, s3, store, caplog):
    epoch = broker.create("t", capacity=10)
    broker.publish("t", numbered(10))
    follow(client, store, 10)
    broker.publish("t", numbered(10, 10), numbered(5, 20))
    progress = follow(client, store, 25)
    assert (progress.recorded, progress.missing) == (10, 5)
    assert "t: messages were gone before they could be recorded (offsets 10 to 14)" in caplog.text
    assert names(s3) == [f"{epoch}-0-10.parquet", f"{epoch}-15-25.parquet"]


@pytest.mark.parametrize("call", ["UploadPart", "CompleteMultipartUpload", "HeadObject"])
@pytest.mark.parametrize("number", [1, 2])
def test_wherever_an_upload_ends_for_good_nothing_is_missing_or_twice(
    broker, client, s3, store, monkeypatch, call, number
):
    """AR-1, AR-2: the next recorder goes on where the objects end."""
    monkeypatch.setattr(archive, "OBJECT_MESSAGES", 20)
    epoch = lossless(broker)
    for start in range(0, 60, 10):
        broker.publish("t", numbered(10, start))
    s3.refuse = lambda name, count: (
        (403, "AccessDenied") if (name, count) == (call, number) else None
    )
    with pytest.raises(StoreRefused):
        follow(client, store, 60)
    s3.refuse = lambda name, count: None
    broker.publish("t", numbered(20, 60))
    follow(client, store, 80)
    assert numbers(s3, store, epoch) == list(range(80))
    assert [row["offset"] for row in rows(s3)] == list(range(80)), "nor for plain readers"


def test_a_recorder_that_was_killed_before_its_commit_is_sent_nothing_twice(
    broker, client, s3, store, monkeypatch
):
    """G-5: the name is behind, the objects are the truth."""
    epoch = lossless(broker)
    broker.publish("t", numbered(10))
    with monkeypatch.context() as patched:
        patched.setattr(blocking.Subscription, "commit_nowait", lambda self, message: None)
        follow(client, store, 10)
    assert position(broker) == 0
    broker.publish("t", numbered(5, 10))
    progress = follow(client, store, 15)
    assert (progress.start, progress.recorded) == (10, 5)
    assert [row["offset"] for row in rows(s3)] == list(range(15))
    assert position(broker) == 15
    assert numbers(s3, store, epoch) == list(range(15))


def test_a_position_beyond_the_objects_is_an_error(broker, client, s3, store):
    """G-5: the name was used for another place, or objects were deleted."""
    lossless(broker)
    broker.publish("t", numbered(10))
    follow(client, store, 10)
    s3.objects.clear()
    broker.publish("t", numbered(10, 10))
    with pytest.raises(
        CannotRecord,
        match=r"'archive' is at offset 10 of t, and s3://lake/zaichik ends at 0: .*--forget",
    ):
        follow(client, store, 20)
    assert s3.objects == {}
    follow(client, store, 20, name="other")


def test_a_position_that_was_not_committed_moves_though_nothing_is_new(
    broker, client, s3, store, monkeypatch
):
    """Or else a full topic would wait for a recorder that has nothing to record, for ever."""
    lossless(broker, capacity=20)
    broker.publish("t", numbered(20))
    with monkeypatch.context() as patched:
        patched.setattr(blocking.Subscription, "commit_nowait", lambda self, message: None)
        record(client, "t", store, name="archive")
    assert position(broker) == 0
    progress = record(client, "t", store, name="archive")
    assert (progress.recorded, position(broker)) == (0, 20)
    assert len(s3.objects) == 1


@pytest.mark.parametrize("name", ["archive", ""])
def test_objects_beyond_the_topic_s_end_are_an_error(broker, client, s3, store, name):
    """What is published next would have offsets that are recorded, and nobody would record it."""
    epoch = lossless(broker)
    broker.publish("t", numbered(5))
    follow(client, store, 5, name=name)
    broker.publish("t", numbered(5, 5))
    another = Archive(store, "t")
    another.add(epoch, [frame(5, 10)])
    another.flush()
    for following in (True, False):
        with pytest.raises(
            CannotRecord, match=r"t ends before offset 10, and s3://lake/zaichik has it up to 15"
        ):
            record(client, "t", store, follow=following, name=name, stopping=lambda: True)
    if name:
        assert position(broker) == 5, "the topic keeps what is not recorded"


def test_what_was_recorded_between_the_listing_and_the_subscription_is_seen(
    broker, client, s3, store, monkeypatch
):
    epoch = lossless(broker)
    broker.publish("t", numbered(10))
    listed = recorder._end_of_recording

    def list_and_wait(sink, state):
        monkeypatch.setattr(recorder, "_end_of_recording", listed)
        end = listed(sink, state)
        with blocking.connect(port=broker.port) as other:
            follow(other, store, 10)
        broker.publish("t", numbered(5, 10))
        return end

    monkeypatch.setattr(recorder, "_end_of_recording", list_and_wait)
    progress = follow(client, store, 15)
    assert (progress.start, progress.recorded) == (10, 5)
    assert names(s3) == [f"{epoch}-0-10.parquet", f"{epoch}-10-15.parquet"]


def test_a_command_in_a_message_can_be_typed(broker, client, s3, store):
    """Whatever the topic's name is."""
    name = "-a 'b'; c"
    broker.create(name)
    broker.publish(name, numbered(2))
    record(client, name, store, name="two words")
    s3.objects.clear()
    broker.publish(name, numbered(2, 2))
    with pytest.raises(CannotRecord) as raised:
        record(client, name, store, name="two words")
    _, _, words = raised.value.message.rpartition("zaichik subscribe ")
    assert shlex.split(words) == ["--name", "two words", "--forget", "--", name]


def test_a_recorder_under_the_same_name_takes_over(broker, client, s3, store):
    epoch = lossless(broker)
    broker.publish("t", numbered(10))
    began = []

    def publish(progress):
        if progress.next == 10 and len(began) == 1:
            began.append(True)
            broker.publish("t", numbered(5, 10))

    def take_over(progress):
        if progress.next == 10 and not began:
            began.append(True)
            with blocking.connect(port=broker.port) as other:
                follow(other, store, 15, told=publish)

    with pytest.raises(CannotRecord, match="another program has taken over the name 'archive'"):
        follow(client, store, 1000, told=take_over)
    assert names(s3) == [f"{epoch}-0-15.parquet"], "the older one leaves it to the newer one"


def test_what_was_read_is_written_when_the_broker_is_gone_for_good(broker, s3, store):
    epoch = broker.create("t")
    broker.publish("t", numbered(5))

    def stop(progress):
        if progress.next == 5:
            broker.stop()

    with (
        blocking.connect(port=broker.port, reconnect=0) as client,
        pytest.raises(ConnectionLost),
    ):
        follow(client, store, 1000, told=stop)
    assert numbers(s3, store, epoch) == list(range(5))


def test_two_recorders_under_two_names_cost_space_and_no_row(broker, client, s3, store):
    """AR-3: one that was thought to be dead goes on."""
    epoch = lossless(broker)
    broker.publish("t", numbered(10))
    began = []

    def go_on_elsewhere(progress):
        if progress.next == 10 and not began:
            began.append(True)
            with blocking.connect(port=broker.port) as other:
                broker.publish("t", numbered(5, 10))
                follow(other, store, 15, name="other")
            broker.publish("t", numbered(5, 15))

    follow(client, store, 20, told=go_on_elsewhere)
    assert len(rows(s3)) > 20
    assert numbers(s3, store, epoch) == list(range(20))


def test_what_was_read_appears_after_a_while(broker, client, s3, store):
    broker.create("t")
    broker.publish("t", numbered(2))
    counts = []

    def told(progress):
        counts.append(len(s3.objects))
        if progress.next == 2 and counts.count(1) == 1:
            broker.publish("t", numbered(1, 2))

    follow(client, store, 3, every=0, told=told)
    assert len(s3.objects) == 2


def test_a_topic_of_another_epoch_is_begun_anew(client, broker, s3, store, caplog):
    """TOP-5."""
    caplog.set_level(logging.WARNING)
    first = broker.create("t")
    broker.publish("t", numbered(3))
    record(client, "t", store)
    broker.delete("t")
    second = broker.create("t")
    broker.publish("t", numbered(2))
    assert record(client, "t", store).start == 0
    assert "another topic than the one recorded before" in caplog.text
    assert [(row["epoch"], row["offset"]) for row in rows(s3)] == [
        (first, 0), (first, 1), (first, 2), (second, 0), (second, 1),
    ]  # fmt: skip


def test_credit_is_enough_for_a_whole_object(broker, client, s3, store, monkeypatch):
    """CMT-1: else the broker would wait for a commit that waits for messages."""
    monkeypatch.setattr(archive, "OBJECT_MESSAGES", 40)
    monkeypatch.setattr(recorder, "OBJECT_MESSAGES", 40)
    epoch = lossless(broker, capacity=10_000)
    for start in range(0, 1000, 7):
        broker.publish("t", numbered(min(7, 1000 - start), start))
    follow(client, store, 1000)
    assert numbers(s3, store, epoch) == list(range(1000))


def test_what_is_held_is_counted_also_while_a_commit_is_under_way(
    broker, client, s3, store, monkeypatch
):
    """Else a full topic, and whoever publishes to it, would wait for `--every`."""
    monkeypatch.setattr(recorder, "_most_held", lambda state, max_credit: (1000, 200))
    monkeypatch.setattr(blocking.Subscription, "commit_nowait", lambda self, message: None)
    lossless(broker)
    published = []

    def publish(progress):
        if progress.next == len(published) < 10:
            broker.publish("t", [(None, bytes(100))])
            published.append(progress.next)

    follow(client, store, 10, told=publish)
    assert len(s3.objects) == 5


def test_a_broker_that_allows_little_credit_is_settled_with_more_often(
    broker, client, s3, store, monkeypatch
):
    """CMT-1: as above."""
    welcome = dataclasses.replace(client.welcome, max_credit=40)
    monkeypatch.setattr(blocking.Client, "welcome", welcome)
    epoch = lossless(broker, capacity=10_000)
    broker.publish("t", *[numbered(10, start) for start in range(0, 200, 10)])
    fetched = []

    def told(progress):
        fetched.append(progress.next)
        assert len(fetched) < 50, f"waits at {progress.next}"

    follow(client, store, 200, told=told)
    assert numbers(s3, store, epoch) == list(range(200))


def test_a_name_keeps_what_is_not_in_a_folder_yet(broker, client, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "OBJECT_MESSAGES", 40)
    lossless(broker, capacity=1000)
    broker.publish("t", numbered(100), numbered(100, 100))
    progress = follow(client, tmp_path, 200, name="copy")
    assert (progress.recorded, position(broker, "copy")) == (200, 200)
