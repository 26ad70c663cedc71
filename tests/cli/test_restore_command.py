"""`zaichik restore`: what it asks for, and what it says. What it does: `tests/apps/replication`."""

import builtins
from types import SimpleNamespace

import pytest
from copied import SETTINGS, gap, message, restored

from zaichik.apps.replication import restore as module
from zaichik.storage.disk import DiskFull, PosixDisk
from zaichik.storage.repair.checking import check
from zaichik.storage.store import opened

KAFKA = "kafka://kafka-1,kafka-2:9093/orders-copy"


@pytest.fixture
def asked(patchable, monkeypatch):
    """What Kafka is asked for, and has: the list of records may be changed."""
    asked = SimpleNamespace(
        records=[message(0, settings=SETTINGS), message(1), gap(2, 5, 1001), message(5)]
    )

    def restore_topic(folder, topic, servers, kafka_topic, *, skip, pairs, fences, tell):
        asked.servers, asked.kafka_topic, asked.fences = servers.addresses, kafka_topic, fences
        opened(folder)[1].release()
        if isinstance(asked.records, Exception):
            raise asked.records
        tell(2, 5)
        return restored(folder, asked.records, topic, skip, pairs)

    monkeypatch.setattr(module, "restore_topic", restore_topic)
    return asked


def test_what_was_made_is_said(zaichik, asked, tmp_path):
    folder = tmp_path / "topics"
    result = zaichik("restore", "orders", KAFKA, "--data", str(folder))
    assert result.code == 0
    rows = [line.split() for line in result.out.splitlines()[1:]]
    assert result.out.startswith(f"orders: restored in {folder}\n")
    assert rows[:4] == [
        ["messages", "3"], ["offsets", "0", "to", "5"], ["missing", "3"],
        ["next", "offset", str(6 + 2**40)],
    ]  # fmt: skip
    assert "3 offsets had no message in Kafka" in result.err
    assert (asked.servers, asked.kafka_topic) == ("kafka-1:9092,kafka-2:9093", "orders-copy")
    assert asked.fences is True
    assert "orders: whole" in zaichik("check", str(folder)).out


def test_as_json(zaichik, asked, tmp_path):
    result = zaichik("restore", "orders", KAFKA, "--data", str(tmp_path), "--json", "--skip", "10")
    told = result.json
    assert (result.code, result.err) == (0, "")
    names = ("topic", "messages", "missing", "head", "last", "next")
    assert [told[name] for name in names] == ["orders", 3, 3, 0, 5, 16]
    assert told["settings"]["log_bytes"] == SETTINGS["log_bytes"]


def test_settings_that_are_named_hold(zaichik, asked, tmp_path):
    options = ["--retention", "7d", "--compaction-window", "10s", "--capacity", "100"]
    options += ["--max-bytes", "1MiB", "--max-keys", "10", "--log-bytes", "10MiB"]
    zaichik("restore", "orders", KAFKA, "--data", str(tmp_path), "--overflow", "reject", *options)
    (checked,) = check(PosixDisk(tmp_path))
    found = checked.topic.settings
    names = ("retention_ttl_ms", "compaction_window_ms", "capacity", "max_bytes", "max_keys")
    assert [found[name] for name in names] == [604_800_000, 10_000, 100, 2**20, 10]
    assert (found["log_bytes"], found["overflow"]) == (10 * 2**20, 1)


def test_a_bridge_is_left_alone_if_that_was_asked_for(zaichik, asked, tmp_path):
    zaichik("restore", "orders", KAFKA, "--data", str(tmp_path), "--no-fence")
    assert asked.fences is False


def test_why_it_cannot_be_restored_is_a_sentence(zaichik, asked, tmp_path):
    zaichik("restore", "orders", KAFKA, "--data", str(tmp_path))
    result = zaichik("restore", "orders", KAFKA, "--data", str(tmp_path))
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "has a topic 'orders' already" in result.err
    asked.records = DiskFull("there is no room on the disk")
    result = zaichik("restore", "others", KAFKA, "--data", str(tmp_path))
    assert (result.code, result.err) == (1, "zaichik: there is no room on the disk\n")


def test_a_folder_that_a_broker_uses(zaichik, asked, tmp_path):
    _, lock = opened(tmp_path)
    result = zaichik("restore", "orders", KAFKA, "--data", str(tmp_path))
    lock.release()
    assert (result.code, "another broker uses" in result.err) == (73, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((KAFKA,), "the following arguments are required: --data"),
        (("kafka-1:9092/orders", "--data", "d"), "is not an address of Kafka's"),
        (("kafka://kafka-1", "--data", "d"), "does not say which topic"),
        ((KAFKA, "--data", "d", "--skip=-1"), "is not a whole number"),
        ((KAFKA, "--data", "d", "--skip", str(2**51)), "offsets to skip: 0 to 1125899906842624"),
        ((KAFKA, "--data", "d", "--kafka-config", "/no/such/file"), "cannot be read"),
    ],
)
def test_wrong_usage(zaichik, words, sentence):
    result = zaichik("restore", "orders", *words)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err


def test_without_the_package_it_says_how_to_get_it(zaichik, tmp_path, monkeypatch):
    real = builtins.__import__

    def absent(name, *arguments):
        if name.startswith(("confluent_kafka", "zaichik.apps.replication.committed")):
            raise ModuleNotFoundError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", absent)
    result = zaichik("restore", "orders", KAFKA, "--data", str(tmp_path))
    assert result.code == 1
    assert "zaichik restore needs confluent-kafka" in result.err
    assert "[bridge]" in result.err
