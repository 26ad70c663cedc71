"""The properties of version 5: each with its number, its type, and the packets that may have it.

Nearly every packet of version 5 has properties: their length in bytes, then the number and the
value of each. Only two of them may be repeated. The table is table 2-4 of the standard.

The properties of a packet are one object with an attribute for each; None stands for a property
that the packet does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final

from zaichik.apps.mqtt.packets.codes import PacketType, ReasonCode, Version
from zaichik.apps.mqtt.packets.errors import Malformed, Unencodable
from zaichik.apps.mqtt.packets.values import immutable
from zaichik.apps.mqtt.packets.wire import (
    BINARY,
    BOOLEAN,
    POSITIVE_U16,
    POSITIVE_U32,
    POSITIVE_VARINT,
    TEXT,
    TEXT_PAIR,
    TOPIC_ALIAS,
    TOPIC_NAME,
    U16,
    U32,
    VARINT,
    ZERO_OR_ONE,
    Body,
    WireType,
)


class WillOwner(IntEnum):
    """A will has properties of its own, within CONNECT."""

    WILL = 0


WILL: Final = WillOwner.WILL
Owner = PacketType | WillOwner


@immutable
class Properties:
    """The properties of a packet, or of a will. Durations are seconds, sizes bytes."""

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_interval: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifier_available: bool | None = None
    shared_subscription_available: bool | None = None


NO_PROPERTIES: Final = Properties()

# Bytes of all properties of a packet. A megabyte of short ones would take half a second to read, in
# which no other client is served.
MOST_BYTES: Final = 64 * 1024


@dataclass(slots=True, eq=False)
class Property:
    """One row of the table. It never changes.

    Attributes:
        number: on the wire.
        name: the attribute that has its value, or its values.
        kind: how one value is written.
        owners: the packets that may have it; WILL: the will of a CONNECT.
        repeats: the packets that may have it more than once.
        is_list: whether the attribute is a tuple of values, which may be empty.
        number_byte: the number, as bytes.
    """

    number: int
    name: str
    kind: WireType
    owners: frozenset[Owner]
    repeats: frozenset[Owner] = frozenset()
    is_list: bool = field(init=False)
    number_byte: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Derive what would otherwise be derived for each packet."""
        self.is_list = bool(self.repeats)
        self.number_byte = bytes([self.number])


_CONNECT = PacketType.CONNECT
_CONNACK = PacketType.CONNACK
_PUBLISH = PacketType.PUBLISH
_SUBSCRIBE = PacketType.SUBSCRIBE
_DISCONNECT = PacketType.DISCONNECT
_AUTH = PacketType.AUTH

_OF_MESSAGES: frozenset[Owner] = frozenset({_PUBLISH, WILL})
_OF_ANSWERS: frozenset[Owner] = frozenset(
    {
        _CONNACK,
        PacketType.PUBACK,
        PacketType.PUBREC,
        PacketType.PUBREL,
        PacketType.PUBCOMP,
        PacketType.SUBACK,
        PacketType.UNSUBACK,
        _DISCONNECT,
        _AUTH,
    }
)
_OF_ALL: frozenset[Owner] = (
    _OF_ANSWERS | _OF_MESSAGES | {_CONNECT, _SUBSCRIBE, PacketType.UNSUBSCRIBE}
)


def _of(*owners: Owner) -> frozenset[Owner]:
    return frozenset(owners)


TABLE: Final = (
    Property(0x01, "payload_format_indicator", ZERO_OR_ONE, _OF_MESSAGES),
    Property(0x02, "message_expiry_interval", U32, _OF_MESSAGES),
    Property(0x03, "content_type", TEXT, _OF_MESSAGES),
    Property(0x08, "response_topic", TOPIC_NAME, _OF_MESSAGES),
    Property(0x09, "correlation_data", BINARY, _OF_MESSAGES),
    Property(
        0x0B,
        "subscription_identifiers",
        POSITIVE_VARINT,
        _of(_PUBLISH, _SUBSCRIBE),
        repeats=_of(_PUBLISH),
    ),
    Property(0x11, "session_expiry_interval", U32, _of(_CONNECT, _CONNACK, _DISCONNECT)),
    Property(0x12, "assigned_client_identifier", TEXT, _of(_CONNACK)),
    Property(0x13, "server_keep_alive", U16, _of(_CONNACK)),
    Property(0x15, "authentication_method", TEXT, _of(_CONNECT, _CONNACK, _AUTH)),
    Property(0x16, "authentication_data", BINARY, _of(_CONNECT, _CONNACK, _AUTH)),
    Property(0x17, "request_problem_information", BOOLEAN, _of(_CONNECT)),
    Property(0x18, "will_delay_interval", U32, _of(WILL)),
    Property(0x19, "request_response_information", BOOLEAN, _of(_CONNECT)),
    Property(0x1A, "response_information", TEXT, _of(_CONNACK)),
    Property(0x1C, "server_reference", TEXT, _of(_CONNACK, _DISCONNECT)),
    Property(0x1F, "reason_string", TEXT, _OF_ANSWERS),
    Property(0x21, "receive_maximum", POSITIVE_U16, _of(_CONNECT, _CONNACK)),
    Property(0x22, "topic_alias_maximum", U16, _of(_CONNECT, _CONNACK)),
    Property(0x23, "topic_alias", TOPIC_ALIAS, _of(_PUBLISH)),
    Property(0x24, "maximum_qos", ZERO_OR_ONE, _of(_CONNACK)),
    Property(0x25, "retain_available", BOOLEAN, _of(_CONNACK)),
    Property(0x26, "user_properties", TEXT_PAIR, _OF_ALL, repeats=_OF_ALL),
    Property(0x27, "maximum_packet_size", POSITIVE_U32, _of(_CONNECT, _CONNACK)),
    Property(0x28, "wildcard_subscription_available", BOOLEAN, _of(_CONNACK)),
    Property(0x29, "subscription_identifier_available", BOOLEAN, _of(_CONNACK)),
    Property(0x2A, "shared_subscription_available", BOOLEAN, _of(_CONNACK)),
)
SUBSCRIPTION_IDENTIFIER: Final = b"\x0b"  # its number
ALIAS: Final = b"\x23"


