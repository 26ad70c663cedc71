"""A linked folder is a list of its files, in a clone or not, with git or without."""

import shutil
import subprocess

import pytest

from docs.site import sources

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder with a module, and what Python has left beside it."""
    root = tmp_path / "repository"
    cache = root / "code" / "__pycache__"
    cache.mkdir(parents=True)
    (root / "code" / "ring.py").write_text("SIZE = 3\n", encoding="utf-8")
    (cache / "ring.pyc").write_bytes(b"\xff")
    monkeypatch.setattr(sources, "ROOT", root)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)  # a hook of git, which may run tests, sets them
    return root


def listed(repository):
    """Returns the folder's page, and makes the pages of its files."""
    site = repository.parent / "site"
    sources.write({repository / "code"}, site)
    assert "SIZE" in (site / "source" / "code" / "ring.py.html").read_text(encoding="utf-8")
    return (site / "source" / "code" / "index.html").read_text(encoding="utf-8")


@needs_git
def test_files_that_git_does_not_track_are_left_out(repository):
    (repository / "code" / "notes.txt").write_text("mine", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)
    subprocess.run(["git", "add", "code/ring.py"], cwd=repository, check=True)
    page = listed(repository)
    assert page.count("<li>") == 1
    assert '<a href="ring.py.html">ring.py</a>' in page


def test_without_a_clone_all_but_caches_is_listed(repository):
    page = listed(repository)
    assert page.count("<li>") == 1
    assert '<a href="ring.py.html">ring.py</a>' in page


def test_without_git_too(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert listed(repository).count("<li>") == 1


@needs_git
def test_and_in_the_clone_of_another_project(repository):
    subprocess.run(["git", "init", "--quiet"], cwd=repository.parent, check=True)
    assert listed(repository).count("<li>") == 1
