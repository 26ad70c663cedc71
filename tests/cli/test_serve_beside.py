"""`zaichik serve --mqtt --kafka --grpc`: front ends beside the broker, in programs of their own."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from zaichik import blocking
from zaichik.apps.mqtt.packets import Connect, Version, Will, encode
from zaichik.cli import main, serve_beside

FRONT_ENDS = {"MQTT", "Kafka's protocol", "gRPC"}
WORDS = ("serve", "--port", "0", "--json", "--log-format", "json", "--log-level", "info")


def events(process, name):
    """Yields what the log says of an event, for as long as it is read."""
    for line in process.stderr:
        said = json.loads(line)
        if said["event"] == name:
            yield said


def children(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def test_front_ends_are_served_beside_the_broker_and_end_with_it(start):
    process = start(*WORDS, "--mqtt", "0", "--kafka", "0", "--grpc", "0")
    ready = events(process, "front_end_ready")
    assert {next(ready)["front_end"] for _ in FRONT_ENDS} == FRONT_ENDS
    assert len(children(process)) == len(FRONT_ENDS)
    process.send_signal(signal.SIGKILL)
    process.stderr.read()  # which ends when all programs have ended


def test_front_ends_end_before_a_broker_that_is_stopped_in_order(start, tmp_path):
    process = start(*WORDS, "--data", str(tmp_path), "--mqtt", "0")
    port = next(events(process, "front_end_ready"))["address"].rpartition(":")[2]
    with socket.create_connection(("127.0.0.1", int(port))) as device:
        will = Will("device/state", b"gone", qos=1)
        device.sendall(encode(Connect(Version.MQTT_5, "device", will=will), Version.MQTT_5))
        assert device.recv(1)
        process.terminate()
        assert process.wait() == 0
    # Without a front end beside it: nobody else can have published the will.
    again = start(*WORDS, "--data", str(tmp_path))
    with (
        blocking.connect(port=json.loads(again.stdout.readline())["port"]) as client,
        client.subscribe("mqtt", until=client.topic("mqtt")["next_offset"]) as messages,
    ):
        assert [message.payload for message in messages] == [b"gone"]


def test_a_front_end_that_is_killed_is_told_and_the_broker_goes_on(start):
    process = start(*WORDS, "--mqtt", "0")
    next(events(process, "front_end_ready"))
    (child,) = children(process)
    os.kill(int(child), signal.SIGKILL)
    ended = next(events(process, "front_end_ended"))
    assert (ended["front_end"], ended["code"]) == ("MQTT", -signal.SIGKILL)
    assert process.poll() is None
    assert children(process) == []


def test_why_a_front_end_does_not_begin_is_in_the_log_too(start):
    process = start(*WORDS, "--mqtt", "0")
    ready = next(events(process, "front_end_ready"))
    taken = ready["address"].rpartition(":")[2]
    other = start(*WORDS, "--mqtt", taken)
    failed = next(events(other, "front_end_failed"))
    assert f"port {taken} at 127.0.0.1 is in use" in failed["reason"]
    assert next(events(other, "front_end_ended"))["code"] == main.FAILED


def test_a_front_end_may_have_options_of_its_own(start):
    process = start(*WORDS, "--beside", "mqtt --port 0 --websocket 0 --tree 'my orders'")
    ready = events(process, "front_end_ready")
    assert {next(ready)["front_end"] for _ in range(2)} == {"MQTT", "MQTT over WebSocket"}
    (child,) = children(process)
    words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
    assert "my orders" in words


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "'' cannot run beside a broker; web, mqtt, kafka, grpc can"),
        ("serve --port 1", "'serve' cannot run beside a broker"),
        ("mqtt 'a", "is no command line: No closing quotation"),
        ("mqtt --connect other:1", "leave out --connect: `zaichik serve` tells it"),
        ("mqtt --json", "leave out --json"),
        ("mqtt --websocket many", "'mqtt --websocket many': argument --websocket"),
        ("web --sasl", "'web --sasl': unrecognized arguments: --sasl"),
    ],
)
def test_a_line_that_is_no_front_end_is_refused_in_a_sentence(line, sentence, capsys):
    with pytest.raises(SystemExit, match=str(main.WRONG_USAGE)):
        main.main(["serve", "--port", "0", "--beside", line])
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("access", ["--access", "--init-access"])
@pytest.mark.parametrize("program", [it for it in serve_beside.PROGRAMS if it.needs_login])
@pytest.mark.parametrize("option", [lambda name: [f"--{name}"], lambda name: ["--beside", name]])
def test_beside_a_broker_with_users_a_front_end_needs_a_login(
    access, program, option, tmp_path, capsys
):
    words = ["serve", access, str(tmp_path / "access"), *option(program.command)]
    with pytest.raises(SystemExit, match=str(main.WRONG_USAGE)):
        main.main(words)
    assert f"start `zaichik {program.command}` by itself" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
