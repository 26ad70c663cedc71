"""The packets that come by the thousand, by hand: PUBLISH, what acknowledges it, and pings.

They are read and written here as if nothing had been declared, several times as fast as from their
declaration. This file knows the usual case only. Everything else, be it wrong, rare or too long, is
left to the table, which finds out what it is and says so. So no error has its text twice, and tests
can hold the two equal for any bytes.
"""

from __future__ import annotations

from typing import Final

from zaichik.apps.mqtt.packets.codes import PacketType, Version
from zaichik.apps.mqtt.packets.declared import (
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
)
from zaichik.apps.mqtt.packets.errors import Malformed, Unencodable
from zaichik.apps.mqtt.packets.properties import NO_PROPERTIES, PropertiesOf
from zaichik.apps.mqtt.packets.table import encode_by_table
from zaichik.apps.mqtt.packets.wire import LARGEST_VARINT, Body, varint

# The first bytes of a PUBLISH that make sense, with its QoS, retain and DUP. With QoS 3, or DUP and
# QoS 0, the table says what is wrong.
FLAGS: Final = {
    0x30: (0, False, False),
    0x31: (0, True, False),
    0x32: (1, False, False),
    0x33: (1, True, False),
    0x34: (2, False, False),
    0x35: (2, True, False),
    0x3A: (1, False, True),
    0x3B: (1, True, True),
    0x3C: (2, False, True),
    0x3D: (2, True, True),
}
FIRST_BYTES: Final = {flags: bytes([first]) for first, flags in FLAGS.items()}
ACKNOWLEDGEMENTS: Final[dict[int, type[PubAck | PubRec | PubRel | PubComp]]] = {
    0x40: PubAck,
    0x50: PubRec,
    0x62: PubRel,
    0x70: PubComp,
}
PINGS: Final[dict[int, PingReq | PingResp]] = {0xC0: PingReq(), 0xD0: PingResp()}
# First byte and length, without a reason code.
_ACKNOWLEDGED_BY: Final = {kind: bytes([first, 2]) for first, kind in ACKNOWLEDGEMENTS.items()}

_PUBLISH_PROPERTIES = PropertiesOf(PacketType.PUBLISH)
MOST_PACKET_ID: Final = 0xFFFF


def read_publish(version: Version, first: int, data: bytes, begin: int, end: int) -> Publish | None:
    """Returns a PUBLISH, as `decode_body` does; None if it is unusual."""
    qos, retain, dup = FLAGS[first]
    packet_id = 0
    properties = NO_PROPERTIES
    try:
        # A field that is cut off is read from what follows the packet. That is found out at the
        # end, once for all fields.
        topic_at = begin + 2
        at = topic_at + (data[begin] << 8 | data[begin + 1])
        topic = data[topic_at:at].decode()
        if qos:
            packet_id = data[at] << 8 | data[at + 1]
            at += 2
        if version is Version.MQTT_5:
            if data[at] == 0:
                at += 1
            else:
                body = Body(version, data, at, end)
                properties = _PUBLISH_PROPERTIES.read(body)
                at = body.at
    except (IndexError, UnicodeDecodeError, Malformed):
        return None

    if at > end or not topic or "\0" in topic or (qos and not packet_id):
        return None
    if properties.subscription_identifiers:  # which only a server may send
        return None
    return Publish(topic, data[at:end], qos, retain, dup, packet_id, properties)


def read_acknowledgement(
    version: Version, first: int, data: bytes, begin: int, end: int
) -> PubAck | PubRec | PubRel | PubComp | None:
    """Returns an acknowledgement, as `decode_body` does; None if it is unusual.

    Success has nothing but the packet identifier, in both versions.
    """
    if end - begin != 2:
        return None
    packet_id = data[begin] << 8 | data[begin + 1]
    if not packet_id:
        return None
    return ACKNOWLEDGEMENTS[first](packet_id)


def read_ping(
    version: Version, first: int, data: bytes, begin: int, end: int
) -> PingReq | PingResp | None:
    """Returns a ping, as `decode_body` does; None if it has a body, which it may not."""
    if begin != end:
        return None
    return PINGS[first]


def write_publish(packet: Publish, version: Version) -> bytes:
    """Returns the bytes of a PUBLISH, as the table does, and raises what it does."""
    first = FIRST_BYTES.get((packet.qos, packet.retain, packet.dup))
    topic = packet.topic
    if first is None or not topic or "\0" in topic:
        return encode_by_table(packet, version)
    try:
        name = topic.encode()
        data = len(name).to_bytes(2) + name
        if packet.qos:
            data += packet.packet_id.to_bytes(2)
        if version is Version.MQTT_5:
            data += _PUBLISH_PROPERTIES.write(packet.properties, version)
    except (UnicodeEncodeError, OverflowError, Unencodable):
        return encode_by_table(packet, version)

    size = len(data) + len(packet.payload)
    if size > LARGEST_VARINT or (packet.qos and not packet.packet_id):
        return encode_by_table(packet, version)
    return first + varint(size) + data + packet.payload


def write_acknowledgement(packet: PubAck | PubRec | PubRel | PubComp, version: Version) -> bytes:
    """Returns the bytes of an acknowledgement, as the table does, and raises what it does."""
    says_more = packet.reason_code or packet.properties is not NO_PROPERTIES
    if (says_more and version is Version.MQTT_5) or not 0 < packet.packet_id <= MOST_PACKET_ID:
        return encode_by_table(packet, version)
    return _ACKNOWLEDGED_BY[type(packet)] + packet.packet_id.to_bytes(2)
