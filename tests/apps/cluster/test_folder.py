"""A node's folder, and a cluster of one machine."""

import anyio
import pytest

from zaichik.apps.cluster.alone import FileEngine
from zaichik.apps.cluster.coordinator import Known
from zaichik.apps.cluster.engine import Stale, State, StateChanged
from zaichik.apps.cluster.folder import Folder, UnusableFolder, identity_of
from zaichik.apps.cluster.records import Features, Placement

KNOWN = Known(Features(2, "x"), 3, {1: Placement("a", "A", 4, "a:1", 5)})


def test_a_folder_has_one_identity_and_one_machine(tmp_path):
    folder = Folder.opened(tmp_path / "new" / "data", "a")
    identity = folder.identity
    folder.close()
    again = Folder.opened(tmp_path / "new" / "data", "a")
    assert again.identity == identity
    again.close()
    with pytest.raises(UnusableFolder, match="write --machine a"):
        Folder.opened(tmp_path / "new" / "data", "b")
    assert identity_of(tmp_path / "other", "a") != identity


def test_one_process_has_a_folder(tmp_path):
    folder = Folder.opened(tmp_path, "a")
    with pytest.raises(UnusableFolder, match="another node uses"):
        Folder.opened(tmp_path, "a")
    folder.close()
    Folder.opened(tmp_path, "a").close()


def test_what_was_known_is_kept(tmp_path):
    folder = Folder.opened(tmp_path, "a")
    assert folder.known() is None
    folder.save(KNOWN)
    assert folder.known() == KNOWN
    assert folder.shard(3) == tmp_path / "shard-3"
    folder.close()


async def run_alone(path):
    async with FileEngine(path).running(lambda _: None):
        pass


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 1, "placements": 3}'])
def test_a_damaged_file_is_named(tmp_path, text):
    folder = Folder.opened(tmp_path, "a")
    (tmp_path / "known.json").write_text(text)
    with pytest.raises(UnusableFolder, match=r"known\.json is damaged"):
        folder.known()
    folder.close()
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(UnusableFolder, match=r"cluster\.json is damaged"):
        anyio.run(run_alone, tmp_path / "cluster.json")
    (tmp_path / "node.json").write_text(text)
    with pytest.raises(UnusableFolder, match=r"node\.json is damaged"):
        Folder.opened(tmp_path, "a")


def test_files_of_a_newer_version_are_refused(tmp_path):
    for name in ("node.json", "cluster.json"):
        (tmp_path / name).write_text('{"format": 2}')
    with pytest.raises(UnusableFolder, match="newer"):
        Folder.opened(tmp_path, "a")
    with pytest.raises(UnusableFolder, match="newer"):
        anyio.run(run_alone, tmp_path / "cluster.json")


def test_the_six_calls_on_a_file(tmp_path):
    async def use():
        engine = FileEngine(tmp_path / "cluster.json")
        events = []
        async with engine.running(events.append):
            assert (events, engine.state) == ([StateChanged(State.CONNECTED)], State.CONNECTED)
        assert await engine.create("/shards/0", b"x")
        assert not await engine.create("/shards/0", b"y")
        assert await engine.create("/machines/a", b"", ephemeral=True)
        assert await engine.set("/shards/0", b"z", 0) == 1
        for path, version in (("/shards/0", 0), ("/shards/9", 0)):
            with pytest.raises(Stale):
                await engine.set(path, b"", version)
        await engine.watch("/shards/0")
        assert await engine.children("/shards") == ["0"]
        assert await engine.children("/machines") == ["a"]
        later = FileEngine(tmp_path / "cluster.json")
        async with later.running(events.append):
            found = await later.get("/shards/0")
        assert (found.data, found.version) == (b"z", 1)
        assert await later.get("/machines/a") is None

    anyio.run(use)
