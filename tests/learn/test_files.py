"""Which changes below the learner's folder have the checks run again."""

import anyio
import pytest

from zaichik.learn import files

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "written", ["server.log", "learn-progress.json", "target/debug/broker", ".git/index"]
)
async def test_what_changes_because_checks_are_run_does_not_run_them_again(
    tmp_path, monkeypatch, written
):
    """The system tells of two changes: the first one must be passed over."""
    watchfiles = pytest.importorskip("watchfiles")
    told = []

    async def awatch(folder, *, watch_filter, **_):
        for name in (written, "src/broker.rs"):
            if watch_filter(watchfiles.Change.modified, str(folder / name)):
                told.append(name)
                yield

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    with anyio.fail_after(20):
        assert [change async for change in files.changes(tmp_path)] == [None]
    assert told == ["src/broker.rs"]
