"""Bytes in any pieces in, packets out."""

from __future__ import annotations

from zaichik.apps.mqtt.packets.codes import PacketType, ReasonCode, Version
from zaichik.apps.mqtt.packets.declared import Connect, Disconnect, Packet, Publish
from zaichik.apps.mqtt.packets.errors import Malformed, PacketTooLarge, UnsupportedVersion
from zaichik.apps.mqtt.packets.table import BY_FIRST_BYTE, decode_body

# A fixed header: the first byte, and a length of one to four.
_LARGEST_HEADER = 5

_FROM_CLIENT = frozenset(
    {
        PacketType.PUBLISH,
        PacketType.PUBACK,
        PacketType.PUBREC,
        PacketType.PUBREL,
        PacketType.PUBCOMP,
        PacketType.SUBSCRIBE,
        PacketType.UNSUBSCRIBE,
        PacketType.PINGREQ,
        PacketType.DISCONNECT,
        PacketType.AUTH,
    }
)
_FROM_SERVER = frozenset(
    {
        PacketType.CONNACK,
        PacketType.PUBLISH,
        PacketType.PUBACK,
        PacketType.PUBREC,
        PacketType.PUBREL,
        PacketType.PUBCOMP,
        PacketType.SUBACK,
        PacketType.UNSUBACK,
        PacketType.PINGRESP,
        PacketType.DISCONNECT,
        PacketType.AUTH,
    }
)


class PacketDecoder:
    """Cuts the bytes of one connection into packets.

    A server's decoder learns the version from CONNECT, which must be the first packet. A packet
    that announces too many bytes is refused as soon as its length is there, and never waited for;
    so what is kept is less than one packet.

    Args:
        max_packet: bytes of the largest packet, fixed header and all.
        version: None for a server; for a client, the one that it has asked for.

    Attributes:
        version: of the connection; None before CONNECT has come.
    """

    def __init__(self, max_packet: int, version: Version | None = None) -> None:
        self.version = version
        self._max_packet = max_packet
        self._is_server = version is None
        self._kept = bytearray()  # the beginning of a packet
        self._needed = 2  # bytes that must be there before it makes sense to look again
        self._error: Malformed | None = None

    @property
    def buffered(self) -> int:
        """Bytes of a packet that has not come as a whole."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[Packet]:
        """Returns the packets that these bytes complete, in order.

        Raises:
            Malformed: the next bytes are no packet, or one that may not come now. Its `before` has
                those that were complete before it. The connection is over: asking again raises it
                again, and nothing is kept.
        """
        if self._error is not None:
            self._error.before = []
            raise self._error

        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return []
            data = bytes(self._kept)
            self._kept.clear()

        packets: list[Packet] = []
        try:
            at = self._read(data, packets)
        except Malformed as error:
            error.before = packets
            self._error = error
            raise
        self._kept += data[at:]
        return packets

    def _read(self, data: bytes, packets: list[Packet]) -> int:
        """Append all packets that are complete, and return where the next one begins."""
        at = 0
        while True:
            header = self._header(data, at)
            if header is None:
                return at
            begin, end = header
            if end > len(data):
                self._needed = end - at
                return at
            packets.append(self._packet(data[at], data, begin, end))
            at = end

    def _header(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Returns where the body of a packet begins and ends; None if that is not known yet."""
        if at == len(data):
            self._needed = 1
            return None
        self._check_first_byte(data[at])

        size = 0
        for index in range(_LARGEST_HEADER - 1):
            here = at + 1 + index
            if here >= len(data):
                self._needed = here + 1 - at
                return None
            byte = data[here]
            size |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        else:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a length of more than four bytes")
        begin = here + 1
        if byte == 0 and index and self.version is not Version.MQTT_3_1_1:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a length with a byte too many")
        end = begin + size
        if end - at > self._max_packet:
            raise PacketTooLarge(end - at, self._max_packet)
        return begin, end

    def _check_first_byte(self, first: int) -> None:
        kind = BY_FIRST_BYTE.get(first)
        if kind is None:
            text = f"a packet that begins with 0x{first:02x}, which none does"
            raise Malformed(ReasonCode.MALFORMED_PACKET, text)
        if self.version is None:
            if kind is not Connect:  # MQTT-3.1.0-1
                text = f"{kind.TYPE.name}, where the first packet must be CONNECT"
                raise Malformed(ReasonCode.PROTOCOL_ERROR, text)
            return
        accepted = _FROM_SERVER
        if self._is_server:
            accepted = _FROM_CLIENT
        if kind.TYPE not in accepted:  # a second CONNECT: MQTT-3.1.0-2
            text = f"{kind.TYPE.name}, which may not be sent here now"
            raise Malformed(ReasonCode.PROTOCOL_ERROR, text)

    def _packet(self, first: int, data: bytes, begin: int, end: int) -> Packet:
        version = self.version
        if version is None:
            version = Version.MQTT_5
        try:
            packet = decode_body(version, first, data, begin, end)
        except UnsupportedVersion:
            raise
        except Malformed as error:
            # The answer to a bad CONNECT is of the version that it asks for.
            if self.version is None:
                self.version = error.version
            raise
        if isinstance(packet, Connect):
            self.version = packet.version
        if self._is_server:
            self._check_direction(packet)
        return packet

    def _check_direction(self, packet: Packet) -> None:
        """Refuse properties that only a server may send."""
        match packet:
            case Publish() if packet.properties.subscription_identifiers:  # MQTT-3.3.4-6
                text = "a PUBLISH with a subscription identifier, from a client"
                raise Malformed(ReasonCode.PROTOCOL_ERROR, text)
            case Disconnect() if packet.properties.server_reference is not None:
                text = "a DISCONNECT with a server reference, from a client"
                raise Malformed(ReasonCode.PROTOCOL_ERROR, text)
