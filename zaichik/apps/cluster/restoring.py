"""A shard whose machine is lost is placed on this one, with the folder that was made again.

First the folder, then the record: whoever reads the record may start the broker. The generation
rises by two, so that it is larger than what a node that was cut off may say of itself (CL-5).
"""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from zaichik.apps.cluster.engine import Engine, Stale
from zaichik.apps.cluster.records import (
    FEATURES,
    MACHINES,
    Features,
    Placement,
    Presence,
    Unreadable,
    machine_path,
    shard_path,
)
from zaichik.client.cluster.hashing import shard_of

# A node that is cut off may say one more than is recorded (its broker has another address).
RESTORED = 2


class CannotRestore(Exception):
    """The shard stays where it is. The text says why and what to do."""


async def restore_shard(
    engine: Engine,
    shard: int,
    *,
    machine: str,
    identity: str,
    folder: Path,
    address: str,
    topics: Sequence[str],
    make: Callable[[Path], Awaitable[None]],
    now_us: int,
) -> Placement:
    """Returns the placement of a shard on this machine, after its folder was made.

    A node that runs here starts its broker then; it need not run.

    Args:
        engine: what nodes agree through.
        shard: which one.
        machine: this machine's name.
        identity: that of its data folder.
        folder: the shard's folder here, which must not exist yet.
        address: HOST:PORT of the shard's broker here.
        topics: those that the folder will have, as far as is known.
        make: makes the folder at a path beside that; what it leaves if it fails is removed.
        now_us: the time.

    Raises:
        CannotRestore: it is here already, its machine is there, the folder exists, a topic belongs
            to another shard, or a record cannot be read.
        Incompatible: see `Features`.
        Away, Denied: see `Engine`.
    """
    placement, version = await _placed(engine, shard, topics)
    if (placement.machine, placement.folder) == (machine, identity):
        raise CannotRestore(f"shard {shard} is placed on this machine already")
    await _check_gone(engine, shard, placement)
    part = _part(folder)
    try:
        await make(part)
        # That may have taken an hour.
        await _check_gone(engine, shard, placement)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    part.rename(folder)
    generation = placement.generation + RESTORED
    restored = Placement(machine, identity, generation, address, now_us)
    try:
        await engine.set(shard_path(shard), restored.encoded(), version)
    except Stale:
        raise CannotRestore(
            f"shard {shard} was placed anew meanwhile, and stays there; {folder} is not used"
        ) from None
    return restored


def _part(folder: Path) -> Path:
    """Returns where a folder is made, before it gets its name."""
    if folder.exists():
        raise CannotRestore(
            f"{folder} is there already; look at it with `zaichik check`, and move it away first"
        )
    part = folder.with_name(f"{folder.name}.part")
    if part.exists():
        raise CannotRestore(f"{part} is left of an attempt that was interrupted; remove it first")
    return part


async def _placed(engine: Engine, shard: int, topics: Sequence[str]) -> tuple[Placement, int]:
    features = await engine.get(FEATURES)
    if features is None:
        raise CannotRestore("there is no cluster at this path of ZooKeeper")
    try:
        shards = Features.parse(features.data).shards
    except Unreadable as error:
        raise CannotRestore(f"what is at {FEATURES} is not a cluster's: {error}") from None
    if shard >= shards:
        raise CannotRestore(
            f"there is no shard {shard}: this cluster has {shards}, from 0 to {shards - 1}"
        )
    for topic in topics:
        if shard_of(topic, shards) != shard:
            raise CannotRestore(
                f"the topic {topic} belongs to shard {shard_of(topic, shards)}, not to {shard}"
            )
    record = await engine.get(shard_path(shard))
    if record is None:
        raise CannotRestore(
            f"shard {shard} has never been on any machine; a node that has room for it takes it"
        )
    try:
        return Placement.parse(record.data), record.version
    except Unreadable as error:
        raise CannotRestore(
            f"the record at {shard_path(shard)} cannot be read: {error}; if you delete it, the "
            "node that has the shard writes it again"
        ) from None


async def _check_gone(engine: Engine, shard: int, placement: Placement) -> None:
    """Check that the machine that has a shard is not there: two would serve it."""
    if placement.machine not in await engine.children(MACHINES):
        return
    record = await engine.get(machine_path(placement.machine))
    try:
        is_there = record is not None and Presence.parse(record.data).folder == placement.folder
    except Unreadable:
        is_there = True
    if is_there:
        raise CannotRestore(
            f"shard {shard} is at machine {placement.machine}, which is there: stop its node first"
        )
