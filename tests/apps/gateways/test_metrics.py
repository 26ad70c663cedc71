"""What a gateway counts, as Prometheus reads it."""

import socket
import struct
import threading
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families

from zaichik.apps.gateways.metrics import (
    FAMILIES,
    HOST,
    MISSED,
    MOST_REQUESTS,
    Metrics,
    _Handler,
    served,
)
from zaichik.apps.gateways.traffic import Connections, Figures

GUARD = 30


@pytest.fixture
def figures():
    """Those of a gateway with one open connection, of two."""
    connections = Connections()
    with connections.counted() as ended:
        ended.received_bytes = 100
        ended.refused_messages = 1
    with connections.counted() as traffic:
        traffic.received_bytes = 23
        traffic.sent_bytes = 45
        traffic.received_messages = 6
        traffic.sent_messages = 7
        yield Figures(
            connections,
            {"lagged": 8, "expired": 0},
            turned_away=4,
            sessions=9,
            unacknowledged=10,
        )


@pytest.fixture
def port(figures):
    with served(Metrics("mqtt", lambda: figures), 0) as port:
        yield port


def asked(port, path="/metrics", method="GET", **headers):
    """The status of the answer, and its text."""
    connection = HTTPConnection(HOST, port, timeout=GUARD)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def samples(text):
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_metrics_are_there_under_the_names_of_the_documents(port):
    status, text = asked(port)
    assert status == 200
    of_mqtt = {name: value for (name, labels), value in samples(text).items() if len(labels) == 1}
    assert of_mqtt == {
        "zaichik_gateway_connections": 1,
        "zaichik_gateway_accepted_connections_total": 2,
        "zaichik_gateway_turned_away_connections_total": 4,
        "zaichik_gateway_received_bytes_total": 123,
        "zaichik_gateway_sent_bytes_total": 45,
        "zaichik_gateway_received_messages_total": 6,
        "zaichik_gateway_refused_messages_total": 1,
        "zaichik_gateway_sent_messages_total": 7,
        "zaichik_gateway_sessions": 9,
        "zaichik_gateway_unacknowledged_messages": 10,
    }
    assert of_mqtt.keys() == {family.full_name for family in FAMILIES}
    assert samples(text)[MISSED.full_name, ("mqtt", "lagged")] == 8
    assert samples(text)[MISSED.full_name, ("mqtt", "expired")] == 0


def test_a_scrape_reads_what_is_counted_by_then(port, figures):
    asked(port)
    figures.connections.accepted += 1
    _, text = asked(port)
    assert samples(text)["zaichik_gateway_accepted_connections_total", ("mqtt",)] == 3


def test_what_a_gateway_does_not_know_has_no_value():
    with served(Metrics("grpc", lambda: Figures(Connections(), are_calls=True)), 0) as port:
        _, text = asked(port)
    names = {name for name, _ in samples(text)}
    assert "zaichik_gateway_connections" in names
    assert not {name for name in names if "bytes" in name or "sessions" in name}


def test_a_page_that_calls_itself_by_another_name_gets_nothing(port):
    assert asked(port, Host="evil.example")[0] == 421
    assert asked(port, Host=f"evil.example:{port}")[0] == 421
    assert asked(port, Host=f"localhost:{port}")[0] == 200


def test_there_is_nothing_else(port):
    assert asked(port, "/")[0] == 404
    assert asked(port, method="POST")[0] == 405


def test_programs_that_send_nothing_do_not_hold_up_a_scrape(port):
    silent = [socket.create_connection((HOST, port)) for _ in range(MOST_REQUESTS - 1)]
    assert asked(port)[0] == 200
    for one in silent:
        one.close()


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nHo"])
def test_a_program_that_goes_silent_or_leaves_is_no_bug(port, monkeypatch, capfd, caplog, sent):
    with (
        socket.create_connection((HOST, port), timeout=GUARD) as leaving,
        monkeypatch.context() as impatient,
    ):
        impatient.setattr(_Handler, "timeout", 0.01)
        with socket.create_connection((HOST, port), timeout=GUARD) as silent:
            silent.sendall(sent)
            assert silent.recv(1) == b""
        # Closed so, it is reset.
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert asked(port)[0] == 200
    assert (capfd.readouterr().err, caplog.records) == ("", [])


def test_a_bug_is_answered_and_is_in_the_log(capfd, caplog):
    with served(Metrics("mqtt", lambda: 1 // 0), 0) as port:
        assert asked(port) == (500, "the gateway has a bug; its log says more\n")
    assert [record.message for record in caplog.records] == ["a bug in answering a scrape"]
    assert caplog.records[0].exc_info[0] is ZeroDivisionError
    assert capfd.readouterr().err == ""


def test_nothing_is_left_when_it_ends(figures):
    with served(Metrics("mqtt", lambda: figures), 0) as port:
        silent = socket.create_connection((HOST, port))
        asked(port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))
    silent.close()
    assert not [it for it in threading.enumerate() if it.name == "metrics" and it.is_alive()]


def test_a_port_in_use_is_an_error(port, figures):
    with pytest.raises(OSError, match="in use"), served(Metrics("mqtt", lambda: figures), port):
        pass
