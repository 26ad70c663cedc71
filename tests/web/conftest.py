import pytest

from zaichik import polling
from zaichik.web import hub
from zaichik.web.interests import Interest, TopicInterest


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    """Nothing waits for the sake of the broker's time."""
    monkeypatch.setattr(polling, "REST", 0)
    monkeypatch.setattr(polling, "MESSAGES_SECONDS", 0)
    monkeypatch.setattr(hub, "RECONNECT_S", (0.01, 0.02))
    for interest in (Interest, TopicInterest):
        monkeypatch.setattr(interest, "seconds", 0.01)
