"""What the standards forbid and a decoder can see is refused, with the reason code that fits."""

import pytest
from packet_damages import BAD_CONNECTS, BAD_OF_CLIENTS, BAD_OF_SERVERS, V3, V5

from zaichik.apps.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Malformed,
    PacketDecoder,
    PacketTooLarge,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    Publish,
    PublishTemplate,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    Subscription,
    Unencodable,
    UnsubAck,
    Unsubscribe,
    UnsupportedVersion,
    Will,
    decode_properties,
    encode,
    encoder,
    hot,
    table,
)

MOST = 1000
PING = encode(PingReq(), V3)


def server(version, most=MOST):
    """A server's decoder that has read CONNECT."""
    decoder = PacketDecoder(most)
    decoder.feed(encode(Connect(version), version))
    return decoder


def refused(decoder, data):
    with pytest.raises(Malformed) as caught:
        decoder.feed(bytes.fromhex(data))
    assert decoder.buffered == 0
    return caught.value


def named(damages):
    return [pytest.param(*damage[1:], id=damage[0]) for damage in damages]


@pytest.mark.parametrize(("data", "code"), named(BAD_CONNECTS))
def test_a_bad_connect_is_refused(data, code):
    assert refused(PacketDecoder(MOST), data).reason_code is code


@pytest.mark.parametrize(("version", "data", "code"), named(BAD_OF_CLIENTS))
def test_a_bad_packet_of_a_client_is_refused(version, data, code):
    assert refused(server(version), data).reason_code is code


@pytest.mark.parametrize(("version", "data", "code"), named(BAD_OF_SERVERS))
def test_a_bad_packet_of_a_server_is_refused(version, data, code):
    assert refused(PacketDecoder(MOST, version), data).reason_code is code


# -- the answer ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "answer"),
    {
        "10 0e 0006 4d5149736470 03 02 0000 0000": "2002 0001",
        "10 0c 0004 4d515454 03 02 0000 0000": "2002 0001",
        "10 0d 0004 4d515454 06 02 0000 00 0000": "2003 00 84 00",
    }.items(),
)
def test_a_client_of_another_version_is_told_so_in_its_own(data, answer):
    decoder = PacketDecoder(MOST)
    error = refused(decoder, data)
    assert isinstance(error, UnsupportedVersion)
    assert error.answer == bytes.fromhex(answer)
    assert decoder.version is None


@pytest.mark.parametrize(
    ("data", "version"),
    {
        "10 0c 0004 4d515454 04 03 0000 0000": V3,
        "10 0d 0004 4d515454 05 03 0000 00 0000": V5,
    }.items(),
)
def test_of_a_bad_connect_the_version_is_known(data, version):
    """It must be answered in that one."""
    decoder = PacketDecoder(MOST)
    assert refused(decoder, data).packet_type is PacketType.CONNECT
    assert decoder.version is version


def test_of_a_bad_packet_the_type_is_known():
    assert refused(server(V3), "40 02 0000").packet_type is PacketType.PUBACK


@pytest.mark.parametrize("data", ["d0", "10", "00"])
def test_what_may_not_come_has_no_type(data):
    """A second CONNECT must not be answered like the first."""
    assert refused(server(V3), data).packet_type is None


def test_packets_before_a_bad_one_come_with_it():
    decoder = server(V3)
    error = refused(decoder, PING.hex() + "d000" + PING.hex())
    assert error.before == [PingReq()]


