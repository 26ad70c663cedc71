"""`zaichik cluster`."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time

import anyio
import pytest

import zaichik as client_library
from zaichik.client.cluster.hashing import shard_of

QUIET = ("--log-level", "error")


def free_port(count=2):
    """Returns the first of some ports that follow each other and are free."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                for more in range(1, count):
                    with socket.socket() as other:
                        other.bind(("127.0.0.1", port + more))
            except (OSError, OverflowError):
                continue
            return port


def ready(process):
    return json.loads(process.stdout.readline())


@pytest.fixture
def node(start, tmp_path):
    """Start a node of two shards; its process and what it says, with the port of shard 0."""

    def begin(*words):
        port = free_port()
        process = start(
            *("cluster", "serve", "--machine", "a", "--data", str(tmp_path / "data")),
            *("--shards", "2", "--first-port", str(port), "--json", *(words or QUIET)),
        )
        return process, port

    return begin


@pytest.fixture
def topics():
    """A topic of each shard, by shard."""
    found = {}
    for number in range(100):
        found.setdefault(shard_of(f"t{number}", 2), f"t{number}")
    return found


def brokers_of(process):
    """The process ids of a node's brokers."""
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in children.stdout.split()]


def wait_until_gone(pids):
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # noqa: PTH110
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def follow_all_topics(address):
    async with (
        client_library.cluster(address) as cluster,
        cluster.subscribe_pattern("**"),
    ):
        pass


def test_shards_are_served_shown_and_checked(node, zaichik, topics):
    process, port = node()
    told = ready(process)
    addresses = {"0": f"127.0.0.1:{port}", "1": f"127.0.0.1:{port + 1}"}
    assert told == {"machine": "a", "pid": process.pid, "shards": 2, "served": addresses}
    at = ("--connect", addresses["1"])
    shown = zaichik("cluster", "--json", *at).json
    assert [(row["machine"], row["address"], row["topics"]) for row in shown["shards"]] == [
        ("a", addresses["0"], 0),
        ("a", addresses["1"], 0),
    ]
    assert "a        127.0.0.1:" in zaichik("cluster", *at).out
    # What every shard has for itself is nowhere misplaced.
    anyio.run(follow_all_topics, addresses["0"])
    # A plain client at the wrong shard makes no second topic of a name (CL-2b) ...
    refused = zaichik("publish", topics[0], "x", *at)
    assert "NO_SUCH_TOPIC" in refused.err
    assert zaichik("create", topics[1], *at).code == 0
    assert zaichik("cluster", "check", *at).out == "all of 1 topic are where their names say\n"
    # ... unless it insists.
    assert zaichik("create", topics[0], *at).code == 0
    checked = zaichik("cluster", "check", "--json", *at)
    assert checked.code == 1
    assert checked.json == {
        "topics": 2,
        "misplaced": [{"topic": topics[0], "shard": 1, "belongs": 0}],
        "silent": {},
    }
    assert "belongs to shard 0" in zaichik("cluster", "check", *at).out
    process.terminate()
    assert process.wait() == 0


def test_a_broker_that_is_killed_is_back_with_what_it_had_acknowledged(node, topics):
    process, port = node()
    ready(process)
    pids = brokers_of(process)

    async def use():
        topic = topics[0]
        async with client_library.connect("127.0.0.1", port) as client:
            await client.create_topic(topic, durable=True)
            for number in range(20):
                await client.publish(topic, b"%d" % number)
                if number == 9:
                    for pid in pids:
                        os.kill(pid, signal.SIGKILL)
            async with client.subscribe(topic, until=20) as subscription:
                return [int(message.payload) async for message in subscription]

    assert anyio.run(use) == [*range(20)]
    process.terminate()
    assert process.wait() == 0


@pytest.mark.parametrize(
    ("ending", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 0)]
)
def test_however_a_node_ends_its_brokers_end(node, ending, code):
    """CL-1b."""
    process, _ = node()
    ready(process)
    pids = brokers_of(process)
    assert len(pids) == 2
    process.send_signal(ending)
    assert process.wait() == code
    wait_until_gone(pids)


