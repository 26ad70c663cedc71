"""The guard of tests whose calls wait in the main thread, where no deadline of an event loop reaches them."""

import signal

import pytest

GUARD = 60  # seconds after which a test that hangs has failed
AGAIN = 10  # seconds after which clearing up that hangs as well is interrupted, too


@pytest.fixture(autouse=True)
def _guard():
    """Interrupts a test that hangs, and the fixtures made after this one, as Ctrl-C would: all blocks are cancelled."""

    def give_up(*_):
        pytest.fail(f"it hangs: nothing came of it within {GUARD} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, GUARD, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
