"""How Spark's processes log in, and that no option holds a secret.

Without Spark, which only carries the options.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from gated import gated_broker
from pyspark.sql.types import BinaryType, StructField, StructType
from small import python

import zaichik
from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.source import ZaichikSource
from zaichik.cli.logins import keep
from zaichik.client.endpoint import endpoint
from zaichik.client.errors import ZaichikError
from zaichik.client.logins import UnusableLogin

GUARD = 300  # seconds after which what hangs has failed
SECRETIVE = Path(__file__).with_name("secretive.py")
CANARY = "zk_" + "Canary-" * 6 + "x"
PIN = "sha256:" + "0a" * 32


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    with gated_broker(tmp_path_factory.mktemp("gated")) as gated:
        gated.fill("t", b"one", b"two")
        yield gated


def rows(options):
    """What a reader that was sent to a worker reads there."""
    reader = ZaichikSource(options).reader(MESSAGES)
    planned = reader.partitions()
    pickled = pickle.dumps([reader, planned])
    assert b"zk_" not in pickled
    assert b"Canary" not in pickled
    reader, planned = pickle.loads(pickled)
    return [
        row["payload"]
        for part in planned
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


# -- ways to log in ------------------------------------------------------------------------------


def by_token_file(gated, secret_file, _):
    return {"broker": gated.address, "tokenFile": secret_file(gated.token + "\n")}


def by_password_file(gated, secret_file, _):
    return {
        "broker": gated.address,
        "user": "ana",
        "passwordFile": secret_file(gated.password + "\n"),
    }


def by_the_environment(gated, _, monkeypatch):
    monkeypatch.setenv("ZAICHIK_TOKEN", gated.token)
    return {"broker": gated.address}


def by_a_password_of_the_environment(gated, secret_file, monkeypatch):
    monkeypatch.setenv("ZAICHIK_PASSWORD_FILE", secret_file(gated.password))
    return {"broker": gated.address, "user": "ana"}


def by_the_line_of_the_environment(gated, _, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", gated.line())
    return {}


def by_a_password_in_the_line(gated, _, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", gated.line(f"ana:{gated.password.replace(' ', '%20')}"))
    return {"broker": gated.address}


def by_the_login_that_is_kept(gated, _, monkeypatch):
    keep(endpoint(gated.line()))
    return {}


def by_the_login_that_is_kept_for_this_address(gated, _, monkeypatch):
    keep(endpoint(gated.line()))
    return {"broker": gated.address}


def with_a_ca(gated, secret_file, _):
    address = gated.address.partition("?")[0]
    return {"broker": address, "ca": str(gated.certificate), "tokenFile": secret_file(gated.token)}


WAYS = [
    by_token_file,
    by_password_file,
    by_the_environment,
    by_a_password_of_the_environment,
    by_the_line_of_the_environment,
    by_a_password_in_the_line,
    by_the_login_that_is_kept,
    by_the_login_that_is_kept_for_this_address,
    with_a_ca,
]


@pytest.mark.parametrize("way", WAYS)
def test_each_process_finds_the_secret_itself(way, gated, secret_file, monkeypatch):
    assert rows({"topic": "t"} | way(gated, secret_file, monkeypatch)) == [b"one", b"two"]


def test_streams_writers_and_patterns_log_in_too(gated, secret_file):
    options = by_token_file(gated, secret_file, None)
    stream = ZaichikSource({"topicPattern": "t"} | options).streamReader(MESSAGES)
    assert stream.initialOffset().keys() == {"t"}
    stream.stop()
    gated.fill("copy", b"first")
    table = pa.table({"payload": pa.array([b"written"], pa.binary())})
    schema = StructType([StructField("payload", BinaryType())])
    writer = ZaichikSource({"topic": "copy"} | options).writer(schema, overwrite=False)
    pickled = pickle.dumps(writer)
    assert gated.token.encode() not in pickled
    assert pickle.loads(pickled).write(iter(table.to_batches())).stored == 1
    assert rows({"topic": "copy"} | options) == [b"first", b"written"]


def test_without_a_login_the_broker_says_that_it_asks_for_one(gated):
    with pytest.raises(zaichik.AuthFailed):
        rows({"topic": "t", "broker": gated.address})


def test_a_login_for_another_address_is_not_used(gated):
    other = gated.line().replace("127.0.0.1", "localhost")
    keep(endpoint(other))
    with pytest.raises(zaichik.AuthFailed):
        rows({"topic": "t", "broker": gated.address})


def test_a_wrong_pin_or_ca_is_one_sentence(gated, secret_file, tmp_path):
    pin = gated.address.rpartition(":")[2]
    token = {"topic": "t", "tokenFile": secret_file(gated.token)}
    with pytest.raises(zaichik.ConnectFailed, match="another certificate"):
        rows({"broker": gated.address.replace(pin, pin[::-1])} | token)
    address = gated.address.partition("?")[0]
    with pytest.raises(zaichik.ConnectFailed):
        rows({"broker": address} | token)
    with pytest.raises(BadOption, match=r"ca: .*nowhere cannot be read: No such file"):
        rows({"broker": address, "ca": str(tmp_path / "nowhere")} | token)
    with pytest.raises(BadOption, match=r"ca: .*no certificate in PEM"):
        rows({"broker": address, "ca": token["tokenFile"]} | token)


def test_files_are_read_when_a_process_connects_and_judged_then(gated, secret_file):
    options = Options.of({"topic": "t", "broker": gated.address, "tokenFile": "/nowhere/token"})
    with pytest.raises(UnusableLogin, match="/nowhere/token cannot be read"):
        options.connect()
    path = secret_file(gated.token, 0o644)
    options = Options.of({"topic": "t", "broker": gated.address, "tokenFile": path})
    with pytest.raises(UnusableLogin, match="others may read"):
        options.connect()
    Path(path).chmod(0o600)
    with options.connect() as client:
        assert client.topic("t")["next_offset"] == 2
    Path(path).write_text("zk_Canary")
    with pytest.raises(BadOption, match="holds no token") as caught:
        options.connect()
    assert "Canary" not in str(caught.value)


# -- what options cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token": CANARY}, "no option token: Spark shows options .*tokenFile"),
        ({"Password": "Canary"}, "no option password: Spark shows options"),
        ({"SECRET": "Canary"}, "no option secret: Spark shows options"),
        ({"broker": f"zaichiks://{CANARY}@h:1"}, "login before the @"),
        ({"broker": "zaichiks://ana:Canary@h:1"}, "login before the @"),
        ({"broker": "zaichiks://ana@h:1"}, "login before the @"),
        ({"broker": f"{CANARY}@h:1"}, "begins with zaichiks://"),
        ({"broker": f"zaichiks://{CANARY}Canary@h:1"}, "a token is zk_ and 43 letters"),
        ({"broker": "zaichiks://h:1?pin=sha256:0a"}, "perhaps the line was cut off"),
        ({"tokenFile": CANARY}, "tokenFile is the path of a file"),
        ({"tokenFile": "f", "user": "ana"}, "a token identifies its user"),
        ({"tokenFile": "f", "passwordFile": "g"}, "a token identifies its user"),
        ({"passwordFile": "f"}, "not the user whose password it is"),
        ({"broker": "h:1", "ca": "f"}, "without TLS"),
        ({"broker": f"zaichiks://h:1?pin={PIN}", "ca": "f"}, "its pin stands for one certificate"),
    ],
)
def test_an_option_that_holds_a_secret_or_means_nothing_is_refused_and_not_repeated(options, words):
    with pytest.raises(BadOption, match=words) as caught:
        Options.of({"topic": "t"} | options)
    assert "Canary" not in str(caught.value)


def test_a_user_without_a_password_is_explained_when_a_process_connects():
    options = Options.of({"topic": "t", "broker": "zaichiks://h:1", "user": "ana"})
    with pytest.raises(BadOption, match="no password of the user ana here"):
        options.connect()


def test_a_wrong_address_or_login_of_this_machine_is_one_sentence(monkeypatch):
    keep(endpoint(f"zaichiks://{CANARY}@h:1")).write_text("{")
    with pytest.raises(ZaichikError, match="is damaged"):
        Options.of({"topic": "t"})
    monkeypatch.setenv("ZAICHIK_CONNECT", CANARY)
    with pytest.raises(BadOption, match="broker is not HOST:PORT") as caught:
        Options.of({"topic": "t"})
    assert "Canary" not in str(caught.value)


# -- with Spark ----------------------------------------------------------------------------------


@pytest.mark.cluster
def test_a_token_is_in_nothing_that_spark_shows_or_keeps(gated, secret_file, tmp_path):
    """Plans, errors, progress, the UI, the event log, Java's log, checkpoints; the workers have it
    in two ways.
    """
    folder = tmp_path / "work"
    folder.mkdir()
    # Made by Spark, it would keep nothing, and what is written might go before it is read.
    gated.fill("copy", b"first")
    environment = {
        name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"
    }
    command = [sys.executable, SECRETIVE, gated.address, secret_file(gated.token), folder]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=GUARD,
        env=environment | {"PYSPARK_PYTHON": python(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.count("rows: [b'one', b'two']") == 2
    assert done.stdout.count("there is no topic 'missing'") >= 2
    assert "/nowhere cannot be read" in done.stdout
    logs = {
        path: path.read_bytes().decode(errors="replace")
        for path in folder.rglob("*")
        if path.is_file()
    }
    (events,) = (
        text
        for path, text in logs.items()
        if "events" in path.parts and "SparkListenerEnvironment" in text
    )
    shown = done.stdout + done.stderr
    for place in (shown.partition("pages:")[2], events):
        assert "spark.executorEnv.ZAICHIK_TOKEN" in place, "Spark shows that there is one ..."
        assert "*(redacted)" in place, "... and not what it is"
    assert not [path for path, text in logs.items() if gated.token[3:] in text]
    assert gated.token[3:] not in shown
