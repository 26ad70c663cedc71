"""Where Kafka is: what is an address, and what is refused with a sentence."""

import pytest

from zaichik.apps.replication.address import KafkaAddress, NotAKafkaAddress, kafka_address


@pytest.mark.parametrize(
    ("text", "servers", "topic"),
    [
        ("kafka://one:1/orders", "one:1", "orders"),
        ("kafka://one:1,two:2/a.b-c_D", "one:1,two:2", "a.b-c_D"),
        ("kafka://one,two/orders", "one:9092,two:9092", "orders"),
        ("kafka://[::1]:7/orders", "[::1]:7", "orders"),
        ("kafka://127.0.0.1, two:65535/x", "127.0.0.1:9092,two:65535", "x"),
    ],
)
def test_an_address(text, servers, topic):
    found = kafka_address(text)
    assert found == KafkaAddress(servers, topic)
    assert kafka_address(str(found)) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("orders", "is not an address of Kafka's: kafka://HOST:PORT"),
        ("http://one/orders", "is not an address of Kafka's"),
        ("kafka://one", "does not say which topic"),
        ("kafka://one/", "does not say which topic"),
        ("kafka:///orders", "'' in 'kafka:///orders' is not HOST:PORT"),
        ("kafka://one,,two/orders", "is not HOST:PORT"),
        ("kafka://one:x/orders", "'one:x' in .* is not HOST:PORT"),
        ("kafka://one:0/orders", "port 0 .* is not from 1 to 65535"),
        ("kafka://one:65536/orders", "port 65536"),
        ("kafka://one two/orders", "is not HOST:PORT"),
        ("kafka://me:secret@one/orders", "--kafka-config"),
        ("kafka://one/a/b", "'a/b' cannot be a topic of Kafka"),
        ("kafka://one/..", "cannot be a topic"),
        ("kafka://one/ä", "cannot be a topic"),
        ("kafka://one/" + 250 * "a", "cannot be a topic"),
    ],
)
def test_what_is_no_address(text, problem):
    with pytest.raises(NotAKafkaAddress, match=problem) as caught:
        kafka_address(text)
    assert "secret" not in str(caught.value)
