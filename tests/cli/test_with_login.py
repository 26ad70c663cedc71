"""Commands at a broker that asks for a login: each finds the address and the secret, and writes the
secret nowhere.
"""

import subprocess

import pyarrow.parquet as pq
import pytest
from gated import gated_broker

from zaichik.cli.logins import keep
from zaichik.client.endpoint import endpoint


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    with gated_broker(tmp_path_factory.mktemp("gated")) as gated:
        gated.fill(
            "t",
            *(b"%d" % (number // 2) for number in range(10)),
            compaction_window=60,
            journal=2**20,
        )
        yield gated


def by_the_environment(gated, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", gated.line())
    return []


def by_a_token_beside_the_argument(gated, monkeypatch):
    monkeypatch.setenv("ZAICHIK_TOKEN", gated.token)
    return ["--connect", gated.address]


def by_the_login_that_is_kept(gated, _):
    keep(endpoint(gated.line()))
    return []


WAYS = [by_the_environment, by_a_token_beside_the_argument, by_the_login_that_is_kept]


@pytest.mark.parametrize("way", WAYS)
def test_a_topic_is_recorded_and_counted_and_no_file_has_the_secret(
    way, gated, zaichik, monkeypatch, tmp_path
):
    connect = way(gated, monkeypatch)
    recording, page, plot = (
        str(tmp_path / name) for name in ("recording", "page.html", "plot.svg")
    )
    written = []
    for words in (
        ["record", "t", "$journal/t", "--into", recording, "--json"],
        ["stats", "t", "--windows", "1m,forever", "--html", page, "--plot", plot],
        ["stats", "t", "--json"],
        ["stats", recording, "--json"],
    ):
        result = zaichik(*words, *connect)
        assert result.code == 0, result.err
        written.append(result.out + result.err)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.suffix for path in files} >= {".parquet", ".html", ".svg"}
    metadata = [str(pq.read_metadata(path).metadata) for path in files if path.suffix == ".parquet"]
    assert len(metadata) == 2
    assert "zaichik." in metadata[0]
    assert not [text for text in written + metadata if gated.token in text]
    assert not [path for path, data in files.items() if gated.token.encode() in data]


@pytest.mark.parametrize(
    "words", [["record", "t"], ["stats", "t"], ["topics"]], ids=lambda words: words[0]
)
def test_without_a_login_or_with_another_one_the_reason_is_one_sentence(
    words, gated, zaichik, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for token in ("", "zk_" + "Canary-" * 6 + "x"):
        monkeypatch.setenv("ZAICHIK_TOKEN", token)
        result = zaichik(*words, "--connect", gated.address)
        assert (result.code, result.out) == (1, "")
        assert (
            result.err == "zaichik: the broker does not accept these credentials (zaichik explain "
            "AUTH_FAILED)\n"
        )


def test_followers_have_no_secret_among_their_arguments(gated, start, monkeypatch, tmp_path):
    monkeypatch.setenv("ZAICHIK_CONNECT", gated.line())
    following = start("record", "t", "--into", str(tmp_path / "recording"), "--follow")
    while not list(tmp_path.rglob(".unfinished.parquet")):
        assert following.poll() is None
    shown = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(following.pid)], capture_output=True, text=True
    )
    assert "record" in shown.stdout
    assert gated.token not in shown.stdout


def test_a_topic_that_is_not_described_may_be_one_that_the_user_may_not_see(
    gated, zaichik, monkeypatch
):
    """ACC-2: the broker hides which of the two it is, so the sentence has both."""
    monkeypatch.setenv("ZAICHIK_CONNECT", gated.line())
    result = zaichik("describe", "bills")
    assert (result.code, result.out) == (1, "")
    assert (
        result.err == "zaichik: there is no topic 'bills', or user ana has no right to describe "
        "it; see: zaichik topics\n"
    )
