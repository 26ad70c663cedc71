"""`zaichik serve --record`: a process that is recorded, however it ends."""

import json
import socket

import pytest

from zaichik.apps.flight.format import Recording
from zaichik.base.counted import counted
from zaichik.cli import serve_record
from zaichik.core.settings import BrokerSettings

PAYLOAD = "card 4000 1234"


def served(start, *words):
    process = start("serve", "0", "--json", *words)
    return process, f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"


@pytest.mark.anyio
async def test_a_start_that_fails_lets_the_folder_and_the_address_go(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    where = "127.0.0.1", 0, BrokerSettings(), None, tmp_path
    with monkeypatch.context() as patch:
        patch.setattr(serve_record, "RecordedBroker", fail)
        with pytest.raises(ZeroDivisionError):
            await serve_record.listening(*where)
    server = await serve_record.listening(*where)
    await server.aclose()


def test_a_process_is_recorded_and_replayed(start, zaichik, tmp_path):
    file = tmp_path / "flight"
    process, address = served(start, "--record", str(file), "--retention", "1h")
    zaichik("publish", "t", PAYLOAD, "--connect", address)
    assert PAYLOAD in zaichik("subscribe", "t", "--count", "1", "--connect", address).out
    zaichik("describe", "--connect", address)
    process.terminate()
    assert process.wait() == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert PAYLOAD.encode() in file.read_bytes()
    result = zaichik("replay", str(file))
    assert result.code == 0
    assert "the same bytes were sent on every connection" in result.out
    assert "not whole" not in result.out


def test_a_process_with_durable_topics_is_recorded_and_replayed_without_them(
    start, zaichik, tmp_path
):
    """Once as it makes them, and once as it finds them."""
    file, data = tmp_path / "flight", tmp_path / "topics"
    for earlier in (0, 1):
        process, address = served(start, "--record", str(file), "--data", str(data), "--durable")
        zaichik("publish", "t", PAYLOAD, "--connect", address)
        words = "--name", "me", "--from", "earliest", "--count", "1", "--connect", address
        assert PAYLOAD in zaichik("subscribe", "t", *words).out
        result = zaichik(
            "subscribe",
            "t",
            "--from",
            "earliest",
            "--count",
            str(1 + earlier),
            "--connect",
            address,
        )
        assert result.out.count(PAYLOAD) == 1 + earlier
        process.terminate()
        assert process.wait() == 0
    data.rename(tmp_path / "gone")
    for name, messages in ((f"{file}.1", 1), (file, 2)):
        result = zaichik("replay", str(name))
        assert result.code == 0
        assert f"1 topic and {counted(messages, 'message')}\n" in result.out
        assert "the same bytes were sent on every connection" in result.out
    steps = zaichik("replay", str(file), "--step").out
    assert "log 1  is that of topic 't': its head is 0, its end 1" in steps
    assert "log 1  synced 1 " in steps
    assert "takes output; the disk is asked for it" in steps
    result = zaichik("replay", str(file), "--explain", "t", "--offset", "0")
    assert (result.code, "it is on the disk, and can be read" in result.out) == (0, True)


def test_a_folder_that_cannot_be_used_is_one_sentence_and_leaves_earlier_recordings(
    zaichik, tmp_path
):
    file, data = tmp_path / "flight", tmp_path / "data"
    data.write_bytes(b"no folder")
    result = zaichik("serve", "0", "--record", str(file), "--data", str(data))
    assert (result.code, len(result.err.splitlines())) == (73, 1)
    assert "cannot be used for durable topics" in result.err
    assert not file.exists()


def test_a_process_that_is_killed_leaves_what_was_written(start, zaichik, tmp_path, until):
    file = tmp_path / "flight"
    process, address = served(start, "--record", str(file))
    zaichik("publish", "t", "word", "--connect", address)
    until(lambda: b"disconnected" in file.read_bytes() or b"CLOSED" in file.read_bytes(), process)
    process.kill()
    process.wait()
    result = zaichik("replay", str(file))
    assert result.code == 0
    assert "the recording is not whole: it has no end" in result.out


def test_payloads_can_be_masked(start, zaichik, tmp_path):
    file = tmp_path / "flight"
    process, address = served(start, "--record", str(file), "--record-masked")
    zaichik("publish", "t", PAYLOAD, "--connect", address)
    process.terminate()
    assert process.wait() == 0
    assert PAYLOAD.encode() not in file.read_bytes()
    result = zaichik("replay", str(file))
    assert result.code == 0
    assert "payloads masked" in result.out


def test_no_token_is_in_the_recording(start, zaichik, tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    file = tmp_path / "flight"
    process = start(
        "serve", "0", "--json", "--record", str(file), "--init-access", str(tmp_path / "access")
    )
    line = json.loads(process.stdout.readline())["logins"]["class"]
    monkeypatch.setenv("ZAICHIK_CONNECT", line)
    assert zaichik("publish", "t", "word").code == 0
    process.terminate()
    assert process.wait() == 0
    data, token = file.read_bytes(), line.partition("zk_")[2].partition("@")[0].encode()
    assert len(token) > 40
    assert b'["class"]' in data
    assert token[:15] not in data
    assert token[-15:] not in data
    assert token.hex().encode() not in data
    assert zaichik("replay", str(file)).code == 0


def test_the_limit_ends_the_recording_and_not_the_broker(start, zaichik, tmp_path):
    file = tmp_path / "flight"
    process, address = served(start, "--record", str(file), "--record-limit", "20kB")
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))):
        zaichik("publish", "t", "x" * 500_000, "--connect", address)
    assert zaichik("publish", "t", "word", "--connect", address).code == 0
    process.terminate()
    assert process.wait() == 0
    assert file.stat().st_size <= 20_000
    assert "the recording ends here: it has reached its limit" in process.stderr.read()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--record-masked"], "--record-masked needs --record FILE"),
        (["--record-limit", "5MB"], "--record-limit needs --record FILE"),
    ],
)
def test_options_that_do_not_fit_together(zaichik, words, sentence):
    result = zaichik("serve", "0", *words)
    assert result.code == 2
    assert sentence in result.err


def test_a_file_that_cannot_be_made_is_one_sentence(zaichik, tmp_path):
    result = zaichik("serve", "0", "--record", str(tmp_path / "none" / "flight"))
    assert result.code == 1
    assert (
        result.err
        == f"zaichik: cannot record to {tmp_path}/none/flight: No such file or directory\n"
    )


def test_a_port_that_is_in_use_leaves_earlier_recordings_where_they_are(zaichik, tmp_path):
    file = tmp_path / "flight"
    file.write_bytes(b"earlier")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert zaichik("serve", str(taken.getsockname()[1]), "--record", str(file)).code == 1
    assert file.read_bytes() == b"earlier"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_limit_of_nothing_is_not_the_default(start, tmp_path):
    process, _ = served(start, "--record", str(tmp_path / "flight"), "--record-limit", "0")
    process.terminate()
    assert process.wait() == 0
    assert (tmp_path / "flight").read_bytes() == b""


def test_a_recording_tells_the_limits_that_were_set(start, tmp_path):
    file = tmp_path / "flight"
    process, _ = served(
        start, "--record", str(file), "--limit", "max_topics=7", "--retention", "2s"
    )
    process.terminate()
    assert process.wait() == 0
    settings = json.loads(Recording(file.read_bytes()).about)["settings"]
    assert (settings["max_topics"], settings["topic"]["retention_ttl_ms"]) == (7, 2000)
