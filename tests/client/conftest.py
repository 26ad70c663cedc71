"""What all tests of the client share."""

import pytest

from zaichik.client import client
from zaichik.server import server


@pytest.fixture(autouse=True)
def _nothing_regular(monkeypatch, request):
    """What happens once in a while by itself must not happen between two steps of a slow test.

    The sweep frees what nobody waits for in topics without retention. A commit has more delivered,
    so there are regular ones only in tests whose names say so. Ten times a second, they could also
    keep `anyio.wait_all_tasks_blocked` waiting for ever: after a pause of the machine it looks just
    when they are due, and a tenth of a second later again.
    """
    monkeypatch.setattr(server, "SWEEP_SECONDS", 3600)
    if "regular" not in request.node.name:
        monkeypatch.setattr(client, "COMMIT_SECONDS", 3600)
