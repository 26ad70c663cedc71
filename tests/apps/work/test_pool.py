"""A pool of jobs: how many at a time, what becomes of their messages, and how it ends."""

import errno
from math import inf
from types import SimpleNamespace

import anyio
import pytest

from zaichik.apps.work.command import Command
from zaichik.apps.work.job import Job
from zaichik.apps.work.pool import Phase, Pool
from zaichik_protocol import Outcome

pytestmark = pytest.mark.anyio

GUARD = 60  # seconds after which a pool that hangs fails its test
# It says a line once the signal no longer ends it.
STUBBORN = "trap '' TERM; echo; while :; do sleep 0.01; done"


class Message:
    """A message that notes how it was settled."""

    topic = "orders"

    def __init__(self, offset, payload=b"", key=None, counts=True):
        self.offset = offset
        self.payload = payload
        self.key = key
        self.outcome = None
        self._counts = counts

    async def settle(self, verdict):
        assert self.outcome is None
        await anyio.lowlevel.checkpoint()
        self.outcome = (verdict.outcome.name.lower(), *filter(None, [verdict.reason]))
        return self._counts


class Queue:
    """Messages to be taken one by one; it ends when it is drained."""

    def __init__(self, *messages):
        self.messages = list(messages)
        self.taken = 0
        self._drained = anyio.Event()

    async def __anext__(self):
        await anyio.lowlevel.checkpoint()
        if self.taken == len(self.messages):
            await self._drained.wait()
        if self._drained.is_set():
            raise StopAsyncIteration
        self.taken += 1
        return self.messages[self.taken - 1]

    def drain(self):
        self._drained.set()


class Report:
    """Notes what a pool reports, and waits for it."""

    def __init__(self):
        self.out = b""
        self.err = b""
        self.begun = []
        self.phases = []
        self.results = {}
        self.late = []
        self._changed = anyio.Event()

    async def pass_on(self, data):
        self.out += data
        self._change()

    async def pass_on_errors(self, data):
        self.err += data

    def enter(self, phase):
        self.phases.append(phase)

    async def drained(self):
        self._change()

    def started(self, message):
        self.begun.append(message.offset)

    async def settled(self, message, result, *, is_late):
        self.results[message.offset] = result.outcome
        if is_late:
            self.late.append(message.offset)
        self._change()

    def _change(self):
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, happened):
        with anyio.fail_after(GUARD):
            while not happened():
                await self._changed.wait()


@pytest.fixture
async def working():
    """Start a pool; it is drained when the test ends."""
    async with anyio.create_task_group() as tasks:
        pools = []

        def start(*words, messages=(), jobs=1, timeout=inf):
            report = Report()
            pool = Pool(Command(words), jobs, report, timeout)
            queue = Queue(*messages)
            ended = anyio.Event()

            async def run():
                await pool.run(queue)
                ended.set()

            tasks.start_soon(run)
            pools.append(pool)
            return SimpleNamespace(pool=pool, report=report, queue=queue, ended=ended)

        yield start
        for pool in pools:
            pool.kill()


async def end(work):
    with anyio.fail_after(GUARD):
        await work.ended.wait()


SCRIPT = 'read payload; eval "$payload"'


async def test_each_message_is_settled_by_the_exit_code_of_its_job(working):
    """SHR-12."""
    scripts = [b"exit 0", b"echo broken >&2; exit 3", b"echo bad >&2; exit 65", b"kill -9 $$"]
    messages = [Message(*pair) for pair in enumerate(scripts)]
    work = working("sh", "-c", SCRIPT, messages=messages)
    await work.report.until(lambda: len(work.report.results) == 4)
    assert [message.outcome for message in messages] == [
        ("done",),
        ("retry", "exit code 3: broken"),
        ("reject", "exit code 65: bad"),
        ("retry", "ended by SIGKILL"),
    ]
    assert list(work.report.results.values()) == [
        Outcome.DONE, Outcome.RETRY, Outcome.REJECT, Outcome.RETRY,
    ]  # fmt: skip
    assert work.report.err == b"broken\nbad\n"


async def test_so_many_jobs_run_at_a_time(working, tmp_path):
    """Each waits until all others of its round are there, so fewer would never end."""
    script = f"cd {tmp_path}; mkdir $1; while [ $(ls | wc -l) -lt 3 ]; do sleep 0.01; done; cat"
    messages = [Message(offset) for offset in range(3)]
    work = working("sh", "-c", script, "sh", "{offset}", messages=messages, jobs=3)
    await work.report.until(lambda: len(work.report.results) == 3)


async def test_no_more_than_so_many_jobs_run_at_a_time(working, tmp_path):
    """Each makes a folder of the same name, which only one can at a time."""
    script = f"mkdir {tmp_path}/alone && sleep 0.01 && rmdir {tmp_path}/alone"
    messages = [Message(offset) for offset in range(5)]
    work = working("sh", "-c", script, messages=messages, jobs=1)
    await work.report.until(lambda: len(work.report.results) == 5)
    assert set(work.report.results.values()) == {Outcome.DONE}


async def test_no_message_is_taken_before_there_is_a_place_for_it(working):
    messages = [Message(offset) for offset in range(5)]
    work = working("sh", "-c", "echo; sleep 1000", messages=messages, jobs=2)
    await work.report.until(lambda: work.report.out == b"\n\n")
    await anyio.wait_all_tasks_blocked()
    assert (work.queue.taken, work.pool.running) == (2, 2)


