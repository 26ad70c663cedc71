"""A learner's progress: what a file says, or a new one if it says nothing that makes sense."""

import json

import pytest

from zaichik.learn.progress import FILE_NAME, Progress, read, write


def test_what_was_written_is_read(tmp_path):
    progress = Progress(3, [1, 2], "S3.2", 7, {"S3.2": 1})
    write(tmp_path, progress)
    assert read(tmp_path) == progress


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 50_000,
        "[1]",
        '{"stage": "3"}',
        '{"stage": true}',
        '{"passed": 1}',
        '{"passed": ["1"]}',
        '{"failed": []}',
        '{"hints": [1]}',
        '{"hints": {"S1.1": "one"}}',
        '{"seed": 1.5}',
        '{"colour": 1}',
        json.dumps({"hints": {"a": [[[1]]]}}),
    ],
    ids=range(13),
)
def test_of_what_makes_no_sense_it_is_a_new_one(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content, encoding="utf-8")
    assert read(tmp_path) == Progress()


def test_without_a_file_it_is_a_new_one(tmp_path):
    assert read(tmp_path) == Progress()
