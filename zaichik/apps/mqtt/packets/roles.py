"""What each side of a connection may receive. The first byte of a packet nearly always decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zaichik.apps.mqtt.packets.codes import PacketType, ReasonCode, Version
from zaichik.apps.mqtt.packets.declared import Disconnect, Packet, Publish
from zaichik.apps.mqtt.packets.errors import Malformed
from zaichik.apps.mqtt.packets.hot import (
    ACKNOWLEDGEMENTS,
    FLAGS,
    PINGS,
    read_acknowledgement,
    read_ping,
    read_publish,
)
from zaichik.apps.mqtt.packets.table import BY_FIRST_BYTE, Reader, decode_body

# Either side sends these.
_BOTH: Final = {
    PacketType.PUBLISH,
    PacketType.PUBACK,
    PacketType.PUBREC,
    PacketType.PUBREL,
    PacketType.PUBCOMP,
    PacketType.DISCONNECT,
    PacketType.AUTH,
}
# A client sends these, once it has sent CONNECT.
_CLIENTS: Final = {PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE, PacketType.PINGREQ}
_SERVERS: Final = {
    PacketType.CONNACK,
    PacketType.SUBACK,
    PacketType.UNSUBACK,
    PacketType.PINGRESP,
}


def decode_from_client(version: Version, first: int, data: bytes, begin: int, end: int) -> Packet:
    """Returns a packet, as `decode_body` does, unless only a server may send it like that.

    Raises:
        Malformed: as `decode_body`; or it has a property that no client may send.
    """
    packet = decode_body(version, first, data, begin, end)
    match packet:
        case Publish() if packet.properties.subscription_identifiers:  # MQTT-3.3.4-6
            raise _not_from("client", packet, "a subscription identifier")
        case Disconnect() if packet.properties.server_reference is not None:
            raise _not_from("client", packet, "a server reference")
        case _:
            return packet


def decode_from_server(version: Version, first: int, data: bytes, begin: int, end: int) -> Packet:
    """Returns a packet, as `decode_body` does, unless only a client may send it like that.

    Raises:
        Malformed: as `decode_body`; or it has a property that no server may send.
    """
    packet = decode_body(version, first, data, begin, end)
    match packet:
        case Disconnect() if packet.properties.session_expiry_interval is not None:  # 3.14.2-2
            raise _not_from("server", packet, "a session expiry interval")
        case _:
            return packet


def _not_from(sender: str, packet: Packet, what: str) -> Malformed:
    error = Malformed(
        ReasonCode.PROTOCOL_ERROR, f"a {packet.TYPE.name} with {what}, from a {sender}"
    )
    error.packet_type = packet.TYPE
    return error


# Takes what `decode_body` does; None says that the packet is unusual.
QuickReader = Callable[[Version, int, bytes, int, int], Packet | None]


class Role:
    """What one side of a connection receives.

    Args:
        accepted: types of packets.
        decode: what reads any of them.

    Attributes:
        decode: see above.
        readers: by the first byte of a packet: what reads it if it is usual; None if it may not
            come.
    """

    def __init__(self, accepted: set[PacketType], decode: Reader) -> None:
        self.decode = decode
        self.readers: list[QuickReader | None] = [None] * 256
        for first, packet_class in BY_FIRST_BYTE.items():
            if packet_class.TYPE not in accepted:
                continue
            if first in FLAGS:
                self.readers[first] = read_publish
            elif first in ACKNOWLEDGEMENTS:
                self.readers[first] = read_acknowledgement
            elif first in PINGS:
                self.readers[first] = read_ping
            else:
                self.readers[first] = decode

    def refusal(self, first: int) -> Malformed:
        """Returns what is wrong with a packet whose first byte has no reader."""
        packet_class = BY_FIRST_BYTE.get(first)
        if packet_class is None:  # for its type, or for its flags: MQTT-2.1.3-1
            text = f"a packet that begins with 0x{first:02x}, as none does"
            return Malformed(ReasonCode.MALFORMED_PACKET, text)
        name = packet_class.TYPE.name
        if self is NEW_CLIENT:  # MQTT-3.1.0-1
            text = f"{name}, where the first packet must be CONNECT"
        else:  # also a second CONNECT: MQTT-3.1.0-2
            text = f"{name}, which may not be sent here now"
        return Malformed(ReasonCode.PROTOCOL_ERROR, text)


# From whom packets come: a client that has not said CONNECT, one that has, a server.
NEW_CLIENT: Final = Role({PacketType.CONNECT}, decode_from_client)
CLIENT: Final = Role(_BOTH | _CLIENTS, decode_from_client)
SERVER: Final = Role(_BOTH | _SERVERS, decode_from_server)