async def test_a_job_that_takes_too_long_is_tried_again(working):
    message = Message(0)
    work = working("sleep", "1000", messages=[message], timeout=0.01)
    await work.report.until(lambda: work.report.results)
    assert message.outcome == ("retry", "took longer than 0.01 s")


async def test_a_pool_that_drains_lets_its_jobs_finish(working, tmp_path):
    script = f"echo; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"
    messages = [Message(offset) for offset in range(5)]
    work = working("sh", "-c", script, messages=messages, jobs=2)
    await work.report.until(lambda: work.report.out == b"\n\n")
    work.pool.drain()
    await anyio.wait_all_tasks_blocked()
    assert not work.ended.is_set()
    (tmp_path / "go").touch()
    await end(work)
    assert [message.outcome for message in messages] == [("done",), ("done",), None, None, None]


async def test_an_idle_pool_that_drains_ends(working):
    work = working("true")
    await anyio.wait_all_tasks_blocked()
    work.pool.drain()
    await end(work)


async def test_a_pool_that_is_stopped_ends_its_jobs_and_gives_their_messages_back(working):
    """Also one that has exit code 0 then: it has not done its work."""
    messages = [Message(offset) for offset in range(5)]
    script = "trap 'exit 0' TERM; echo; sleep 1000 & wait"
    work = working("sh", "-c", script, messages=messages, jobs=2)
    await work.report.until(lambda: work.report.out == b"\n\n")
    work.pool.drain()
    work.pool.stop()
    await end(work)
    assert [message.outcome for message in messages] == [("give_back",)] * 2 + [None] * 3
    assert work.report.phases == [Phase.DRAINING, Phase.STOPPING]


async def test_a_pool_that_is_killed_waits_for_nothing(working):
    message = Message(0)
    work = working("sh", "-c", STUBBORN, messages=[message])
    await work.report.until(lambda: work.report.out)
    work.pool.stop()
    await anyio.wait_all_tasks_blocked()
    assert not work.ended.is_set()
    work.pool.kill()
    await end(work)
    # Nobody waits for the broker: the subscription gives it back.
    assert message.outcome is None


async def test_a_pool_that_was_killed_is_not_drained_again(working):
    work = working("true")
    work.pool.kill()
    work.pool.drain()
    assert work.report.phases == [Phase.DRAINING, Phase.KILLING]


async def test_a_command_that_cannot_be_started_burns_no_message(working):
    """SHR-12: a name with a place in it can be judged only now.

    It is released, since what is given back again and again counts in the end (SHR-4b).
    """
    messages = [Message(0, key=b"true"), Message(1, key=b"nowhere"), Message(2, key=b"true")]
    work = working("{key}", messages=messages)
    await end(work)
    assert [message.outcome for message in messages] == [("done",), ("release",), None]
    assert work.pool.failure.code == 127
    assert "nowhere" in str(work.pool.failure)


async def test_other_jobs_finish_if_a_command_cannot_be_started(working, tmp_path):
    program = tmp_path / "0"
    program.write_text(f"#!/bin/sh\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.01; done\n")
    program.chmod(0o700)
    messages = [Message(0), Message(1)]
    work = working(f"{tmp_path}/{{offset}}", messages=messages, jobs=2)
    await work.report.until(lambda: 1 in work.report.results)
    assert not work.ended.is_set()
    (tmp_path / "go").touch()
    await end(work)
    assert [message.outcome for message in messages] == [("done",), ("release",)]


@pytest.mark.parametrize(("mode", "text", "code"), [(0o600, "", 126), (0o700, "#!/nowhere", 127)])
async def test_what_cannot_be_executed(working, tmp_path, mode, text, code):
    """The exit codes are those of shells; the interpreter of a script may be missing."""
    program = tmp_path / "0"
    program.write_text(text)
    program.chmod(mode)
    message = Message(0)
    work = working(f"{tmp_path}/{{offset}}", messages=[message])
    await end(work)
    assert (message.outcome, work.pool.failure.code) == (("release",), code)


async def test_no_room_for_another_process_is_not_the_fault_of_a_message(working, monkeypatch):
    async def run(self):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(Job, "run", run)
    message = Message(0)
    work = working("true", messages=[message])
    await end(work)
    assert (message.outcome, work.pool.failure.code) == (("release",), 1)


@pytest.mark.parametrize("key", [b"a\0b", b"x" * 10_000_000])
async def test_a_key_that_no_argument_can_have_is_the_fault_of_its_message(working, key):
    messages = [Message(0, key=key), Message(1, key=b"good")]
    work = working("true", "{key}", messages=messages)
    await work.report.until(lambda: 1 in work.report.results)
    assert messages[0].outcome[0] == "reject"
    assert messages[1].outcome == ("done",)


async def test_what_came_too_late_is_reported(working):
    """The message is with somebody else by now."""
    messages = [Message(0, counts=False), Message(1)]
    work = working("true", messages=messages)
    await work.report.until(lambda: 1 in work.report.results)
    assert work.report.late == [0]


async def test_a_failure_in_settling_ends_all_jobs():
    """Such as a broker that does not come back."""
    message = Message(1)

    async def settle(verdict):
        raise RuntimeError("the broker has gone")

    message.settle = settle
    pool = Pool(Command(["sh", "-c", '[ "$1" = 1 ] || sleep 1000', "sh", "{offset}"]), 2, Report())
    with anyio.fail_after(GUARD), pytest.raises(ExceptionGroup) as failed:
        await pool.run(Queue(Message(0), message))
    assert failed.value.subgroup(RuntimeError) is not None
    assert pool.running == 0
