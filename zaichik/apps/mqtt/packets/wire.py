"""The types of fields: how MQTT writes numbers, texts and bytes (section 1.5 of version 5).

Numbers are big-endian. Texts, which are UTF-8, and binary data follow their length in two bytes. A
*variable byte integer* has seven bits in each byte, the lowest first; the eighth bit says that
another byte follows, and there are four at most.

Each type reads itself from a `Body`, which is a packet's bytes and how far they have been read, and
writes a value as bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import Any, Final

from zaichik.apps.mqtt.packets.codes import ReasonCode, Version
from zaichik.apps.mqtt.packets.errors import Malformed, Unencodable

LARGEST_VARINT: Final = 268_435_455  # 2**28 - 1: four bytes of seven bits


class Body:
    """The bytes of a packet after its fixed header, and how far they have been read.

    Args:
        version: in which they are written.
        data: bytes, in which the body lies.
        at: where it begins.
        end: where it ends.
    """

    __slots__ = ("at", "data", "end", "version")

    def __init__(self, version: Version, data: bytes, at: int, end: int) -> None:
        self.version = version
        self.data = data
        self.at = at
        self.end = end

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self.at == self.end

    def take(self, size: int) -> bytes:
        """Returns the next bytes, that many.

        Raises:
            Malformed: there are fewer.
        """
        begin = self.at
        stop = begin + size
        if stop > self.end:
            raise cut_off()
        self.at = stop
        return self.data[begin:stop]

    def byte(self) -> int:
        """Returns the next byte.

        Raises:
            Malformed: there is none.
        """
        at = self.at
        if at == self.end:
            raise cut_off()
        self.at = at + 1
        return self.data[at]


def cut_off() -> Malformed:
    """Returns what is wrong with a packet that ends too early."""
    return Malformed(ReasonCode.MALFORMED_PACKET, "the packet ends within a field")


class WireType(ABC):
    """How values of one type are written.

    Attributes:
        name: what documents call it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def read(self, body: Body) -> Any:
        """Returns the value that comes next.

        Raises:
            Malformed: these bytes are none of this type.
        """

    @abstractmethod
    def write(self, value: Any, version: Version) -> bytes:
        """Returns the bytes of a value.

        Raises:
            Unencodable: it does not fit.
        """


class Integer(WireType):
    """A number of one, two or four bytes.

    Args:
        name: what documents call it.
        letter: what the struct module calls it.
        smallest: 1 where the standard forbids 0.
        largest: the largest value that is allowed; None: all that fit.
        refusal: the reason code for those that are not.
    """

    def __init__(
        self,
        name: str,
        letter: str,
        smallest: int = 0,
        largest: int | None = None,
        refusal: ReasonCode = ReasonCode.PROTOCOL_ERROR,
    ) -> None:
        super().__init__(name)
        self._struct = Struct(">" + letter)
        self._smallest = smallest
        self._largest = 256**self._struct.size - 1
        if largest is not None:
            self._largest = largest
        self._refusal = refusal

    def read(self, body: Body) -> int:
        """Any bytes are a number, which must be allowed."""
        (value,) = self._struct.unpack(body.take(self._struct.size))
        if not self._smallest <= value <= self._largest:
            raise Malformed(self._refusal, f"{value}, which is no {self.name}")
        number: int = value
        return number

    def write(self, value: int, version: Version) -> bytes:
        """As many bytes for each."""
        if not self._smallest <= value <= self._largest:
            raise Unencodable(f"{value} is no {self.name}")
        return self._struct.pack(value)


class Boolean(WireType):
    """A byte that is 0 or 1.

    Args:
        name: what documents call it.
        refusal: the reason code for any other byte.
    """

    def __init__(self, name: str, refusal: ReasonCode = ReasonCode.PROTOCOL_ERROR) -> None:
        super().__init__(name)
        self._refusal = refusal

    def read(self, body: Body) -> bool:
        """Any other byte is an error."""
        byte = body.byte()
        if byte > 1:
            raise Malformed(self._refusal, f"{byte}, where only 0 and 1 are allowed")
        return byte == 1

    def write(self, value: bool, version: Version) -> bytes:  # noqa: FBT001 (it is the value)
        """One byte."""
        return bytes([value])