class PropertiesOf(WireType):
    """The properties of one type of packet, after their length in bytes.

    Args:
        owner: the type of packet; WILL: a will's.
    """

    def __init__(self, owner: Owner) -> None:
        super().__init__("properties")
        self._owner = owner
        self._rows = [row for row in TABLE if owner in row.owners]
        # The standard makes numbers variable byte integers, but none has more than one byte.
        self._by_number = {row.number: row for row in self._rows}
        # Those that this packet may not have are compared in one go.
        others = [row for row in TABLE if owner not in row.owners]
        self._others_of = attrgetter(*[row.name for row in others])
        self._no_others = self._others_of(NO_PROPERTIES)

    def read(self, body: Body) -> Properties:
        """Each at most once, except those that may be repeated."""
        size = VARINT.read(body)
        if size == 0:
            return NO_PROPERTIES
        if size > MOST_BYTES:
            text = f"{size:,} bytes of properties; at most {MOST_BYTES:,} are read"
            raise Malformed(ReasonCode.QUOTA_EXCEEDED, text)
        end = body.at + size
        if end > body.end:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "properties that end after the packet")
        inner = Body(body.version, body.data, body.at, end)
        body.at = end

        values: dict[str, Any] = {}
        lists: dict[str, list[Any]] = {}
        while not inner.is_read:
            number = inner.byte()
            row = self._by_number.get(number)
            if row is None:
                raise self._refusal(number)
            if row.is_list:
                repeated = lists.setdefault(row.name, [])
                if repeated and self._owner not in row.repeats:
                    raise _twice(row)
                repeated.append(row.kind.read(inner))
            elif row.name in values:
                raise _twice(row)
            else:
                values[row.name] = row.kind.read(inner)
        for name, repeated in lists.items():
            values[name] = tuple(repeated)
        return Properties(**values)

    def _refusal(self, number: int) -> Malformed:
        for row in TABLE:
            if row.number == number:
                text = f"the property {row.name}, which {self._owner.name} may not have"
                return Malformed(ReasonCode.PROTOCOL_ERROR, text)
        text = f"property 0x{number:02x}, which does not exist"
        return Malformed(ReasonCode.MALFORMED_PACKET, text)

    def write(self, value: Properties, version: Version) -> bytes:
        """After their length, in the order of their numbers."""
        if value is NO_PROPERTIES:
            return b"\0"
        data = self.write_all(value, version)
        return VARINT.write(len(data), version) + data

    def write_all(self, value: Properties, version: Version) -> bytes:
        """Returns the same without the length.

        Raises:
            Unencodable: as `write`.
        """
        if self._others_of(value) != self._no_others:
            raise self._not_allowed(value)
        data = bytearray()
        for row in self._rows:
            found = getattr(value, row.name)
            if found is None:
                continue
            if not row.is_list:
                data += row.number_byte + row.kind.write(found, version)
                continue
            if len(found) > 1 and self._owner not in row.repeats:
                name = self._owner.name
                raise Unencodable(f"{name} may have the property {row.name} only once")
            for each in found:
                data += row.number_byte + row.kind.write(each, version)
        return bytes(data)

    def _not_allowed(self, value: Properties) -> Unencodable:
        names = [
            row.name
            for row in TABLE
            if row not in self._rows and getattr(value, row.name) not in (None, ())
        ]
        return Unencodable(f"{self._owner.name} may not have the property {names[0]}")


def _twice(row: Property) -> Malformed:
    return Malformed(ReasonCode.PROTOCOL_ERROR, f"the property {row.name} twice")


# Making one takes longer than writing the properties of a usual message.
_BY_OWNER: Final[dict[Owner, PropertiesOf]] = {
    owner: PropertiesOf(owner) for owner in (*PacketType, WILL)
}


def encode_properties(properties: Properties, owner: Owner = PacketType.PUBLISH) -> bytes:
    """Returns the bytes of properties, with their length, as the packet would have them.

    Raises:
        Unencodable: that packet may not have one of them, or a value does not fit.
    """
    return _BY_OWNER[owner].write(properties, Version.MQTT_5)


def decode_properties(data: bytes, owner: Owner = PacketType.PUBLISH) -> Properties:
    """Returns the properties that exactly these bytes are.

    Raises:
        Malformed: they are none.
    """
    body = Body(Version.MQTT_5, data, 0, len(data))
    properties = _BY_OWNER[owner].read(body)
    if not body.is_read:
        raise Malformed(ReasonCode.MALFORMED_PACKET, "bytes after the properties")
    return properties