def test_after_an_error_there_is_nothing_else():
    decoder = server(V3)
    error = refused(decoder, PING.hex() + "d000")
    with pytest.raises(Malformed) as again:
        decoder.feed(PING)
    assert again.value is error
    assert error.before == []
    assert decoder.buffered == 0


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [20, 127, 128, 129, 130, 131, 1000])
def test_a_packet_is_refused_from_one_byte_too_many_on(most):
    head = len(encode(Publish("a", bytes(most)), V3)) - most
    fits = encode(Publish("a", bytes(most - head)), V3)
    assert len(fits) <= most
    assert len(server(V3, most).feed(fits)) == 1
    for data in (
        encode(Publish("a", bytes(most - head + 1)), V3),
        encode(Publish("a", bytes(most)), V3),
    ):
        if len(data) > most:
            with pytest.raises(PacketTooLarge) as caught:
                server(V3, most).feed(data)
            assert caught.value.reason_code is ReasonCode.PACKET_TOO_LARGE


def test_a_packet_that_is_too_large_is_refused_when_its_length_is_there():
    decoder = server(V3)
    for byte in (0x30, 0xFF, 0xFF, 0xFF):
        assert decoder.feed(bytes([byte])) == []
    with pytest.raises(PacketTooLarge, match="268,435,460 bytes; at most 1,000"):
        decoder.feed(b"\x7f")
    assert decoder.buffered == 0


def test_a_packet_that_may_not_come_is_refused_at_its_first_byte():
    with pytest.raises(Malformed):
        PacketDecoder(MOST).feed(b"\x30")
    with pytest.raises(Malformed):
        server(V3).feed(b"\x10")


def test_a_packet_in_many_pieces_is_looked_at_once(monkeypatch):
    decoder = server(V3, 100_000)
    data = encode(Publish("a", bytes(50_000)), V3)
    looks = []
    read = PacketDecoder._read
    monkeypatch.setattr(PacketDecoder, "_read", lambda *it: looks.append(1) or read(*it))
    for at in range(0, len(data) - 10, 10):
        assert decoder.feed(data[at : at + 10]) == []
        assert decoder.buffered == at + 10
    assert len(looks) == 1
    assert len(decoder.feed(data[decoder.buffered :])) == 1
    assert len(looks) == 2


