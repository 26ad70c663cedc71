"""`zaichik serve --data`: the folder of durable topics, and the exit codes that tell what is wrong
with it.
"""

import json
import os
import sys

import pytest

# A disk that fails as soon as there is a file of that name.
FRAGILE = """
import os, sys
from zaichik.cli.main import main

sync = os.fdatasync

def fails(file):
    if os.path.exists(sys.argv[-1] + "/broken"):
        raise OSError(5, "Input/output error")
    sync(file)

os.fdatasync = fails
sys.exit(main(sys.argv[4:]))
"""


def served(start, data, *words, **how):
    process = start("serve", "0", "--json", "--data", str(data), *words, **how)
    return process, f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"


def test_topics_survive_the_end_of_the_process(start, zaichik, tmp_path):
    data = tmp_path / "made" / "as needed"
    process, address = served(start, data)
    assert zaichik("create", "t", "--durable", "--connect", address).code == 0
    assert zaichik("publish", "t", "a word", "--connect", address).code == 0
    process.kill()
    process.wait()
    process, address = served(start, data, "--log-format", "json")
    restored = json.loads(process.stderr.readline())
    assert (restored["event"], restored["topics"]) == ("restored", 1), (
        "the log begins with what is found at the start"
    )
    result = zaichik("subscribe", "t", "--count", "1", "--connect", address)
    assert "a word" in result.out
    assert oct(data.stat().st_mode & 0o777) == "0o700", "nobody else reads them"


@pytest.mark.unmeasured
def test_durable_can_be_the_default_of_topics(start, zaichik, tmp_path):
    process, address = served(start, tmp_path, "--durable")
    zaichik("publish", "t", "a word", "--connect", address)
    process.terminate()
    assert process.wait() == 0
    _, address = served(start, tmp_path)
    (topic,) = zaichik("topics", "--json", "--connect", address).json
    assert (topic["name"], topic["stored"]) == ("t", 1)


def test_the_broker_shows_what_it_has_on_the_disk_and_how_fast_that_is(start, zaichik, tmp_path):
    _, address = served(start, tmp_path, "--limit", "max_disk_bytes=1GiB")
    before = zaichik("describe", "--connect", address).out
    assert "on the disk    0 B" in before
    assert "sync, p99" not in before, "nothing was synced yet"
    zaichik("create", "t", "--durable", "--connect", address)
    zaichik("publish", "t", "a word", "--connect", address)
    lines = {
        line.partition("  ")[0]: line.split()
        for line in zaichik("describe", "--connect", address).out.splitlines()
    }
    assert lines["on the disk"][-1] == "KiB"
    assert lines["sync, p99"][-1] == "ms"
    assert lines["max_disk_bytes"][1:3] == ["1", "GiB"]


def test_a_full_disk_is_told_by_its_code_and_what_explains_the_code_helps(start, zaichik, tmp_path):
    """DUR-3, DUR-9: from the sentence on the terminal to room on the disk, and nothing is lost."""
    _, address = served(start, tmp_path / "data", "--limit", "max_disk_bytes=600000")
    for topic in ("old", "new"):
        assert (
            zaichik("create", topic, "--durable", "--log-bytes", "1MiB", "--connect", address).code
            == 0
        )
    (tmp_path / "lines").write_text(f"{'x' * 60_000}\n" * 9)
    lines = "--file", str(tmp_path / "lines")
    assert zaichik("publish", "old", *lines, "--connect", address).code == 0

    publisher = start("publish", "new", *lines, "--connect", address)
    sentence = publisher.stderr.readline()
    assert sentence.startswith(
        "zaichik: new: publishing waits: the logs may take 600000 bytes together"
    )
    assert sentence.endswith(" [STORAGE_FULL]\n")
    refused = zaichik("explain", "new", "--offset", "9", "--json", "--connect", address).json[
        "verdicts"
    ][1]
    assert (refused["fate"], refused["rule"]) == ("refused_lately", "DUR-3")
    assert refused["evidence"]["error"] == "STORAGE_FULL"
    explained = zaichik("explain", "STORAGE_FULL")
    assert explained.out.startswith(
        "STORAGE_FULL: the disk has no room; nothing was stored\n      Error 83, "
    )
    assert "max_disk_bytes" in explained.out
    assert "zaichik delete TOPIC" in explained.out

    assert zaichik("delete", "old", "--connect", address).code == 0
    assert publisher.wait() == 0
    assert "new: published 9 = stored 9 + compacted 0" in publisher.stderr.read()


def test_without_a_folder_durable_is_a_wrong_use(zaichik):
    result = zaichik("serve", "0", "--durable")
    assert result.code == 2
    assert "--data DIR" in result.err


@pytest.mark.unmeasured
def test_a_folder_in_use_is_exit_code_73(start, tmp_path):
    served(start, tmp_path)
    second = start("serve", "0", "--data", str(tmp_path))
    _, err = second.communicate()
    assert second.returncode == os.EX_CANTCREAT == 73
    assert f"another broker uses {tmp_path}" in " ".join(err.split())


def test_a_folder_that_cannot_be_made_is_exit_code_73(zaichik, tmp_path):
    (tmp_path / "file").write_text("")
    result = zaichik("serve", "0", "--data", str(tmp_path / "file" / "data"))
    assert result.code == 73
    assert "cannot be used for durable topics" in result.err


@pytest.mark.parametrize(
    "words",
    [["publish", "t", "x", "--reconnect", "0"], ["create", "other", "--durable"]],
    ids=["publish", "create"],
)
def test_a_disk_that_fails_is_exit_code_74(start, zaichik, tmp_path, words):
    """DUR-6: the last line says so, and what it means. Nor does a broker start on it."""
    process, address = served(start, tmp_path, before=[sys.executable, "-c", FRAGILE])
    assert zaichik("create", "t", "--durable", "--connect", address).code == 0
    assert zaichik("publish", "t", "x", "--connect", address).code == 0
    (tmp_path / "broken").write_text("")
    assert zaichik(*words, "--connect", address).code == 1
    _, err = process.communicate()
    assert process.returncode == os.EX_IOERR == 74
    assert "Traceback" not in err
    assert "what was answered is on the disk" in " ".join(err.splitlines()[-1].split())
    again = start("serve", "0", "--data", str(tmp_path), before=[sys.executable, "-c", FRAGILE])
    _, err = again.communicate()
    assert again.returncode == 74
    assert "Traceback" not in err