def test_what_brokers_log_has_the_number_of_their_shard(node):
    process, _ = node("--log-format", "json")
    ready(process)
    process.terminate()
    lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert {line.get("shard") for line in lines if line["event"] == "topic_created"} == {0, 1}
    assert {line["shard"] for line in lines if line["event"] == "shard_served"} == {0, 1}


def test_options_can_be_in_a_file_and_those_of_the_brokers_in_one_word(start, zaichik, tmp_path):
    port = free_port()
    config = tmp_path / "node.toml"
    config.write_text(
        f'machine = "b"\ndata = "{tmp_path}/data"\nshards = 1\nfirst-port = {port}\n'
        'log-level = "error"\nbroker-options = "--limit max_topics=7"\n'
    )
    process = start("cluster", "serve", "--config", str(config), "--machine", "c", "--json")
    assert ready(process)["machine"] == "c"
    shown = zaichik("describe", "--json", "--connect", f"127.0.0.1:{port}").json
    assert shown["limits"]["max_topics"] == 7
    process.terminate()
    assert process.wait() == 0


def test_two_nodes_cannot_have_one_folder(node, zaichik, tmp_path):
    process, _ = node()
    ready(process)
    result = zaichik("cluster", "serve", "--machine", "a", "--data", str(tmp_path / "data"))
    assert (result.code, result.out) == (1, "")
    assert "another node uses" in result.err
    process.terminate()
    assert process.wait() == 0


def test_a_cluster_needs_a_number_of_shards(zaichik, tmp_path):
    result = zaichik("cluster", "serve", "--machine", "a", "--data", str(tmp_path))
    assert result.code == 1
    assert "--shards N" in result.err


