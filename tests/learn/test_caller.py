"""A client for experiments, and a network that loses answers, against the project's own broker."""

import socket
import threading
from contextlib import ExitStack

import pytest
from embedded import embedded_broker

from zaichik.learn import wire
from zaichik.learn.caller import Caller, Silence
from zaichik.learn.layouts import TABLE, TABLES
from zaichik.learn.network import between


@pytest.fixture
def port():
    with embedded_broker() as broker:
        yield broker.port


@pytest.fixture
def caller():
    """Makes clients, and closes them in the end."""
    with ExitStack() as stack:
        yield lambda port: Caller(
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        )


def test_replies_find_their_questions_and_events_wait_for_who_asks(port, caller):
    client = caller(port)
    number = client.subscribe("t")
    assert client.publish("t", b"one", b"two", key=b"k")["stored"] == 2
    assert client.ask("Ping", value=7)["value"] == 7
    frame = client.frame()
    assert (frame.name, frame.id) == ("Messages", number)
    assert [(message.key, message.payload) for message in frame.messages] == [
        (b"k", b"one"),
        (b"k", b"two"),
    ]


def test_a_client_is_granted_the_features_that_it_asks_for(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        client = Caller(connection, TABLES)
        client.ask("CreateTopic", topic="t", settings={TABLE: 1})
        assert client.ask("Subscribe", topic="t").name == "Subscribed"


def test_silence_says_how_long_and_an_end_that_it_is_one(port, caller):
    client = caller(port)
    with pytest.raises(Silence, match=r"nothing for 0\.05 s"):
        client.frame(0.05)
    client.send("Close")
    assert client.frame().name == "Closed"
    with pytest.raises(Silence, match="the broker has ended the connection"):
        client.frame()


def test_an_answer_to_another_question_is_not_taken(caller):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with listener.accept()[0] as client:
                client.recv(4096)
                client.sendall(wire.encode("Pong", frame_id=99, value=1))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Silence, match="a reply to 99 came where one to 1 was due"):
            caller(listener.getsockname()[1])
        thread.join()


def test_a_network_loses_what_it_is_told_to_once(port, caller):
    with between(port, lose="Published") as bad:
        client = caller(bad)
        client.send("Publish", topic="t", batch=[(b"", b"x")])
        with pytest.raises(Silence, match="has ended"):
            client.frame()
        assert caller(bad).publish("t", b"x")["first_offset"] == 1, "the first one had arrived"