class VariableInteger(WireType):
    """A variable byte integer, in as few bytes as it can be (MQTT-1.5.5-1).

    Args:
        name: what documents call it.
        smallest: 1 where the standard forbids 0.
    """

    def __init__(self, name: str, smallest: int = 0) -> None:
        super().__init__(name)
        self._smallest = smallest

    def read(self, body: Body) -> int:
        """One to four bytes."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = body.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a number of more than four bytes")
        if byte == 0 and shift:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a number with a byte too many")
        if value < self._smallest:
            raise Malformed(ReasonCode.PROTOCOL_ERROR, f"{value}, which is no {self.name}")
        return value

    def write(self, value: int, version: Version) -> bytes:
        """Up to 268,435,455."""
        if not self._smallest <= value <= LARGEST_VARINT:
            raise Unencodable(f"{value} is no {self.name}")
        return varint(value)


def varint(value: int) -> bytes:
    """Returns a number, which must not be too large, as a variable byte integer."""
    if value <= 0x7F:
        return bytes((value,))
    if value <= 0x3FFF:
        return bytes((value & 0x7F | 0x80, value >> 7))
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


class Binary(WireType):
    """A length in two bytes, then that many bytes."""

    def read(self, body: Body) -> bytes:
        """Whatever they are."""
        # Two calls of `take` would do the same in twice the time, and most fields are of this type.
        data = body.data
        begin = body.at + 2
        stop = begin + int.from_bytes(data[body.at : begin])
        if stop > body.end or begin > body.end:
            raise cut_off()
        body.at = stop
        return data[begin:stop]

    def write(self, value: bytes, version: Version) -> bytes:
        """At most 65,535."""
        if len(value) > 0xFFFF:
            raise Unencodable(f"{len(value):,} bytes; 65,535 have a length")
        return len(value).to_bytes(2) + value


class Text(WireType):
    """UTF-8 without surrogates (MQTT-1.5.4-1) and without U+0000 (MQTT-1.5.4-2)."""

    def read(self, body: Body) -> str:
        """Python's own UTF-8 refuses surrogates and overlong forms, too."""
        data = BINARY.read(body)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a text that is not UTF-8") from None
        if "\0" in text:
            raise Malformed(ReasonCode.MALFORMED_PACKET, "a text with U+0000")
        return text

    def write(self, value: str, version: Version) -> bytes:
        """At most 65,535 bytes."""
        if "\0" in value:
            raise Unencodable("a text with U+0000")
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise Unencodable("a text with a surrogate") from None
        return BINARY.write(data, version)


class TopicName(Text):
    """A text that messages can be published to: not empty, and without wildcards."""

    def read(self, body: Body) -> str:
        """MQTT-3.3.2-14, MQTT-4.7.3-1."""
        text = super().read(body)
        if not _is_topic_name(text):
            raise Malformed(ReasonCode.PROTOCOL_ERROR, "a topic with a wildcard, or an empty one")
        return text

    def write(self, value: str, version: Version) -> bytes:
        """As any text."""
        if not _is_topic_name(value):
            raise Unencodable("a topic with a wildcard, or an empty one")
        return super().write(value, version)


def _is_topic_name(text: str) -> bool:
    return text != "" and "+" not in text and "#" not in text


class TextPair(WireType):
    """Two texts: a name and its value."""

    def read(self, body: Body) -> tuple[str, str]:
        """Each as a text."""
        name = TEXT.read(body)
        return name, TEXT.read(body)

    def write(self, value: tuple[str, str], version: Version) -> bytes:
        """Each as a text."""
        name, text = value
        return TEXT.write(name, version) + TEXT.write(text, version)


class Rest(WireType):
    """All the bytes up to the end of the packet."""

    def read(self, body: Body) -> bytes:
        """They are what they are."""
        return body.take(body.end - body.at)

    def write(self, value: bytes, version: Version) -> bytes:
        """Any bytes."""
        return value


U8 = Integer("u8", "B")
U16 = Integer("u16", "H")
U32 = Integer("u32", "I")
PACKET_ID = Integer("packet identifier", "H", smallest=1)
POSITIVE_U16 = Integer("positive u16", "H", smallest=1)
POSITIVE_U32 = Integer("positive u32", "I", smallest=1)
TOPIC_ALIAS = Integer("topic alias", "H", 1, refusal=ReasonCode.TOPIC_ALIAS_INVALID)
ZERO_OR_ONE = Integer("0 or 1", "B", largest=1)
BOOLEAN = Boolean("boolean")
SESSION_PRESENT = Boolean("session present", ReasonCode.MALFORMED_PACKET)  # among reserved bits
VARINT = VariableInteger("variable byte integer")
POSITIVE_VARINT = VariableInteger("positive variable byte integer", smallest=1)
TEXT = Text("text")
TOPIC_NAME = TopicName("topic name")
TEXT_PAIR = TextPair("pair of texts")
BINARY = Binary("binary data")
REST = Rest("rest")
