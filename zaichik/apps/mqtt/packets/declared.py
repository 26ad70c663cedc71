"""Every packet of MQTT, declared once for both versions: its values, and how they are laid out.

A packet begins with its *fixed header*: a byte with its type in the upper four bits and flags in
the lower four, then the length of the rest. The rest is its *body*, whose fields `FIELDS` names in
their order. Some fields came with version 5, some are there only with a flag, and the last ones of
some packets may be left out.

A class's attributes are in the order in which a program names them. A packet never changes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from zaichik.apps.mqtt.packets.codes import PacketType, ReasonCode, Version
from zaichik.apps.mqtt.packets.errors import Malformed
from zaichik.apps.mqtt.packets.fields import (
    CONNECT_FLAGS,
    FILTERS,
    PROTOCOL,
    SUBSCRIPTIONS,
    WILL_MESSAGE,
    ConnectFlags,
    ReasonCodeOf,
    ReasonCodesOf,
    Subscription,
    Will,
)
from zaichik.apps.mqtt.packets.properties import NO_PROPERTIES, Properties, PropertiesOf
from zaichik.apps.mqtt.packets.values import immutable
from zaichik.apps.mqtt.packets.wire import (
    BINARY,
    PACKET_ID,
    REST,
    SESSION_PRESENT,
    TEXT,
    U16,
    WireType,
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a packet's body.

    Attributes:
        name: of the attribute that has its value.
        kind: how it is written.
        since: the first version that has it.
        only: the name of the flag with which it is there; "": always.
        may_be_missing: whether the packet may end before it, if it and all after it have their
            defaults. Only in version 5.
    """

    name: str
    kind: WireType
    since: Version = Version.MQTT_3_1_1
    only: str = ""
    may_be_missing: bool = False


@immutable
class Packet:
    """What all packets have.

    Attributes:
        TYPE: of the packet, in the upper four bits of its first byte.
        SINCE: the first version that has it.
        FIELDS: of its body, in their order.
    """

    TYPE: ClassVar[PacketType]
    SINCE: ClassVar[Version] = Version.MQTT_3_1_1
    FIELDS: ClassVar[tuple[Field, ...]] = ()

    @property
    def header_flags(self) -> int:
        """The lower four bits of its first byte."""
        return RESERVED_FLAGS.get(self.TYPE, 0)

    @classmethod
    def of(cls, header_flags: int, values: dict[str, Any]) -> Self:
        """Returns the packet with these flags and fields."""
        return cls(**values)

    def has(self, flag: str) -> bool:
        """Returns whether a flag is set, with which some of the fields are there."""
        return bool(getattr(self, flag))

    def problem(self, version: Version) -> Malformed | None:
        """Returns what the standard forbids about its values together; None if nothing."""
        return None


# In these three types, one reserved bit must be set (MQTT-2.1.3-1). In all others but PUBLISH, no
# bit may be.
RESERVED_FLAGS = {PacketType.PUBREL: 2, PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2}


def _properties_of(kind: PacketType, *, may_be_missing: bool = False) -> Field:
    return Field(
        "properties",
        PropertiesOf(kind),
        since=Version.MQTT_5,
        may_be_missing=may_be_missing,
    )


def _reason_code_of(kind: PacketType) -> Field:
    return Field(
        "reason_code",
        ReasonCodeOf(kind),
        since=Version.MQTT_5,
        may_be_missing=True,
    )


# -- a connection begins ---------------------------------------------------------------------------


