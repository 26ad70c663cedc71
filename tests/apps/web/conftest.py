import pytest

from zaichik.apps.watch import polling
from zaichik.apps.web import hub
from zaichik.apps.web.interests import Interest, TopicInterest
from zaichik.core import replies
from zaichik_protocol import ErrorCode


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    """Nothing waits for the sake of the broker's time."""
    monkeypatch.setattr(polling, "REST", 0)
    monkeypatch.setattr(polling, "MESSAGES_SECONDS", 0)
    monkeypatch.setattr(hub, "RECONNECT_S", (0.01, 0.02))
    for interest in (Interest, TopicInterest):
        monkeypatch.setattr(interest, "seconds", 0.01)


@pytest.fixture
def refused_once(monkeypatch):
    """A batch that a topic has no room for is not sent again during a step, however long that
    takes.

    A stage withdraws it before the client would try again, which is after 50 ms of the machine's
    time.
    """
    monkeypatch.setitem(replies.RETRY_AFTER_MS, ErrorCode.TOPIC_FULL, 3_600_000)
