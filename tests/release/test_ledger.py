"""`sha256sum` reads the checksums of a release, and its list of packages names no file."""

import shutil
import subprocess

import pytest

from release.ledger import checksums, without_files

pytestmark = pytest.mark.unmeasured


def test_sha256sum_finds_a_file_that_was_changed(tmp_path):
    if shutil.which("sha256sum") is None:
        pytest.skip("this machine has no sha256sum")
    files = [tmp_path / name for name in ("a.whl", "b.tar.gz")]
    for file in files:
        file.write_bytes(file.name.encode())
    (tmp_path / "SHA256SUMS").write_text(checksums(files), encoding="utf-8")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    files[1].write_bytes(b"another")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_no_file_of_the_machine_that_made_it_is_in_the_list():
    source = {"type": "vcs", "url": "https://forge.invalid/zaichik"}
    wheel = {"type": "distribution", "url": "file:///tmp/zaichik-0.3.0-py3-none-any.whl"}
    package = {"name": "zaichik", "externalReferences": [source, wheel]}
    found = without_files({"metadata": {"component": package}, "components": [package]})
    kept = {"name": "zaichik", "externalReferences": [source]}
    assert found == {"metadata": {"component": kept}, "components": [kept]}
