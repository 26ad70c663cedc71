"""The records that nodes agree through, and where they are.

/features        what all nodes have agreed on; its version is the epoch
/machines/NAME   who is present; deleted when its session ends
/shards/N        where a shard is placed, changed by version only
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from zaichik.base.json_text import NotJson, parsed_object
from zaichik.client.cluster.map import MOST_SHARDS, is_address

FEATURES = "/features"
MACHINES = "/machines"
SHARDS = "/shards"

FORMAT = 1
HASH = "blake2b-8"  # see zaichik.client.cluster.hashing


class Unreadable(Exception):
    """A record is not what belongs at its path. The text says why."""


class Incompatible(Exception):
    """The cluster has agreed on something that this program cannot do. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Features:
    """What all nodes of a cluster have agreed on.

    A later version of zaichik may add names; those that it does not know a node ignores.

    Attributes:
        shards: how many there are; topics are spread over them, so it never changes.
        cluster: the identity of the cluster, drawn by its first node: a folder belongs to one.
    """

    shards: int
    cluster: str

    def encoded(self) -> bytes:
        """Returns the record, which `parse` reads."""
        return _encoded(
            {"format": FORMAT, "hash": HASH, "shards": self.shards, "cluster": self.cluster}
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Returns the features in a record.

        Raises:
            Incompatible: they are of another format, or have another hash.
            Unreadable: it is no such record.
        """
        fields = _parsed(data)
        if "format" not in fields:
            raise Unreadable('it has no "format"')
        if fields["format"] != FORMAT:
            raise Incompatible(
                f"this cluster has format {fields['format']!r}, and this version of zaichik knows "
                f"only {FORMAT}: upgrade this machine"
            )
        if fields.get("hash") != HASH:
            raise Incompatible(
                f"this cluster places topics by {fields.get('hash')!r}, and this version of "
                f"zaichik only by {HASH!r}: upgrade this machine"
            )
        shards = _number(fields, "shards")
        if not 0 < shards <= MOST_SHARDS:
            raise Unreadable(f'its "shards" is not a number from 1 to {MOST_SHARDS}')
        return cls(shards, _text(fields, "cluster"))


@dataclass(frozen=True, slots=True)
class Presence:
    """A machine that is there, for as long as its session.

    Attributes:
        folder: the identity of its data folder: of one name, another machine has another folder.
        process: the identity of its process.
    """

    folder: str
    process: str

    def encoded(self) -> bytes:
        """Returns the record, which `parse` reads."""
        return _encoded({"format": FORMAT, "folder": self.folder, "process": self.process})

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Returns the machine in a record.

        Raises:
            Unreadable: it is no such record.
        """
        fields = _parsed(data)
        return cls(_text(fields, "folder"), _text(fields, "process"))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a shard is.

    Attributes:
        machine: the name of the machine that has it.
        folder: the identity of that machine's folder; without it, a machine of the same name with
            an empty disk would serve the shard's topics as if they had never been.
        generation: rises with every change; the larger one is right.
        address: HOST:PORT of its broker.
        since_us: when it was placed there, in µs since 1970, by that machine's clock.
    """

    machine: str
    folder: str
    generation: int
    address: str
    since_us: int

    def encoded(self) -> bytes:
        """Returns the record, which `parse` reads."""
        return _encoded(
            {
                "format": FORMAT,
                "machine": self.machine,
                "folder": self.folder,
                "generation": self.generation,
                "address": self.address,
                "since_us": self.since_us,
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Returns the placement in a record.

        Raises:
            Unreadable: it is no such record.
        """
        fields = _parsed(data)
        if fields.get("format") != FORMAT:
            raise Unreadable(f"it has the unknown format {fields.get('format')!r}")
        address = _text(fields, "address")
        # Clients would refuse the whole map for it.
        if not is_address(address):
            raise Unreadable('its "address" is not HOST:PORT')
        return cls(
            _text(fields, "machine"),
            _text(fields, "folder"),
            _number(fields, "generation"),
            address,
            _number(fields, "since_us"),
        )


def shard_path(shard: int) -> str:
    """Returns where a shard's placement is."""
    return f"{SHARDS}/{shard}"


def shard_in(path: str) -> int | None:
    """Returns the number of the shard whose placement is at a path; None for any other path."""
    above, _, name = path.rpartition("/")
    if above != SHARDS or not (name.isascii() and name.isdigit()):
        return None
    return int(name)


def machine_path(name: str) -> str:
    """Returns where a machine says that it is there."""
    return f"{MACHINES}/{name}"


def _encoded(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        return parsed_object(data)
    except NotJson as error:
        raise Unreadable(f"it is not JSON: {error}") from None


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise Unreadable(f'its "{name}" is not a number from 0 to 2^63 - 1')
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise Unreadable(f'its "{name}" is not text')
    # JSON may escape half of a character, which no map and no file could be written with.
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unreadable(f'its "{name}" has half of a character') from None
    return value
