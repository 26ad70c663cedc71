"""Packets to bytes: any packet, and one message for many clients."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from zaichik.apps.mqtt.packets.codes import PacketType, Version
from zaichik.apps.mqtt.packets.declared import (
    Packet,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
)
from zaichik.apps.mqtt.packets.errors import Unencodable
from zaichik.apps.mqtt.packets.hot import (
    FIRST_BYTES,
    MOST_PACKET_ID,
    write_acknowledgement,
    write_publish,
)
from zaichik.apps.mqtt.packets.properties import (
    ALIAS,
    NO_PROPERTIES,
    SUBSCRIPTION_IDENTIFIER,
    Properties,
    PropertiesOf,
)
from zaichik.apps.mqtt.packets.table import encode_by_table
from zaichik.apps.mqtt.packets.wire import LARGEST_VARINT, POSITIVE_VARINT, TEXT, varint

Flags = tuple[int, bool, bool]  # QoS, retain, DUP
PACKET_ID_BYTES: Final = 2
NO_TOPIC: Final = b"\0\0"  # an empty text

_PUBLISH_PROPERTIES: Final = PropertiesOf(PacketType.PUBLISH)


def encode(packet: Packet, version: Version) -> bytes:
    """Returns the bytes of a packet, fixed header and all.

    What version 3.1.1 does not have, as properties and most reason codes, is left out there.

    Raises:
        Unencodable: a value does not fit, or the version does not have this packet.
    """
    match packet:
        case Publish():
            return write_publish(packet, version)
        case PubAck() | PubRec() | PubRel() | PubComp():
            return write_acknowledgement(packet, version)
        case _:
            return encode_by_table(packet, version)


class PublishTemplate:
    """One message for many clients: encoded once, but for what differs between them.

        fixed header │ topic │ packet identifier │ properties │ payload

    Only the packet identifier is each client's own. With QoS 0 there is none, so clients with the
    same flags get the same bytes. Subscription identifiers and topic aliases, where a client has
    any, are its own as well.

    Args:
        topic: of the message.
        payload: of the message.
        version: of the clients.
        properties: of the message; 3.1.1 has none.

    Raises:
        Unencodable: as `encode`.
    """

    __slots__ = ("_begins", "_end", "_payload", "_properties", "_topic", "_version")

    def __init__(
        self,
        topic: str,
        payload: bytes,
        version: Version,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        # Of the two, only these can have a problem.
        if not topic or properties is not NO_PROPERTIES:
            problem = Publish(topic, properties=properties).problem(version)
            if problem is not None:
                raise Unencodable(f"PUBLISH: {problem.text}")
        self._version = version
        self._topic = _written_topic(topic)
        self._payload = payload
        self._properties = b""  # without their length
        self._end = payload
        if version is Version.MQTT_5:
            if properties is not NO_PROPERTIES:
                self._properties = _PUBLISH_PROPERTIES.write_all(properties, version)
            self._end = self._end_with(self._properties)
        # By flags: fixed header and topic; with QoS 0, the whole packet.
        self._begins: dict[Flags, bytes] = {}

    def size(self, qos: int) -> int:
        """Returns how many bytes the packet has for a client without subscription identifiers."""
        if qos == 0:
            return len(self.encode())
        return len(self.encode(qos=qos, packet_id=1))

    def encode(
        self,
        *,
        qos: int = 0,
        packet_id: int = 0,
        retain: bool = False,
        dup: bool = False,
        subscription_identifiers: tuple[int, ...] = (),
        alias: int = 0,
        is_alias_known: bool = False,
    ) -> bytes:
        """Returns the bytes of the packet for one client.

        Args:
            qos: with which the client gets it.
            packet_id: 0 with QoS 0.
            retain: whether it is a retained message.
            dup: whether it may have been sent before.
            subscription_identifiers: those of the client's subscriptions that match; 3.1.1 has
                none.
            alias: a number for the topic; 0: none. 3.1.1 has none.
            is_alias_known: whether the client knows what the number stands for, so that the topic
                is left out.

        Raises:
            Unencodable: flags that do not go together, or an identifier that is none.
        """
        if qos and not 0 < packet_id <= MOST_PACKET_ID:
            raise Unencodable(f"PUBLISH: {packet_id} is no packet identifier")
        flags = (qos, retain, dup)
        topic = self._topic
        if (subscription_identifiers or alias) and self._version is Version.MQTT_5:
            properties = self._properties + _identifiers(subscription_identifiers)
            if alias:
                properties += ALIAS + alias.to_bytes(2)
            if is_alias_known:
                topic = NO_TOPIC
            end = self._end_with(properties)
            begin = self._begin(flags, topic, end)
        else:
            end = self._end
            begin = self._begins.get(flags, b"")
            if not begin:
                begin = self._begin(flags, topic, end)
                self._begins[flags] = begin
        if qos == 0:
            return begin
        return begin + packet_id.to_bytes(2) + end

    def _begin(self, flags: Flags, topic: bytes, end: bytes) -> bytes:
        """Returns the packet up to its identifier; with QoS 0 there is none, so all of it."""
        first = FIRST_BYTES.get(flags)
        if first is None:
            raise Unencodable("PUBLISH: QoS 3, or DUP with QoS 0")
        qos, _, _ = flags
        size = len(topic) + len(end)
        if qos:
            size += PACKET_ID_BYTES
        if size > LARGEST_VARINT:
            raise Unencodable(f"PUBLISH of {size:,} bytes")
        begin = first + varint(size) + topic
        if qos:
            return begin
        return begin + end

    def _end_with(self, properties: bytes) -> bytes:
        return varint(len(properties)) + properties + self._payload


# Most messages are of topics that had others before.
@lru_cache(maxsize=4096)
def _written_topic(topic: str) -> bytes:
    """Returns the bytes of a message's topic, which are the same in both versions.

    Raises:
        Unencodable: it is no text of MQTT.
    """
    return TEXT.write(topic, Version.MQTT_5)


def _identifiers(identifiers: tuple[int, ...]) -> bytes:
    data = b""
    for identifier in identifiers:
        data += SUBSCRIPTION_IDENTIFIER + POSITIVE_VARINT.write(identifier, Version.MQTT_5)
    return data
