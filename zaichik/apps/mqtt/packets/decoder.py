"""Bytes in any pieces in, packets out."""

from __future__ import annotations

from typing import Final

from zaichik.apps.mqtt.packets.codes import PacketType, ReasonCode, Version
from zaichik.apps.mqtt.packets.declared import Connect, Packet
from zaichik.apps.mqtt.packets.errors import Malformed, PacketTooLarge
from zaichik.apps.mqtt.packets.roles import CLIENT, NEW_CLIENT, SERVER

# A fixed header is the first byte, then a length of one to four bytes.
_SMALLEST: Final = 2

# Bytes of the largest packet that has no payload. A megabyte of filters with a character each would
# take a second to read, in which no other client is served.
MOST_WITHOUT_PAYLOAD: Final = 64 * 1024
_WITH_PAYLOAD: Final = {PacketType.CONNECT, PacketType.PUBLISH}


class PacketDecoder:
    """Cuts the bytes of one connection into packets.

    A server's decoder learns the version from CONNECT, which must be the first packet. A packet
    that announces too many bytes is refused as soon as its length is there, and never waited for.
    So what is kept is always less than one packet.

    Args:
        max_packet: bytes of the largest packet, fixed header and all. Packets that have no payload
            have at most `MOST_WITHOUT_PAYLOAD`.
        version: None for a server; for a client, the one that it has asked for.

    Attributes:
        version: of the connection; None before CONNECT has come. If a CONNECT is malformed, the
            one that it asks for, in which it must be answered.
    """

    def __init__(self, max_packet: int, version: Version | None = None) -> None:
        self.version = version
        self._max_packet = max_packet
        self._sender = SERVER
        if version is None:
            self._sender = NEW_CLIENT
        self._kept = bytearray()  # the beginning of a packet
        self._needed = _SMALLEST  # bytes that must be there before it makes sense to look again
        self._error: Malformed | None = None

    @property
    def buffered(self) -> int:
        """Bytes of a packet that has not come as a whole."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[Packet]:
        """Returns the packets that these bytes complete, in order.

        Raises:
            Malformed: the next bytes are no packet, or one that may not come now. Its `before` has
                those that were complete before it. The connection is over: feeding it again raises
                the same, and nothing is kept.
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
            self._fail(error)
            error.before = packets
            raise
        if at < len(data):
            self._kept += data[at:]
        return packets

    def _read(self, data: bytes, packets: list[Packet]) -> int:
        """Append all packets that are complete, and return where the next one begins."""
        size = len(data)
        sender = self._sender
        version = self.version or Version.MQTT_5  # a CONNECT says itself which it is
        at = 0
        while at < size:
            first = data[at]
            reader = sender.readers[first]
            if reader is None:
                raise sender.refusal(first)

            # Most packets have a length of one byte, which takes no call.
            begin = at + 2
            if begin < size and data[at + 1] <= 0x7F:
                end = begin + data[at + 1]
                if end - at > self._max_packet:
                    raise PacketTooLarge(end - at, self._max_packet)
            else:
                begin, end = self._limits(data, at)
            if end > size:
                self._needed = end - at
                break

            packet = reader(version, first, data, begin, end)
            if packet is None:
                packet = sender.decode(version, first, data, begin, end)
            packets.append(packet)
            if isinstance(packet, Connect):
                self.version = version = packet.version
                self._sender = sender = CLIENT
            at = end
        return at

    def _limits(self, data: bytes, at: int) -> tuple[int, int]:
        """Returns where the body of the packet at `at` begins and ends.

        If the length has not come as a whole, the end is after the next byte that is needed.
        """
        size = 0
        here = at
        for shift in (0, 7, 14, 21):
            here += 1
            if here == len(data):
                return here, here + 1
            byte = data[here]
            size |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                break
        else:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a length of more than four bytes")
        # Since version 5 a length must be as short as it can be (MQTT-1.5.5-1). A CONNECT is not
        # judged, since its version is not known yet.
        if byte == 0 and shift and self.version is Version.MQTT_5:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a length with a byte too many")

        begin = here + 1
        end = begin + size
        most = self._max_packet
        if data[at] >> 4 not in _WITH_PAYLOAD:
            most = min(most, MOST_WITHOUT_PAYLOAD)
        if end - at > most:
            raise PacketTooLarge(end - at, most)
        return begin, end

    def _fail(self, error: Malformed) -> None:
        self._error = error
        is_connect = error.packet_type is PacketType.CONNECT and self.version is None
        if is_connect and error.reason_code is not ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
            self.version = error.version
