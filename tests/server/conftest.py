"""What all tests of serving share."""

import pytest

from zaichik.server import server


@pytest.fixture(autouse=True)
def _no_sweep(monkeypatch):
    """What the sweep does once a second must not happen between two steps of a slow test."""
    monkeypatch.setattr(server, "SWEEP_SECONDS", 3600)
