"""The map of a cluster: where each shard is, in a message that every shard keeps.

    {"format": 1, "features": 0, "shards": [
        {"generation": 3, "address": "10.0.0.1:8900", "machine": "a", "since_us": 1796342400000000},
        {"generation": 0, "address": "", "machine": null, "since_us": 0}]}

It is the one message of the topic `cluster`. `features` counts what the nodes of the cluster have
agreed on: a map with a smaller number is out of date. A shard's `generation` rises whenever it is
given to a machine, so of two maps that differ about a shard, the one with the larger generation is
right about it: a node that is cut off from the others goes on to publish what it knew.
"""

# Not compiled: it is read once for each change of the cluster.

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from zaichik.base.json_text import NotJson, parsed_object
from zaichik.client.cluster.hashing import shard_of
from zaichik.client.endpoint import PLAIN, NotAnAddress, endpoint
from zaichik.client.errors import ClusterMapUnusable

TOPIC = "cluster"
FORMAT = 1
MOST_REMEMBERED = 4096  # addresses that were found to be some
MOST_SHARDS = 65_536  # so that no map makes a client reserve any amount of memory


@dataclass(frozen=True, slots=True)
class Shard:
    """Where a shard is.

    Attributes:
        generation: how often it was given to a machine; the larger one is right.
        address: HOST:PORT of its broker; "": it has never had one.
        machine: the machine that has it; None: none has.
        since_us: when it was placed there, in µs since 1970 by the machine's clock; 0: unknown.
    """

    generation: int
    address: str
    machine: str | None = None
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """Where all shards are.

    Attributes:
        features: how often the nodes have agreed on something new; the larger one is right.
        shards: by their numbers.
    """

    features: int
    shards: tuple[Shard, ...]

    def shard_of(self, topic: str) -> int:
        """Returns the number of the shard that a topic belongs to."""
        return shard_of(topic, len(self.shards))

    def encoded(self) -> bytes:
        """Returns the message's payload, which `parse` reads."""
        shards = [
            {
                "generation": shard.generation,
                "address": shard.address,
                "machine": shard.machine,
                "since_us": shard.since_us,
            }
            for shard in self.shards
        ]
        described = {"format": FORMAT, "features": self.features, "shards": shards}
        return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Returns the map in a message.

        Raises:
            ClusterMapUnusable: it is of another format, or none.
        """
        try:
            fields = parsed_object(payload)
        except NotJson as error:
            raise _damaged(f"it is not JSON: {error}") from None
        if "format" not in fields:
            raise _damaged('it has no "format"')
        if fields["format"] != FORMAT:
            raise ClusterMapUnusable(
                f"the cluster's map has format {fields['format']!r}, and this version knows only "
                f"{FORMAT}: upgrade zaichik here"
            )
        features = _number(fields, "features")
        described = fields.get("shards")
        if not isinstance(described, list) or not 0 < len(described) <= MOST_SHARDS:
            raise _damaged(f'its "shards" are not a list of 1 to {MOST_SHARDS} shards')
        return cls(features, tuple(_shard(place) for place in described))

    def updated(self, other: Self) -> Self:
        """Returns what is known after another map has come: of each shard, the later generation.

        A map with older features changes nothing.

        Raises:
            ClusterMapUnusable: it is of another cluster, or this one was made anew: it has another
                number of shards, so topics are elsewhere.
        """
        if other.features < self.features:
            return self
        if len(other.shards) != len(self.shards):
            raise ClusterMapUnusable(
                f"the cluster had {len(self.shards)} shards, and a map says that it has "
                f"{len(other.shards)}: that is another cluster; connect again to use it"
            )
        pairs = zip(self.shards, other.shards, strict=True)
        return type(self)(other.features, tuple(_later(ours, theirs) for ours, theirs in pairs))


def _later(ours: Shard, theirs: Shard) -> Shard:
    if theirs.generation < ours.generation:
        return ours
    if theirs.generation == ours.generation and not theirs.address:
        # Of one generation, who knows the address knows more.
        return ours
    return theirs


def _shard(described: Any) -> Shard:
    if not isinstance(described, dict):
        raise _damaged("a shard is not an object")
    generation = _number(described, "generation")
    address = described.get("address") or ""
    machine = described.get("machine")
    since_us = 0
    if "since_us" in described:
        since_us = _number(described, "since_us")
    if not isinstance(address, str) or not (machine is None or isinstance(machine, str)):
        raise _damaged("a shard's address or machine is not text")
    if address and not is_address(address):
        raise _damaged("a shard's address is not HOST:PORT")
    return Shard(generation, address, machine, since_us)


# One map after the other has the same addresses, and there may be a thousand.
@lru_cache(maxsize=MOST_REMEMBERED)
def is_address(address: str) -> bool:
    """Returns whether that is HOST:PORT, without TLS or a login: those are the client's."""
    try:
        return endpoint(address) == endpoint(f"{PLAIN}://{address}")
    except NotAnAddress:
        return False


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise _damaged(f'its "{name}" is not a number from 0 to 2^63 - 1')
    return value


def _damaged(problem: str) -> ClusterMapUnusable:
    return ClusterMapUnusable(
        f"the message in the topic {TOPIC!r} is not the map of a cluster: {problem}"
    )
