"""Reading and writing any packet, as its declaration says.

This is the whole codec, and it is plain rather than fast: a field at a time. The packets that come
by the thousand have a short cut in `hot`, which leaves everything unusual to this file. Tests hold
the two equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zaichik.apps.mqtt.packets.codes import ReasonCode, Version
from zaichik.apps.mqtt.packets.declared import PACKETS, RESERVED_FLAGS, Field, Packet, Publish
from zaichik.apps.mqtt.packets.errors import Malformed, Unencodable
from zaichik.apps.mqtt.packets.fields import ConnectFlags
from zaichik.apps.mqtt.packets.properties import NO_PROPERTIES
from zaichik.apps.mqtt.packets.wire import LARGEST_VARINT, Body, varint

# The first byte of a packet says which it is; there are sixteen of PUBLISH, for it has flags.
BY_FIRST_BYTE: dict[int, type[Packet]] = {
    packet.TYPE << 4 | RESERVED_FLAGS.get(packet.TYPE, 0): packet for packet in PACKETS
}
BY_FIRST_BYTE |= {Publish.TYPE << 4 | flags: Publish for flags in range(16)}


# Takes what `decode_body` does.
Reader = Callable[[Version, int, bytes, int, int], Packet]


def decode_body(version: Version, first: int, data: bytes, at: int, end: int) -> Packet:
    """Returns the packet whose body lies in `data` from `at` to `end`.

    Args:
        version: of the connection; of a CONNECT it does not matter.
        first: the first byte of the packet, which is in `BY_FIRST_BYTE`.
        data: bytes, in which the body lies.
        at: where it begins.
        end: where it ends.

    Raises:
        Malformed: there is none.
    """
    packet_class = BY_FIRST_BYTE[first]
    body = Body(version, data, at, end)
    try:
        return _decoded(packet_class, first & 0x0F, body)
    except Malformed as error:
        error.packet_type = packet_class.TYPE
        error.version = body.version
        raise


def _decoded(packet_class: type[Packet], header_flags: int, body: Body) -> Packet:
    if body.version < packet_class.SINCE:
        text = f"{packet_class.TYPE.name}, which this version does not have"
        raise Malformed(ReasonCode.PROTOCOL_ERROR, text)

    values: dict[str, Any] = {}
    for field in packet_class.FIELDS:
        if field.since > body.version:
            continue
        if field.only and not _is_set(field.only, header_flags, values):
            continue
        if field.may_be_missing and body.is_read and body.version is Version.MQTT_5:
            break
        values[field.name] = field.kind.read(body)
    if not body.is_read:
        raise Malformed(ReasonCode.MALFORMED_PACKET, "bytes after the last field")

    packet = packet_class.of(header_flags, values)
    problem = packet.problem(body.version)
    if problem is not None:
        raise problem
    return packet


def _is_set(flag: str, header_flags: int, values: dict[str, Any]) -> bool:
    """PUBLISH has its flags in the fixed header, and CONNECT before the fields in question."""
    if flag == "qos":
        return header_flags & 0b0110 != 0
    flags: ConnectFlags = values["flags"]
    return bool(getattr(flags, flag))


def encode_by_table(packet: Packet, version: Version) -> bytes:
    """Returns the bytes of a packet, fixed header and all.

    Raises:
        Unencodable: a value does not fit, or its version does not have this packet.
    """
    name = packet.TYPE.name
    if version < packet.SINCE:
        raise Unencodable(f"{name} does not exist in version 3.1.1")
    problem = packet.problem(version)
    if problem is not None:
        raise Unencodable(f"{name}: {problem.text}")

    body = bytearray()
    fields = _present(packet, version)
    for field in fields:
        try:
            body += field.kind.write(getattr(packet, field.name), version)
        except Unencodable as error:
            raise Unencodable(f"{name}, {field.name}: {error}") from None
    if len(body) > LARGEST_VARINT:
        raise Unencodable(f"{name} of {len(body):,} bytes; a packet has {LARGEST_VARINT:,} at most")
    return bytes([packet.TYPE << 4 | packet.header_flags]) + varint(len(body)) + body


def _present(packet: Packet, version: Version) -> list[Field]:
    """The fields that are written. Those that may be missing are, if they say nothing."""
    present = []
    for field in packet.FIELDS:
        if field.since > version:
            continue
        if field.only and not packet.has(field.only):
            continue
        present.append(field)
    while present and present[-1].may_be_missing and _says_nothing(packet, present[-1]):
        present.pop()
    return present


def _says_nothing(packet: Packet, field: Field) -> bool:
    value = getattr(packet, field.name)
    return value in (ReasonCode.SUCCESS, NO_PROPERTIES)
