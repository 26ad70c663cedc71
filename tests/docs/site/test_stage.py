"""Python for browsers is the one that is known here, or there is no stage."""

import os

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


def test_a_download_that_does_not_end_is_given_up(tmp_path, monkeypatch):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    npm.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(stage.shutil, "which", lambda name: name)
    monkeypatch.setattr(stage, "DOWNLOAD_S", 0.1)
    with pytest.raises(stage.NoPyodide, match=r"npm pack .* did not end within 0\.1 s"):
        stage.obtain(tmp_path)
