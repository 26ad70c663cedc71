"""Programs of a release run without anything of the clone, and their failures are told."""

import sys

import pytest

from release.environment import Failed, run

pytestmark = pytest.mark.unmeasured


def test_variables_that_lead_back_to_a_clone_are_not_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("ZAICHIK_TOKEN", "secret")
    monkeypatch.setenv("KEPT", "1")
    said = run(
        sys.executable,
        "-c",
        "import os; print(*sorted(os.environ))",
        cwd=tmp_path,
        seconds=60,
        MORE="1",
    )
    names = set(said.split())
    assert {"KEPT", "MORE"} <= names
    assert names.isdisjoint({"PYTHONPATH", "ZAICHIK_TOKEN"})


def test_a_program_that_fails_is_named_with_its_last_lines(tmp_path):
    script = "import sys; print(*range(100), sep='\\n', flush=True); sys.exit('out of order')"
    with pytest.raises(Failed) as caught:
        run(sys.executable, "-c", script, cwd=tmp_path, seconds=60)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("ended with exit code 1:")
    assert lines[-1] == "    out of order"
    assert len(lines) == 26


def test_a_program_that_does_not_end_is_named(tmp_path):
    with pytest.raises(Failed, match=r"-c while True: pass did not end within 0\.5 seconds"):
        run(sys.executable, "-c", "while True: pass", cwd=tmp_path, seconds=0.5)
