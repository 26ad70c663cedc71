"""Fields that only one or two packets have: CONNECT's, lists of filters, and reason codes."""

from __future__ import annotations

from collections.abc import Sequence

from zaichik.apps.mqtt.packets.codes import (
    ALLOWED,
    RETURN_CODES,
    PacketType,
    ReasonCode,
    Version,
)
from zaichik.apps.mqtt.packets.errors import Malformed, Unencodable, UnsupportedVersion
from zaichik.apps.mqtt.packets.properties import NO_PROPERTIES, WILL, Properties, PropertiesOf
from zaichik.apps.mqtt.packets.values import immutable
from zaichik.apps.mqtt.packets.wire import BINARY, TEXT, U8, Body, WireType

# The one refusal that SUBACK has in 3.1.1.
REFUSED = ReasonCode.UNSPECIFIED_ERROR

QOS_3 = 3  # the two bits have a fourth value, which means nothing

# -- CONNECT ---------------------------------------------------------------------------------------

# The first field says that a client speaks MQTT, the second which version. MQTT 3.1, which came
# before the standard, had another name.
NAME = "MQTT"
OLD_NAME = "MQIsdp"


class Protocol(WireType):
    """A text that is always "MQTT", and the protocol level in a byte."""

    def read(self, body: Body) -> Version:
        """From here on the rest of the body is of that version."""
        name = TEXT.read(body)
        level = U8.read(body)
        if name == OLD_NAME:
            raise UnsupportedVersion(level)
        if name != NAME:
            text = "a client of another protocol"
            raise Malformed(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, text)
        try:
            body.version = Version(level)
        except ValueError:
            raise UnsupportedVersion(level) from None
        return body.version

    def write(self, value: Version, version: Version) -> bytes:
        """The version of the packet is the one that it asks for."""
        if value is not version:
            raise Unencodable(f"a CONNECT for version {value} in version {version}")
        return TEXT.write(NAME, version) + U8.write(value, version)


@immutable
class ConnectFlags:
    """A byte of CONNECT."""

    clean_start: bool
    has_will: bool
    will_qos: int
    will_retain: bool
    has_password: bool
    has_username: bool


class ConnectFlagsByte(WireType):
    """From the top: user name, password, will retain, will QoS (two bits), will, clean, 0."""

    def read(self, body: Body) -> ConnectFlags:
        """The lowest bit must not be set; those of a will, only if there is one."""
        byte = U8.read(body)
        flags = ConnectFlags(
            clean_start=bool(byte & 0x02),
            has_will=bool(byte & 0x04),
            will_qos=byte >> 3 & 3,
            will_retain=bool(byte & 0x20),
            has_password=bool(byte & 0x40),
            has_username=bool(byte & 0x80),
        )
        if byte & 0x01:  # MQTT-3.1.2-3
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a reserved flag")
        if flags.will_qos == QOS_3:  # MQTT-3.1.2-12
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a will with QoS 3")
        if not flags.has_will and (flags.will_qos or flags.will_retain):  # MQTT-3.1.2-11, -13
            raise Malformed(ReasonCode.MALFORMED_PACKET, "flags of a will that is not there")
        return flags

    def write(self, value: ConnectFlags, version: Version) -> bytes:
        """One byte."""
        if not 0 <= value.will_qos < QOS_3:
            raise Unencodable(f"a will with QoS {value.will_qos}")
        byte = value.clean_start << 1
        byte |= value.has_will << 2
        byte |= value.will_qos << 3
        byte |= value.will_retain << 5
        byte |= value.has_password << 6
        byte |= value.has_username << 7
        return bytes([byte])


