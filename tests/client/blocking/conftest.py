"""A broker and a client, and the guard of tests whose calls wait in the main thread, where no
deadline of an event loop reaches them.
"""

import signal

import pytest
from embedded import embedded_broker

from zaichik.client import blocking

GUARD = 120  # seconds after which a test that hangs has failed
AGAIN = 10  # seconds after which clearing up that hangs as well is interrupted, too


@pytest.fixture(autouse=True)
def _guard():
    """Interrupts a test that hangs, and the fixtures made after this one, as Ctrl-C would: all
    blocks are cancelled.
    """

    def give_up(*_):
        pytest.fail(f"it hangs: nothing came of it within {GUARD} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, GUARD, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _nothing_regular():
    """Sweeps and regular commits happen here, unlike in the tests of the asynchronous client."""


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


@pytest.fixture
def client(broker):
    with blocking.connect(port=broker.port) as client:
        yield client
