"""Packets to bytes."""

from __future__ import annotations

from zaichik.apps.mqtt.packets.codes import Version
from zaichik.apps.mqtt.packets.declared import Packet, Publish
from zaichik.apps.mqtt.packets.table import encode_by_table


def encode(packet: Packet, version: Version) -> bytes:
    """Returns the bytes of a packet, fixed header and all.

    What version 3.1.1 does not have, as properties and most reason codes, is left out there.

    Raises:
        Unencodable: a value does not fit, or the version does not have this packet.
    """
    return encode_by_table(packet, version)


class PublishTemplate:
    """One message for many clients: encoded once, but for what differs between them.

    Args:
        message: its topic, payload and properties; flags and packet identifier do not matter.
        version: of the clients.

    Raises:
        Unencodable: as `encode`.
    """

    def __init__(self, message: Publish, version: Version) -> None:
        self._message = message
        self._version = version

    def size(self, qos: int) -> int:
        """Returns how many bytes the packet has for a client without subscription identifiers."""
        return len(self.encode(qos=qos, packet_id=min(qos, 1)))

    def encode(
        self,
        *,
        qos: int = 0,
        packet_id: int = 0,
        retain: bool = False,
        dup: bool = False,
        subscription_identifiers: tuple[int, ...] = (),
    ) -> bytes:
        """Returns the bytes of the packet for one client.

        Args:
            qos: with which the client gets it.
            packet_id: 0 with QoS 0.
            retain: whether it is a kept message.
            dup: whether it may have been sent before.
            subscription_identifiers: those of the client's subscriptions that match.
        """
        import dataclasses

        properties = dataclasses.replace(
            self._message.properties, subscription_identifiers=subscription_identifiers
        )
        packet = dataclasses.replace(
            self._message,
            qos=qos,
            packet_id=packet_id,
            retain=retain,
            dup=dup,
            properties=properties,
        )
        return encode(packet, self._version)