@immutable
class Will:
    """A message that the server publishes if the connection ends without a normal DISCONNECT.

    Attributes:
        topic: as in PUBLISH, and so are the next three.
        payload: at most 65,535 bytes.
        qos: 0 to 2.
        retain: whether it is retained.
        properties: of version 5; they include the delay.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class WillMessage(WireType):
    """A will but for its flags."""

    def read(self, body: Body) -> Will:
        """Properties, topic, payload."""
        properties = NO_PROPERTIES
        if body.version is Version.MQTT_5:
            properties = WILL_PROPERTIES.read(body)
        topic = TEXT.read(body)
        payload = BINARY.read(body)
        return Will(topic, payload, properties=properties)

    def write(self, value: Will, version: Version) -> bytes:
        """Properties, topic, payload."""
        data = bytearray()
        if version is Version.MQTT_5:
            data += WILL_PROPERTIES.write(value.properties, version)
        data += TEXT.write(value.topic, version)
        data += BINARY.write(value.payload, version)
        return bytes(data)


# -- SUBSCRIBE and UNSUBSCRIBE ---------------------------------------------------------------------


@immutable
class Subscription:
    """A filter, and what is wanted of the messages that match it.

    Attributes:
        filter: which topics are wanted. Whether it is valid is for the server to judge.
        qos: the highest with which messages are sent.
        no_local: whether the client's own messages are left out.
        retain_as_published: whether messages keep the retain flag with which they were published.
        retain_handling: when retained messages are sent: 0, at every SUBSCRIBE; 1, if the
            subscription is new; 2, never.
    """

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0

    @property
    def problem(self) -> str | None:
        """What the standard forbids; None if nothing."""
        if not 0 <= self.qos <= 2:
            return f"a subscription with QoS {self.qos}"
        if not 0 <= self.retain_handling <= 2:
            return f"retain handling {self.retain_handling}"
        if self.no_local and self.filter.startswith("$share/"):  # MQTT-3.8.3-4
            return "no local with a shared subscription"
        return None


class Subscriptions(WireType):
    """Up to the end of the packet: a filter, and a byte of options."""

    def read(self, body: Body) -> tuple[Subscription, ...]:
        """At least one (MQTT-3.8.3-2)."""
        found = []
        while not body.is_read:
            name = TEXT.read(body)
            options = U8.read(body)
            found.append(self._subscription(body.version, name, options))
        if not found:
            raise Malformed(ReasonCode.PROTOCOL_ERROR, "a SUBSCRIBE without filters")
        return tuple(found)

    def _subscription(self, version: Version, name: str, options: int) -> Subscription:
        known = 0b0011_1111
        if version is Version.MQTT_3_1_1:
            known = 0b0000_0011
        if options & ~known:  # MQTT-3.8.3-5; MQTT-3-8.3-4 in 3.1.1
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a reserved bit of a subscription")
        subscription = Subscription(
            name,
            qos=options & 3,
            no_local=bool(options & 0x04),
            retain_as_published=bool(options & 0x08),
            retain_handling=options >> 4,
        )
        problem = subscription.problem
        if problem is not None:
            raise Malformed(ReasonCode.PROTOCOL_ERROR, problem)
        return subscription

    def write(self, value: Sequence[Subscription], version: Version) -> bytes:
        """3.1.1 has nothing but the QoS."""
        if not value:
            raise Unencodable("a SUBSCRIBE without filters")
        data = bytearray()
        for each in value:
            if each.problem is not None:
                raise Unencodable(each.problem)
            options = each.qos
            if version is Version.MQTT_5:
                options |= each.no_local << 2
                options |= each.retain_as_published << 3
                options |= each.retain_handling << 4
            data += TEXT.write(each.filter, version) + U8.write(options, version)
        return bytes(data)


class Filters(WireType):
    """Up to the end of the packet: filters."""

    def read(self, body: Body) -> tuple[str, ...]:
        """At least one (MQTT-3.10.3-2)."""
        found = []
        while not body.is_read:
            found.append(TEXT.read(body))
        if not found:
            raise Malformed(ReasonCode.PROTOCOL_ERROR, "an UNSUBSCRIBE without filters")
        return tuple(found)

    def write(self, value: Sequence[str], version: Version) -> bytes:
        """One after the other."""
        if not value:
            raise Unencodable("an UNSUBSCRIBE without filters")
        data = bytearray()
        for each in value:
            data += TEXT.write(each, version)
        return bytes(data)


# -- reason codes ----------------------------------------------------------------------------------


class ReasonCodeOf(WireType):
    """A byte that is one of a packet's reason codes.

    Args:
        kind: the type of packet.
    """

    def __init__(self, kind: PacketType) -> None:
        super().__init__("reason code")
        self._kind = kind
        in_5 = {int(code): code for code in ALLOWED[kind]}
        if kind is PacketType.CONNACK:
            in_3_1_1 = RETURN_CODES
            self._refusal = ReasonCode.SERVER_UNAVAILABLE
        else:
            # SUBACK has one refusal there. No other packet has codes.
            in_3_1_1 = {byte: code for byte, code in in_5.items() if byte <= REFUSED}
            self._refusal = REFUSED
        self._codes = {Version.MQTT_3_1_1: in_3_1_1, Version.MQTT_5: in_5}
        self._bytes_3_1_1 = {code: bytes([byte]) for byte, code in in_3_1_1.items()}

    def read(self, body: Body) -> ReasonCode:
        """No other packet's."""
        byte = U8.read(body)
        code = self._codes[body.version].get(byte)
        if code is None:
            text = f"0x{byte:02x}, which is no reason code of {self._kind.name}"
            raise Malformed(ReasonCode.PROTOCOL_ERROR, text)
        return code

    def write(self, value: ReasonCode, version: Version) -> bytes:
        """3.1.1 has few refusals; any other is sent as the most general one."""
        if value not in ALLOWED[self._kind]:
            raise Unencodable(f"{value!r} is no reason code of {self._kind.name}")
        if version is Version.MQTT_5:
            return bytes([value])
        if value not in self._bytes_3_1_1:
            return self._bytes_3_1_1[self._refusal]
        return self._bytes_3_1_1[value]


class ReasonCodesOf(WireType):
    """Up to the end of the packet: reason codes.

    Args:
        kind: the type of packet.
    """

    def __init__(self, kind: PacketType) -> None:
        super().__init__("reason codes")
        self._kind = kind
        self._one = ReasonCodeOf(kind)

    def read(self, body: Body) -> tuple[ReasonCode, ...]:
        """As many as there were filters: how many is not known here, but not none."""
        found = []
        while not body.is_read:
            found.append(self._one.read(body))
        if not found:
            raise Malformed(ReasonCode.PROTOCOL_ERROR, f"a {self._kind.name} without reason codes")
        return tuple(found)

    def write(self, value: Sequence[ReasonCode], version: Version) -> bytes:
        """One after the other."""
        if not value:
            raise Unencodable(f"a {self._kind.name} without reason codes")
        data = bytearray()
        for each in value:
            data += self._one.write(each, version)
        return bytes(data)


PROTOCOL = Protocol("protocol name and level")
CONNECT_FLAGS = ConnectFlagsByte("connect flags")
WILL_PROPERTIES = PropertiesOf(WILL)
WILL_MESSAGE = WillMessage("will")
SUBSCRIPTIONS = Subscriptions("subscriptions")
FILTERS = Filters("filters")