@pytest.mark.parametrize("count", [1, 65_536 // 7, 65_536 // 7 + 1])
def test_properties_have_a_bound(count):
    """A megabyte of them would hold up all other clients."""
    many = tuple(("a", "b") for _ in range(count))
    packet = Publish("a", properties=Properties(user_properties=many))
    data = encode(packet, V5)
    decoder = server(V5, 1_000_000)
    if count * 7 <= 65_536:
        assert decoder.feed(data) == [packet]
    else:
        error = refused(decoder, data.hex())
        assert error.reason_code is ReasonCode.QUOTA_EXCEEDED
        assert "at most 65,536" in error.text


def test_packets_without_a_payload_have_a_bound():
    """It is that of CONNECT and PUBLISH, if that one is smaller."""
    decoder = server(V3, 1_000_000)
    fits = Subscribe(1, (Subscription("a" * (65_536 - 4 - 5)),))
    assert len(encode(fits, V3)) == 65_536
    assert decoder.feed(encode(fits, V3)) == [fits]
    with pytest.raises(PacketTooLarge, match="at most 65,536"):
        decoder.feed(encode(Subscribe(1, (Subscription("a" * (65_536 - 4 - 4)),)), V3))
    with pytest.raises(PacketTooLarge, match="at most 1,000"):
        server(V3).feed(encode(fits, V3))
    with pytest.raises(PacketTooLarge, match="at most 1,000"):
        server(V3).feed(encode(Unsubscribe(1, ("a" * 1000,)), V3))


# -- what cannot be written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "version", "reason"),
    [
        (Auth(), V3, "AUTH does not exist"),
        (Connect(V5), V3, "in version"),
        (Connect(V3, "a", will=Will("w", b"", qos=3)), V3, "a will with QoS 3"),
        (Connect(V3, "a" * 65_536), V3, "65,536 bytes"),
        (Connect(V3, "a\0"), V3, "U+0000"),
        (Connect(V3, "\ud800"), V3, "surrogate"),
        (Connect(V3, keep_alive=65_536), V3, "keep_alive: 65536"),
        (ConnAck(True, ReasonCode.BANNED), V5, "a refusal with a session"),
        (ConnAck(reason_code=ReasonCode.GRANTED_QOS_1), V5, "no reason code of CONNACK"),
        (ConnAck(properties=Properties(topic_alias=1)), V5, "CONNACK may not have the property"),
        (ConnAck(properties=Properties(maximum_qos=2)), V5, "2 is no 0 or 1"),
        (PubAck(0), V3, "0 is no packet identifier"),
        (PubRel(65_536), V5, "65536 is no packet identifier"),
        (Publish("a", qos=1), V5, "0 is no packet identifier"),
        (Publish("a", qos=1, packet_id=65_536), V3, "65536 is no packet identifier"),
        (Publish("a", dup=True), V5, "DUP with QoS 0"),
        (Publish("\0"), V5, "U+0000"),
        (Publish("\udfff"), V3, "surrogate"),
        (Publish(""), V3, "neither a topic nor an alias"),
        (Publish("a", properties=Properties(response_topic="#")), V5, "a topic with a wildcard"),
        (Subscribe(1, ()), V3, "without filters"),
        (Subscribe(1, (Subscription("a", 3),)), V3, "QoS 3"),
        (Subscribe(1, (Subscription("a", retain_handling=3),)), V5, "retain handling 3"),
        (
            Subscribe(1, (Subscription("a"),), Properties(subscription_identifiers=(1, 2))),
            V5,
            "only once",
        ),
        (SubAck(1, ()), V5, "without reason codes"),
        (UnsubAck(1), V5, "without reason codes"),
        (Unsubscribe(1, ()), V3, "without filters"),
        (
            Publish("a", properties=Properties(subscription_identifiers=(0,))),
            V5,
            "0 is no positive",
        ),
        (
            Disconnect(properties=Properties(reason_string="a" * 65_536)),
            V5,
            "65,536 bytes",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_what_cannot_be_written_says_why(packet, version, reason):
    with pytest.raises(Unencodable, match=reason.replace("+", r"\+")):
        encode(packet, version)


def test_a_packet_of_more_than_a_length_can_say_is_not_written(monkeypatch):
    packet = Publish("a", bytes(100))
    size = 2 + 1 + 1 + 100
    for most in (size, size - 1):
        for module in (hot, table, encoder):
            monkeypatch.setattr(module, "LARGEST_VARINT", most)
        for write in (encode, table.encode_by_table, template_alone):
            if most == size:
                assert len(write(packet, V5)) == 2 + size
            else:
                with pytest.raises(Unencodable, match="PUBLISH of 104 bytes"):
                    write(packet, V5)


def template_alone(packet, version):
    """Encode by a template, for one client."""
    template = PublishTemplate(packet.topic, packet.payload, version, packet.properties)
    return template.encode()


@pytest.mark.parametrize(
    ("flags", "reason"),
    {
        (("qos", 1),): "0 is no packet identifier",
        (("qos", 1), ("packet_id", 65_536)): "65536 is no packet identifier",
        (("qos", 3), ("packet_id", 1)): "QoS 3",
        (("dup", True),): "DUP with QoS 0",
        (("subscription_identifiers", (0,)),): "0 is no positive",
    }.items(),
)
def test_a_template_refuses_what_encode_refuses(flags, reason):
    with pytest.raises(Unencodable, match=reason):
        PublishTemplate("a", b"", V5).encode(**dict(flags))
    with pytest.raises(Unencodable, match="neither a topic nor an alias"):
        PublishTemplate("", b"", V5)


def test_bytes_after_properties_are_refused():
    with pytest.raises(Malformed, match="after the properties"):
        decode_properties(b"\0\0")


def test_a_ping_is_answered_in_either_version():
    for version in (V3, V5):
        assert PacketDecoder(MOST, version).feed(encode(PingResp(), version)) == [PingResp()]
