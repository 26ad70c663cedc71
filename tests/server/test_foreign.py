import pytest

from zaichik.server.foreign import FIRST_BYTES, recognised
from zaichik_protocol import Hello, encode

FIRST = {
    "HTTP": [
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.1",
        b"POST",
        b"PRI * HTTP/2.0\r\n",
        b"OPTIONS * HTTP/1",
    ],
    "TLS": [bytes.fromhex("16030100f8010000f40303"), bytes.fromhex("160301")],
    "SSH": [b"SSH-2.0-OpenSSH_9.2"],
    "Redis": [b"*1\r\n$4\r\nPING\r\n", b"*12\r\n$4", b"*12\r", b"PING\r\n", b"INFO\r\n"],
    "MQTT": [
        bytes.fromhex("101600044d5154540402003c"),
        bytes.fromhex("10ff0100064d51497364700302"),
    ],
    "AMQP": [b"AMQP\x00\x00\x09\x01"],
}


@pytest.mark.parametrize(
    ("protocol", "first"), [(name, first) for name, all_of in FIRST.items() for first in all_of]
)
def test_a_protocol_is_known_by_its_first_bytes(protocol, first):
    assert recognised(first[:FIRST_BYTES]) == protocol


@pytest.mark.parametrize(
    "first", [b"", b"\x00", b"GETTING", b"*x", bytes(16), b"PINGPONG", encode(Hello(1))[:16]]
)
def test_other_bytes_are_not_taken_for_a_known_protocol(first):
    assert recognised(first) == ""
