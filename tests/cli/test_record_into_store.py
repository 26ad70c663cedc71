"""`zaichik record` and `stats` with an object store, as programs."""

import io
import signal

import pyarrow.parquet as pq
import pytest
from small_s3 import small_s3

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def s3(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with small_s3() as store:
        yield store


def offsets(s3):
    """Of all rows that are in the store, those that are there twice included."""
    tables = [pq.read_table(io.BytesIO(data)) for data in s3.objects.values()]
    return sorted(offset for table in tables for offset in table["offset"].to_pylist())


def test_a_topic_is_recorded_into_a_store_and_counted_there(zaichik, topic, s3):
    zaichik("publish", topic, "one", "two", "--key", "k")
    result = zaichik("record", topic, "--into", s3.url())
    assert (result.code, result.err) == (0, "")
    assert result.out == f"{topic}: 2 messages recorded into s3://lake/zaichik (offsets 0 to 1)\n"
    again = zaichik("record", topic, "--into", s3.url())
    assert again.out == (f"{topic}: nothing new; s3://lake/zaichik has everything below offset 2\n")
    (counted,) = zaichik("stats", s3.url(), "--json").json
    assert (counted["topic"], counted["count"]) == (topic, 2)


@pytest.mark.unmeasured
def test_after_a_recorder_was_killed_or_stopped_nothing_is_missing_or_twice(
    start, until, zaichik, topic, s3
):
    zaichik("create", topic, "--overflow", "reject", "--retention", "forever")
    words = ["record", topic, "--follow", "--into", s3.url(), "--every", "1s"]
    published = 0
    for end in (signal.SIGKILL, signal.SIGTERM):
        zaichik("publish", topic, *map(str, range(20)))
        published += 20
        following = start(*words)
        until(lambda count=published: len(offsets(s3)) >= count, following)
        zaichik("publish", topic, "later")
        published += 1
        following.send_signal(end)
        following.communicate()
    result = zaichik("record", topic, "--into", s3.url(), "--name", "archive")
    assert (result.code, result.err) == (0, "")
    assert offsets(s3) == list(range(published))


@pytest.mark.parametrize(
    ("place", "code", "sentence"),
    [
        ("s3://id:secret@lake/x", 2, "leave it out"),
        ("hdfs://lake/x", 2, "can't be at hdfs://"),
        ("s3:///x", 2, "names no bucket"),
    ],
)
def test_a_place_that_cannot_be_used_is_wrong_usage(zaichik, topic, place, code, sentence):
    for words in (["record", topic, "--into", place], ["stats", place]):
        result = zaichik(*words)
        if words[0] == "record" or place.startswith("s3"):
            assert (result.code, result.out) == (code, "")
            assert sentence in result.err
            assert "secret" not in result.err


def test_a_bucket_that_is_not_there_is_one_sentence(zaichik, topic, s3):
    zaichik("publish", topic, "one")
    result = zaichik("record", topic, "--into", s3.url().replace("lake", "sea"))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "zaichik: s3://sea/zaichik cannot be used: there is no such bucket; create it, or correct "
        "its name (zaichik explain STORE_REFUSED)\n"
    )


def test_an_interval_is_for_a_recorder_that_follows(zaichik, topic, tmp_path):
    result = zaichik("record", topic, "--every", "5m", "--into", str(tmp_path))
    assert (result.code, result.out) == (2, "")
    assert "--every is for --follow" in result.err
