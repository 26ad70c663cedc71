"""Threads that follow a seed: each runs only while the event loop waits for it, from one call of
the disk to the next.

They are real threads, because the code under test is to be the real one; but of all threads of the
process, one runs at a time, and the loop decides which, and when. So a call of the disk takes
simulated time, others work meanwhile, and the power may be cut in the middle of it.
"""

import threading

from sim_disk import Crash


class Worker(threading.Thread):
    """A thread that does one piece of work, and stops at each call of the disk.

    Args:
        work: what it does.
        time: simulated seconds, called by the event loop.

    Attributes:
        call: of the disk, that it is in the middle of: the method and the path; None when the work
            is done.
        now: simulated seconds: the thread cannot ask.
        found: the first anomaly that has shown in it.
        is_done: whether the thread has ended.
        is_killed: whether the power was cut before that.
    """

    def __init__(self, work, time):
        super().__init__(daemon=True)
        self._work, self._time = work, time
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._fault = self._result = self._error = None
        self.call = None
        self.now = 0.0
        self.found = None
        self.is_done = False
        self.is_killed = False

    def run(self):
        try:
            self._result = self._work()
        except BaseException as error:  # whatever it is, it is raised in `result`
            self._error = error
        self.call, self.is_done = None, True
        self._paused.release()

    # -- in the thread ---------------------------------------------------------------------------

    def stop_at(self, call):
        """Stop in the middle of a call. Returns how it is to end."""
        self.call = call
        self._paused.release()
        self._go.acquire()
        return self._fault

    # -- in the event loop -----------------------------------------------------------------------

    def go_on(self, fault=None):
        """End the call under way, with that error if there is one; returns when it is in the middle
        of the next one.
        """
        assert not self.is_done, "nobody would say that it is in the middle of a call"
        self._fault, self.now = fault, self._time()
        if self.ident is None:
            self.start()
        else:
            self._go.release()
        self._paused.acquire()

    def kill(self):
        """The power is cut: whatever call it is in the middle of, it does not get to its end."""
        if self.is_done:
            return
        self.is_killed = True
        while self.ident is not None and not self.is_done:
            self.go_on(Crash())

    def result(self):
        """What has come of the work, when it is done."""
        if self._error is not None:
            raise self._error
        return self._result


def under_way(*call):
    """What a `SimDisk` is to call: a worker stops there; anybody else, who is the event loop, does
    not.
    """
    worker = threading.current_thread()
    return worker.stop_at(call) if isinstance(worker, Worker) else None