@immutable
class Connect(Packet):
    """A client begins. It must be its first packet, and its only one of this type.

    Attributes:
        version: of all packets of this connection.
        client_id: names the session; "": the server chooses a name.
        clean_start: whether a stored session of that name is discarded. 3.1.1 calls it clean
            session; there, the new session is discarded as well when the connection ends.
        keep_alive: seconds. The server closes a connection that has been silent for 1.5 times as
            long; 0: it may be silent.
        will: published if the connection ends without a normal DISCONNECT; None: nothing is.
        username: None if there is none.
        password: None if there is none.
        properties: of version 5.
    """

    version: Version
    client_id: str = ""
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.CONNECT
    FIELDS = (
        Field("version", PROTOCOL),
        Field("flags", CONNECT_FLAGS),
        Field("keep_alive", U16),
        _properties_of(PacketType.CONNECT),
        Field("client_id", TEXT),
        Field("will", WILL_MESSAGE, only="has_will"),
        Field("username", TEXT, only="has_username"),
        Field("password", BINARY, only="has_password"),
    )

    @property
    def flags(self) -> ConnectFlags:
        """Which of the optional fields there are, and what has only a bit or two."""
        will_qos = 0
        will_retain = False
        if self.will is not None:
            will_qos = self.will.qos
            will_retain = self.will.retain
        return ConnectFlags(
            clean_start=self.clean_start,
            has_will=self.will is not None,
            will_qos=will_qos,
            will_retain=will_retain,
            has_password=self.password is not None,
            has_username=self.username is not None,
        )

    def has(self, flag: str) -> bool:
        """They are in its body."""
        return bool(getattr(self.flags, flag))

    @classmethod
    def of(cls, header_flags: int, values: dict[str, Any]) -> Self:
        """The flags come before the will, which two of them belong to."""
        flags: ConnectFlags = values.pop("flags")
        if flags.has_will:
            values["will"] = dataclasses.replace(
                values["will"], qos=flags.will_qos, retain=flags.will_retain
            )
        return cls(clean_start=flags.clean_start, **values)

    def problem(self, version: Version) -> Malformed | None:
        """What a client may not ask for."""
        if version is Version.MQTT_3_1_1:
            # MQTT-3.1.2-22 of 3.1.1. Version 5 has passwords without names, which are tokens.
            if self.password is not None and self.username is None:
                return Malformed(ReasonCode.MALFORMED_PACKET, "a password without a user name")
            # MQTT-3.1.3-8 of 3.1.1. In version 5 the server tells the client its name.
            if not self.client_id and not self.clean_start:
                text = "a session that is kept needs a client identifier"
                return Malformed(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, text)
        return _authentication_problem(self.properties)


@immutable
class ConnAck(Packet):
    """A server's answer to CONNECT.

    Attributes:
        session_present: whether the client's session goes on.
        reason_code: in 3.1.1 it travels as one of six return codes; `RETURN_CODES` has them.
        properties: of version 5.
    """

    session_present: bool = False
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.CONNACK
    FIELDS = (
        Field("session_present", SESSION_PRESENT),
        Field("reason_code", ReasonCodeOf(PacketType.CONNACK)),
        _properties_of(PacketType.CONNACK),
    )

    def problem(self, version: Version) -> Malformed | None:
        """A connection that is refused has no session (MQTT-3.2.2-6)."""
        if self.session_present and self.reason_code.is_failure:
            return Malformed(ReasonCode.PROTOCOL_ERROR, "a refusal with a session")
        return None


@immutable
class Auth(Packet):
    """A step of an authentication in several steps, by either side."""

    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.AUTH
    SINCE = Version.MQTT_5
    FIELDS = (
        _reason_code_of(PacketType.AUTH),
        _properties_of(PacketType.AUTH, may_be_missing=True),
    )

    def problem(self, version: Version) -> Malformed | None:
        """A step is one of a method; but the shortest AUTH has no properties at all."""
        if self.reason_code and self.properties.authentication_method is None:
            text = "an authentication without a method"
            return Malformed(ReasonCode.PROTOCOL_ERROR, text)
        return _authentication_problem(self.properties)


def _authentication_problem(properties: Properties) -> Malformed | None:
    if properties.authentication_data is None or properties.authentication_method is not None:
        return None
    return Malformed(ReasonCode.PROTOCOL_ERROR, "authentication data without a method")


# -- messages --------------------------------------------------------------------------------------


@immutable
class Publish(Packet):
    """A message, from a client or to one.

    Attributes:
        topic: where it is published. In version 5 it may be "" if there is a topic alias.
        payload: any bytes.
        qos: 0, at most once; 1, at least once; 2, exactly once.
        retain: to a server: retain this message for later subscribers; to a client: it was
            retained.
        dup: whether it may have been sent before.
        packet_id: with which it is acknowledged, from 1 on; 0 with QoS 0, which has none.
        properties: of version 5.
    """

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.PUBLISH
    FIELDS = (
        Field("topic", TEXT),
        Field("packet_id", PACKET_ID, only="qos"),
        _properties_of(PacketType.PUBLISH),
        Field("payload", REST),
    )

    @property
    def header_flags(self) -> int:
        """Its quality of service, and two bits."""
        return self.dup << 3 | self.qos << 1 | self.retain

    @classmethod
    def of(cls, header_flags: int, values: dict[str, Any]) -> Self:
        """The flags are in the fixed header."""
        return cls(
            qos=header_flags >> 1 & 3,
            retain=bool(header_flags & 1),
            dup=bool(header_flags & 8),
            **values,
        )

    def problem(self, version: Version) -> Malformed | None:
        """Flags that do not go together, and a topic that is none."""
        if not 0 <= self.qos <= 2:  # MQTT-3.3.1-4
            return Malformed(ReasonCode.MALFORMED_PACKET, f"QoS {self.qos}")
        if self.dup and self.qos == 0:
            text = "DUP with QoS 0, which is never sent again"  # MQTT-3.3.1-2
            return Malformed(ReasonCode.MALFORMED_PACKET, text)
        if not self.topic and self.properties.topic_alias is None:
            return Malformed(ReasonCode.PROTOCOL_ERROR, "neither a topic nor an alias of one")
        return None


