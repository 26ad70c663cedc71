"""Python for browsers is the one that is known here, or there is no stage."""

import pytest

from docs.site import stage


@pytest.fixture
def downloaded(monkeypatch):
    """Pyodide's package is what the test says."""

    def as_(content):
        def download(folder):
            (folder / "package.tgz").write_bytes(content)
            return "package.tgz"

        monkeypatch.setattr(stage, "_downloaded", download)
        monkeypatch.setattr(stage.shutil, "which", lambda name: name)

    return as_


def test_another_package_than_ours_is_refused(tmp_path, downloaded):
    downloaded(b"somebody else's")
    with pytest.raises(stage.NoPyodide, match="is not the pyodide@"):
        stage.obtain(tmp_path)


def test_without_node_there_is_no_stage(tmp_path, monkeypatch):
    monkeypatch.setattr(stage.shutil, "which", lambda _: None)
    with pytest.raises(stage.NoPyodide, match=r"no Node\.js"):
        stage.obtain(tmp_path)


def test_it_is_downloaded_once(tmp_path, downloaded):
    downloaded(b"never asked for")
    (tmp_path / stage.PYODIDE).mkdir()
    assert stage.obtain(tmp_path) == tmp_path / stage.PYODIDE
