"""What can be wrong with the bytes of a client, and with a packet of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zaichik.apps.mqtt.packets.codes import PacketType, ReasonCode, Version

if TYPE_CHECKING:
    from zaichik.apps.mqtt.packets.declared import Packet


class Malformed(Exception):
    """Bytes that are no packet, or a packet that may not be sent.

    The connection must be closed: the standard says so, and where the next packet begins may be
    unknown.

    Args:
        reason_code: for DISCONNECT, or for CONNACK if the packet is a CONNECT.
        text: what is wrong, for people.

    Attributes:
        reason_code: see above.
        text: see above.
        packet_type: of the packet; None if it was refused before its body was read.
        version: of the packet, as far as it has been read; None if that is not known.
        before: the packets that the same bytes completed before it. They are valid.
    """

    def __init__(self, reason_code: ReasonCode, text: str) -> None:
        super().__init__(reason_code, text)
        self.reason_code = reason_code
        self.text = text
        self.packet_type: PacketType | None = None
        self.version: Version | None = None
        self.before: list[Packet] = []

    def __str__(self) -> str:
        """What is wrong."""
        return self.text


class PacketTooLarge(Malformed):
    """A packet that announces more bytes than are read."""

    def __init__(self, size: int, most: int) -> None:
        text = f"a packet of {size:,} bytes; at most {most:,} are read"
        super().__init__(ReasonCode.PACKET_TOO_LARGE, text)
        self.args = (size, most)  # of which a copy is made


class UnsupportedVersion(Malformed):
    """A CONNECT of a version that is not spoken here.

    Args:
        level: the protocol level that the client wants.

    Attributes:
        answer: the bytes of the CONNACK that says so, as that version has it.
    """

    def __init__(self, level: int) -> None:
        text = f"protocol level {level}; 4 (MQTT 3.1.1) and 5 are known"
        super().__init__(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, text)
        self.args = (level,)  # of which a copy is made
        # A client of an older version reads a return code. One of a later version should understand
        # version 5: a reason code, and no properties.
        if level < 5:
            self.answer = bytes([0x20, 2, 0, 1])
        else:
            self.answer = bytes([0x20, 3, 0, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, 0])


class Unencodable(ValueError):
    """A packet that cannot be written: a value does not fit, or its version does not have it."""