@immutable
class _Acknowledgement(Packet):
    """What the four answers to a message have in common.

    Attributes:
        packet_id: the message's.
        reason_code: of version 5.
        properties: of version 5.
    """

    packet_id: int
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


def _acknowledgement_fields(kind: PacketType) -> tuple[Field, ...]:
    return (
        Field("packet_id", PACKET_ID),
        _reason_code_of(kind),
        _properties_of(kind, may_be_missing=True),
    )


@immutable
class PubAck(_Acknowledgement):
    """QoS 1: the receiver has the message."""

    TYPE = PacketType.PUBACK
    FIELDS = _acknowledgement_fields(PacketType.PUBACK)


@immutable
class PubRec(_Acknowledgement):
    """QoS 2, first answer: the receiver has the message, and will not take it a second time."""

    TYPE = PacketType.PUBREC
    FIELDS = _acknowledgement_fields(PacketType.PUBREC)


@immutable
class PubRel(_Acknowledgement):
    """QoS 2, the sender's answer to that: it will not send the message again."""

    TYPE = PacketType.PUBREL
    FIELDS = _acknowledgement_fields(PacketType.PUBREL)


@immutable
class PubComp(_Acknowledgement):
    """QoS 2, last answer: both have forgotten the packet identifier."""

    TYPE = PacketType.PUBCOMP
    FIELDS = _acknowledgement_fields(PacketType.PUBCOMP)


# -- subscriptions ---------------------------------------------------------------------------------


@immutable
class Subscribe(Packet):
    """A client asks for the messages of some filters."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.SUBSCRIBE
    FIELDS = (
        Field("packet_id", PACKET_ID),
        _properties_of(PacketType.SUBSCRIBE),
        Field("subscriptions", SUBSCRIPTIONS),
    )


@immutable
class SubAck(Packet):
    """A server's answer: for each filter the QoS that is granted, or why it is refused.

    In 3.1.1 every refusal travels as 0x80.
    """

    packet_id: int
    reason_codes: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.SUBACK
    FIELDS = (
        Field("packet_id", PACKET_ID),
        _properties_of(PacketType.SUBACK),
        Field("reason_codes", ReasonCodesOf(PacketType.SUBACK)),
    )


@immutable
class Unsubscribe(Packet):
    """A client ends some subscriptions."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.UNSUBSCRIBE
    FIELDS = (
        Field("packet_id", PACKET_ID),
        _properties_of(PacketType.UNSUBSCRIBE),
        Field("filters", FILTERS),
    )


@immutable
class UnsubAck(Packet):
    """A server's answer, which has codes only since version 5."""

    packet_id: int
    reason_codes: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.UNSUBACK
    FIELDS = (
        Field("packet_id", PACKET_ID),
        _properties_of(PacketType.UNSUBACK),
        Field("reason_codes", ReasonCodesOf(PacketType.UNSUBACK), since=Version.MQTT_5),
    )


# -- a connection lasts, and ends ------------------------------------------------------------------


@immutable
class PingReq(Packet):
    """A client shows that it is alive, and asks whether the server is."""

    TYPE = PacketType.PINGREQ


@immutable
class PingResp(Packet):
    """The server's answer: it is."""

    TYPE = PacketType.PINGRESP


@immutable
class Disconnect(Packet):
    """The last packet of either side; in 3.1.1, only a client has one."""

    reason_code: ReasonCode = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = NO_PROPERTIES

    TYPE = PacketType.DISCONNECT
    FIELDS = (
        _reason_code_of(PacketType.DISCONNECT),
        _properties_of(PacketType.DISCONNECT, may_be_missing=True),
    )


PACKETS: tuple[type[Packet], ...] = (
    Connect,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    PingReq,
    PingResp,
    Disconnect,
    Auth,
)
