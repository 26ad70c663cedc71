"""A shard whose machine is lost, on another one."""

import anyio
import pytest
from machines import topic_of

from zaichik.apps.cluster.alone import FileEngine
from zaichik.apps.cluster.records import (
    FEATURES,
    Features,
    Placement,
    Presence,
    machine_path,
    shard_path,
)
from zaichik.apps.cluster.restoring import CannotRestore, restore_shard

LOST = Placement("a", "A", 3, "a:1", 5)


async def make(path):
    await anyio.Path(path).mkdir()


def restored(
    folder,
    *,
    shard=0,
    features=True,
    record=LOST,
    present=None,
    topics=(),
    making=make,
    returning=None,
):
    async def run():
        engine = FileEngine(folder / "cluster.json")
        if features:
            await engine.create(FEATURES, Features(2, "x").encoded())
        if record is not None:
            data = record if isinstance(record, bytes) else record.encoded()
            await engine.create(shard_path(0), data)
        if present is not None:
            await engine.create(machine_path("a"), present)

        async def make(path):
            await making(path)
            if returning is not None:
                await engine.create(machine_path("a"), returning)

        placement = await restore_shard(
            engine,
            shard,
            machine="b",
            identity="B",
            folder=folder / "shard-0",
            address="b:1",
            topics=topics,
            make=make,
            now_us=9,
        )
        kept = await engine.get(shard_path(0))
        assert Placement.parse(kept.data) == placement
        return placement

    return anyio.run(run)


def test_it_is_placed_here_with_a_larger_generation_than_its_machine_may_say(tmp_path):
    """A node that is cut off says one more at most (CL-5)."""
    assert restored(tmp_path) == Placement("b", "B", 5, "b:1", 9)
    assert (tmp_path / "shard-0").is_dir()


def test_a_machine_that_is_there_keeps_it(tmp_path):
    for present in (Presence("A", "p").encoded(), b"rubbish"):
        with pytest.raises(CannotRestore, match="stop its node first"):
            restored(tmp_path, present=present)
        (tmp_path / "cluster.json").unlink()
    assert restored(tmp_path, present=Presence("new disk", "p").encoded()).machine == "b"


def test_a_machine_that_comes_back_meanwhile_keeps_it(tmp_path):
    """It may have acknowledged publishes since; to make the folder may have taken an hour."""
    with pytest.raises(CannotRestore, match="stop its node first"):
        restored(tmp_path, returning=Presence("A", "p").encoded())
    assert not (tmp_path / "shard-0.part").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"shard": 2}, "there is no shard 2: this cluster has 2, from 0 to 1"),
        ({"features": False, "record": None}, "there is no cluster"),
        ({"topics": [topic_of(0, 2), topic_of(1, 2)]}, "belongs to shard 1, not to 0"),
        ({"record": None}, "has never been on any machine"),
        ({"record": Placement("b", "B", 1, "b:1", 1)}, "is placed on this machine already"),
        ({"record": b"rubbish"}, "the record at /shards/0 cannot be read"),
    ],
)
def test_what_cannot_be_is_said(tmp_path, given, sentence):
    with pytest.raises(CannotRestore, match=sentence):
        restored(tmp_path, **given)
    assert not (tmp_path / "shard-0").exists()


def test_a_folder_that_is_there_is_not_touched(tmp_path):
    (tmp_path / "shard-0").mkdir()
    with pytest.raises(CannotRestore, match="is there already"):
        restored(tmp_path)
    (tmp_path / "shard-0").rmdir()
    (tmp_path / "shard-0.part").mkdir()
    with pytest.raises(CannotRestore, match="interrupted"):
        restored(tmp_path)


def test_what_is_left_of_a_folder_that_could_not_be_made_is_removed(tmp_path):
    async def fail(path):
        await make(path)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        restored(tmp_path, making=fail)
    assert not (tmp_path / "shard-0.part").exists()
    assert restored(tmp_path).machine == "b"


def test_a_shard_that_was_placed_meanwhile_stays_there(tmp_path):
    engine = FileEngine(tmp_path / "cluster.json")

    async def run():
        await engine.create(FEATURES, Features(2, "x").encoded())
        await engine.create(shard_path(0), LOST.encoded())

        async def take(path):
            await make(path)
            await engine.set(shard_path(0), Placement("c", "C", 9, "c:1", 1).encoded(), 0)

        await restore_shard(
            engine,
            0,
            machine="b",
            identity="B",
            folder=tmp_path / "shard-0",
            address="b:1",
            topics=(),
            make=take,
            now_us=9,
        )

    with pytest.raises(CannotRestore, match="placed anew meanwhile"):
        anyio.run(run)
