"""What all tests of the client share."""

import pytest

from zaichik.serving import server


@pytest.fixture(autouse=True)
def _no_sweep(monkeypatch):
    """The sweep frees what nobody waits for in topics without retention, also between two requests of a slow test."""
    monkeypatch.setattr(server, "SWEEP_SECONDS", 3600)
