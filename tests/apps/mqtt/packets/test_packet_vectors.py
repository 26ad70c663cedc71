"""Golden vectors: what the standards say byte by byte, ours reads and writes."""

import pytest
from packet_vectors import CLIENTS, CONNECTS, PROPERTIES, SERVERS, WORDIER

from zaichik.apps.mqtt.packets import (
    NO_PROPERTIES,
    ConnAck,
    Connect,
    PacketDecoder,
    Publish,
    PublishTemplate,
    ReasonCode,
    SubAck,
    Version,
    decode_properties,
    encode,
    encode_properties,
)

MOST = 100_000


def named(vectors):
    return [
        pytest.param(*vector, id=f"{vector[0].name}-{type(vector[2]).__name__}-{number}")
        for number, vector in enumerate(vectors)
    ]


def server_of(version):
    """A server's decoder that has read CONNECT."""
    decoder = PacketDecoder(MOST)
    decoder.feed(encode(Connect(version), version))
    return decoder


@pytest.mark.parametrize(("version", "data", "packet"), named(CONNECTS))
def test_each_connect_has_its_bytes(version, data, packet):
    assert encode(packet, version).hex() == data.replace(" ", "")
    decoder = PacketDecoder(MOST)
    assert decoder.feed(bytes.fromhex(data)) == [packet]
    assert decoder.version is version


@pytest.mark.parametrize(("version", "data", "packet"), named(CLIENTS))
def test_each_packet_of_a_client_has_its_bytes(version, data, packet):
    assert encode(packet, version).hex() == data.replace(" ", "")
    assert server_of(version).feed(bytes.fromhex(data)) == [packet]


@pytest.mark.parametrize(("version", "data", "packet"), named(SERVERS))
def test_each_packet_of_a_server_has_its_bytes(version, data, packet):
    assert encode(packet, version).hex() == data.replace(" ", "")
    assert PacketDecoder(MOST, version).feed(bytes.fromhex(data)) == [packet]


@pytest.mark.parametrize(("version", "data", "packet"), named(WORDIER))
def test_what_may_be_left_out_may_be_there(version, data, packet):
    assert server_of(version).feed(bytes.fromhex(data)) == [packet]
    assert encode(packet, version).hex() != data.replace(" ", "")


@pytest.mark.parametrize(("owner", "data", "properties"), PROPERTIES)
def test_properties_have_their_bytes(owner, data, properties):
    assert encode_properties(properties, owner).hex() == data.replace(" ", "")
    found = decode_properties(bytes.fromhex(data), owner)
    assert found == properties
    # None at all are always the same object, which is compared in no time.
    assert (found is NO_PROPERTIES) == (data == "00")


@pytest.mark.parametrize(
    ("size", "length"),
    {  # table 2.4 of 3.1.1, and one less than the first of each row
        0: "03",
        124: "7f",
        125: "8001",
        16_380: "ff7f",
        16_381: "808001",
        2_097_148: "ffff7f",
        2_097_149: "80808001",
    }.items(),
)
def test_a_length_takes_as_few_bytes_as_it_can(size, length):
    packet = Publish("a", bytes(size))
    data = encode(packet, Version.MQTT_3_1_1)
    assert data.hex().startswith("30" + length + "000161")
    assert PacketDecoder(3_000_000, Version.MQTT_3_1_1).feed(data) == [packet]


def test_what_3_1_1_does_not_have_is_left_out():
    version = Version.MQTT_3_1_1
    banned = ConnAck(reason_code=ReasonCode.BANNED)
    assert encode(banned, version) == bytes.fromhex("2002 0003")
    refused = SubAck(1, (ReasonCode.QUOTA_EXCEEDED,))
    assert encode(refused, version) == bytes.fromhex("9003 0001 80")


def test_a_template_has_the_subscription_identifiers_of_each_client():
    template = PublishTemplate("a", b"x", Version.MQTT_5)
    data = template.encode(qos=1, packet_id=7, subscription_identifiers=(1, 128))
    assert data.hex() == "320c 000161 0007 05 0b01 0b8001 78".replace(" ", "")
    old = PublishTemplate("a", b"x", Version.MQTT_3_1_1)
    assert old.encode(subscription_identifiers=(1,)).hex() == "30040001 61 78".replace(" ", "")


def test_a_template_has_a_number_besides_the_topic_or_in_its_place():
    template = PublishTemplate("a", b"x", Version.MQTT_5)
    told = template.encode(alias=2)
    assert told.hex() == "3008 000161 03 230002 78".replace(" ", "")
    known = template.encode(qos=1, packet_id=7, alias=2, is_alias_known=True)
    assert known.hex() == "3209 0000 0007 03 230002 78".replace(" ", "")
    old = PublishTemplate("a", b"x", Version.MQTT_3_1_1)
    assert old.encode(alias=2, is_alias_known=True) == old.encode()
