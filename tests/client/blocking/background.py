"""Threads beside the one that tests run in."""

import os
import signal
import threading

GUARD = 60  # seconds after which a thread that hangs has failed


def in_the_background(call):
    """Start a thread; returns a function that waits for it and returns its outcome."""
    outcome = []

    def run():
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def finished():
        thread.join(GUARD)
        return outcome[0]

    return finished


def interrupt_when(condition, number=signal.SIGINT):
    """Send this process a signal as soon as the condition holds; returns the thread that does."""

    def wait():
        while not condition():
            pass
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread
