"""Kafka's clients, made with what a file of settings has: also with wrong ones."""

import threading

import pytest
from confluent_kafka import Producer

from zaichik.apps.replication import committed, destination
from zaichik.apps.replication.committed import Committed
from zaichik.apps.replication.destination import Destination
from zaichik.apps.replication.errors import CannotReplicate, Stopped
from zaichik.apps.replication.servers import Servers, Waiting

LOGIN = {"sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "geheim"}


@pytest.mark.parametrize("kind", ["consumer", "admin", "producer"])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"nonsense": "1"}, 'No such configuration property: "nonsense"'),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "NOPE"}, "Unsupported SASL"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such"}, "ssl.ca.location failed"),
        ({"socket.timeout.ms": "soon"}, "Invalid value for"),
    ],
)
def test_settings_that_kafkas_client_cannot_work_with_are_a_sentence(kind, options, problem):
    servers = Servers("127.0.0.1:1", LOGIN | options)
    arguments = [{}] if kind == "producer" else []
    with pytest.raises(CannotReplicate, match=f"settings in --kafka-config: .*{problem}") as error:
        getattr(servers, kind)(*arguments)
    assert "geheim" not in str(error.value)


def test_tls_and_a_login_reach_kafkas_client():
    Servers("127.0.0.1:1", LOGIN | {"security.protocol": "SASL_SSL"}).consumer().close()


class Patience(Waiting):
    """Waits until the log says it."""

    def __init__(self, caplog):
        super().__init__(threading.Event())
        self._caplog = caplog

    def unanswered(self, reason):
        if "Kafka does not let us in" in self._caplog.text:
            self.stop.set()


def bridged(servers, waiting):
    Destination(servers, "orders", waiting, max_message=1).topic_id()


def restored(servers, waiting):
    Committed(servers, "orders", waiting)


@pytest.mark.parametrize("command", [bridged, restored])
def test_a_kafka_that_does_not_let_us_in_is_not_only_away(command, caplog, monkeypatch):
    for module in (committed, destination):
        monkeypatch.setattr(module, "ASK_SECONDS", 0.5)
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0})
    (one,) = owner.list_topics(timeout=30).brokers.values()
    servers = Servers(f"{one.host}:{one.port}", LOGIN | {"security.protocol": "SASL_PLAINTEXT"})
    waiting = Patience(caplog)
    with pytest.raises(Stopped):
        command(servers, waiting)
    told = [line for line in caplog.messages if "does not let us in" in line]
    assert len(told) == 1
    assert "look at --kafka-config" in told[0]
    assert "geheim" not in caplog.text
