"""A topic's folder: a name that fits, that tools can read, and that is no other topic's."""

from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zaichik.apps.recording.folders import TOPIC_KEY, folder_of, shown_name, topic_of

LONGEST_NAMES = [
    "д" * 100,
    "名" * 66,
    "🐇" * 50,
    "/" * 200,
    "x" + "é" * 99,
    "$journal/" + "д" * 100,
]


@pytest.mark.parametrize(
    ("topic", "folder"),
    [
        ("orders", "topic=orders"),
        ("a/b=c d", "topic=a%2Fb%3Dc%20d"),
        ("über", "topic=%C3%BCber"),
        ("x" * 200, "topic=" + "x" * 200),
        ("д" * 41, "topic=" + "%D0%B4" * 41),
        ("$journal/orders", "topic=%24journal%2Forders"),
    ],
)
def test_a_name_that_fits_is_whole(topic, folder):
    assert folder_of(topic) == folder
    assert shown_name(topic) == topic


@pytest.mark.parametrize("topic", LONGEST_NAMES, ids=lambda topic: ascii(topic[:2]))
def test_every_name_fits(topic):
    folder = folder_of(topic)
    assert len(folder.encode()) <= 255
    assert unquote(folder, errors="strict") == "topic=" + shown_name(topic)
    assert shown_name(topic).startswith("$cut/" + topic[:10])


def test_names_that_begin_alike_have_folders_of_their_own():
    assert folder_of("д" * 100) != folder_of("д" * 99) != folder_of("д" * 99 + "ж")


def test_the_topic_of_a_file_is_in_its_folder_or_if_that_is_cut_in_the_file(tmp_path):
    for topic in ("a/b", "д" * 100):
        file = tmp_path / folder_of(topic) / "day=2026-01-31" / "7-0-1.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"offset": [0]}, metadata={TOPIC_KEY: topic.encode()}), file)
        assert topic_of(file) == topic


def test_a_file_without_its_topic_goes_by_the_cut_name(tmp_path):
    file = tmp_path / folder_of("д" * 100) / "day=2026-01-31" / "7-0-1.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"offset": [0]}), file)
    assert topic_of(file) == shown_name("д" * 100)
