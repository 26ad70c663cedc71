"""`zaichik disconnect`, and `zaichik describe --connections`, which tells what it takes."""

import pytest

from zaichik.client.client import Client
from zaichik.client.errors import InvalidField, Unsupported
from zaichik_protocol import Disconnect, Error, ErrorCode

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def reader(zaichik, start, topic):
    """A program that reads, and the number of its connection."""
    zaichik("publish", topic, "1")
    program = start("subscribe", topic)
    program.stdout.readline()
    return program, number_of(zaichik)


def number_of(zaichik):
    (number,) = [
        state["connection"]
        for state in zaichik("describe", "--connections", "--json").json
        if state["client"] == "zaichik subscribe"
    ]
    return number


def test_connections_are_listed(zaichik, reader):
    _, number = reader
    header, *lines = zaichik("describe", "--connections").out.splitlines()
    assert header.split() == [
        "connection",
        "peer",
        "client",
        "subscriptions",
        "requests",
        "replies",
    ]
    (line,) = [line.split() for line in lines if line.split()[0] == str(number)]
    assert line[1].startswith("127.0.0.1:")
    assert line[2:5] == ["zaichik", "subscribe", "1"]


def test_a_connection_is_ended_and_its_client_comes_back(zaichik, reader, topic):
    """CLO-4."""
    program, number = reader
    result = zaichik("disconnect", str(number))
    assert (result.code, result.out, result.err) == (0, f"connection {number}: disconnected\n", "")
    zaichik("publish", topic, "2")
    assert program.stdout.readline() == "2\n"
    assert number_of(zaichik) > number
    assert "DISCONNECTED 1" in zaichik("describe").out
    program.terminate()
    assert "an operator ended this connection" in program.stderr.read()


def test_a_connection_that_does_not_exist(zaichik):
    result = zaichik("disconnect", "987654321")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "connection 987654321 does not exist" in result.err


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "²", "18446744073709551616"])
def test_an_invalid_connection_number(zaichik, text):
    result = zaichik("disconnect", "--", text)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "is not the number of a connection; see: zaichik describe --connections" in result.err


def test_connections_of_a_topic_are_wrong_usage(zaichik, topic):
    result = zaichik("describe", "--connections", topic)
    assert (result.code, "leave TOPIC out" in result.err) == (2, True)


def test_an_older_broker(zaichik, monkeypatch):
    async def refused(self, *_):
        raise Unsupported(
            Error(1, ErrorCode.UNSUPPORTED, Disconnect.TYPE, "type", 0, "not known here")
        )

    async def no_such_kind(self):
        raise InvalidField(
            Error(1, ErrorCode.INVALID_FIELD, 9, "kind", 0, "kind is 3; it must be 0 to 2")
        )

    monkeypatch.setattr(Client, "disconnect", refused)
    monkeypatch.setattr(Client, "connections", no_such_kind)
    for words in (["disconnect", "1"], ["describe", "--connections"]):
        result = zaichik(*words)
        assert (result.code, "is too old to " in result.err) == (1, True)