def test_a_broker_that_is_in_no_cluster_is_named(zaichik, broker):
    for words in (("cluster",), ("cluster", "check")):
        result = zaichik(*words, "--connect", broker)
        assert result.code == 1
        assert f"the broker at {broker} is in no cluster" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("cluster", "--connect"),
        ("cluster", "check", "--connect"),
        ("publish", "t", "x", "--cluster"),
    ],
)
def test_without_a_broker_the_advice_is_about_clusters(zaichik, words):
    result = zaichik(*words, "127.0.0.1:1", *(("--reconnect", "0s") if "publish" in words else ()))
    assert result.code == 1
    assert "no broker answers at 127.0.0.1:1" in result.err
    assert "Start one with `zaichik cluster serve`" in result.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nonsense", "write serve, check, restore N, or nothing"),
        ("restore", "write serve"),
        ("restore x", "is not a whole number"),
        ("restore 1", "in a cluster of one machine"),
        ("restore 1 --zookeeper z", "Write --from"),
        ("restore 1 --zookeeper z --from .", "--data DIR"),
        ("restore 1 --zookeeper z --data d --from nowhere", "is not a folder"),
        ("restore 1 --zookeeper z --data d --from kafka://k:1", "the shard's topics"),
        ("restore 1 orders --zookeeper z --data d --from .", "a folder has all of its own"),
        ("serve", "--data DIR"),
        ("serve --data d --machine a/b", "no name for a machine"),
        ("serve --data d --shards 0", "too small"),
        ("serve --data d --session 1ms", "not a duration"),
        ("serve --data d --config nowhere", "cannot be read"),
        ("serve --data d --zookeeper a:b", "is not HOST:PORT"),
        ("serve --data d --zookeeper a/b/", "ends in a slash"),
        ("serve --data d --zookeeper a/b/../c", "relative paths"),
        ("check --machine a", "is of `zaichik cluster serve`"),
        ("--config x", "is of `zaichik cluster serve`"),
        ("check --from x", "is of `zaichik cluster restore`"),
        ("serve --data d --from x", "is of `zaichik cluster restore`"),
        ("serve --data d --first-port 0", "no port that the next ones can be counted from"),
    ],
)
def test_wrong_usage(zaichik, monkeypatch, tmp_path, words, sentence):
    monkeypatch.chdir(tmp_path)
    result = zaichik("cluster", *words.split())
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert sentence in result.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--port 5", "said by the node itself"),
        ("9000 --retention 1h", "a port is said by the node itself"),
        ("--nonsense", "--nonsense"),
        ("--limit max_topics=x", "max_topics"),
    ],
)
def test_options_that_a_broker_would_refuse_are_refused_at_once(
    zaichik, tmp_path, options, sentence
):
    """It would be started again and again."""
    result = zaichik(
        "cluster", "serve", "--data", str(tmp_path), f"--broker-options={options}", "--shards", "1"
    )
    assert result.code == 2
    assert sentence in result.err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("machin = 'a'", "there is no setting machin; did you mean machine?"),
        ("x = 1", "there are machine, data"),
        ("shards = true", "must be text or a number"),
        ("serve-alone = 1", "must be true or false"),
        ("shards = 0", "too small"),
        ("log-level = 'loud'", "must be one of"),
        ("shards", "is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(zaichik, tmp_path, text, sentence):
    config = tmp_path / "node.toml"
    config.write_text(text)
    result = zaichik("cluster", "serve", "--config", str(config), "--data", str(tmp_path))
    assert result.code == 2
    assert sentence in result.err


def test_a_node_must_be_able_to_log_in_to_its_brokers(zaichik, tmp_path):
    result = zaichik(
        *("cluster", "serve", "--data", str(tmp_path), "--shards", "1", "--access", "./access")
    )
    assert result.code == 2
    assert "ZAICHIK_TOKEN_FILE" in result.err


def test_what_nobody_can_connect_to_is_not_advertised(zaichik, tmp_path):
    result = zaichik(
        *("cluster", "serve", "--data", str(tmp_path), "--shards", "1", "--host", "0.0.0.0")  # noqa: S104
    )
    assert result.code == 2
    assert "--advertise HOST" in result.err


@pytest.mark.parametrize("host", ["[::1]", "a b", "a:1", "a/b", "zaichiks://a"])
def test_what_is_no_host_is_not_advertised(zaichik, tmp_path, host):
    """Clients would refuse the whole map for it, or look for a host of that name."""
    result = zaichik(
        *("cluster", "serve", "--data", str(tmp_path), "--shards", "1", "--advertise", host)
    )
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_ports_that_there_are_not_are_refused_at_once(zaichik, tmp_path):
    result = zaichik(
        *("cluster", "serve", "--data", str(tmp_path), "--shards", "4", "--first-port", "65533")
    )
    assert result.code == 1
    assert "shard 3 would have port 65536" in result.err


def test_a_damaged_file_ends_a_node_with_a_sentence(zaichik, tmp_path):
    (tmp_path / "cluster.json").write_text('{"x')
    result = zaichik("cluster", "serve", "--data", str(tmp_path), "--shards", "1")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "cluster.json is damaged" in result.err


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes cannot be made small here")
def test_a_log_that_nobody_reads_stops_neither_the_node_nor_its_brokers(start, tmp_path, topics):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    port = free_port()
    process = start(
        *("cluster", "serve", "--machine", "a", "--data", str(tmp_path / "data")),
        *("--shards", "2", "--first-port", str(port), "--json"),
        stderr=writing,
    )
    os.close(writing)
    ready(process)
    (first, _) = brokers_of(process)
    os.kill(first, signal.SIGKILL)

    async def use():
        async with client_library.cluster(f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}") as cluster:
            for topic in topics.values():
                await cluster.publish(topic, b"")

    anyio.run(use)
    process.terminate()
    assert process.wait() == 0
    os.close(reading)


def test_a_package_that_is_missing_is_named(zaichik, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zaichik.apps.cluster.zookeeper", None)
    result = zaichik("cluster", "serve", "--data", str(tmp_path), "--zookeeper", "z")
    assert result.code == 1
    assert "make .venv/.installed-cluster" in result.err


def test_without_an_address_shard_0_of_this_machine_is_asked(zaichik):
    result = zaichik("cluster")
    assert result.code == 1
    assert "127.0.0.1:8900" in result.err
