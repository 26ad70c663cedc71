"""A job: one process for one message, on both event loops."""

import os
import signal
import sys
from math import inf
from pathlib import Path

import anyio
import pytest

from zaichik.apps.work import job as module
from zaichik.apps.work import session
from zaichik.apps.work.command import Command
from zaichik.apps.work.job import Cause, Job

pytestmark = pytest.mark.anyio

MANY = 10_000_000  # bytes: more than all pipes hold
GUARD = 60  # seconds after which a job that hangs fails its test


class Passed:
    """What a job wrote, in the pieces in which it was passed on."""

    def __init__(self):
        self.pieces = []
        self.came = anyio.Event()

    async def __call__(self, data):
        self.pieces.append(data)
        self.came.set()

    @property
    def all(self):
        return b"".join(self.pieces)


class Run:
    """A job that a test runs, and what it wrote."""

    def __init__(self, *words, payload=b"", timeout=inf):
        self.out = Passed()
        self.err = Passed()
        invocation = Command(words).on("orders", 7, b"alice")
        self.job = Job(invocation, payload, self.out, self.err, timeout)
        self.end = None

    async def __call__(self):
        with anyio.fail_after(GUARD):
            self.end = await self.job.run()
        return self.end


def shell(script, *words, **options):
    return Run("sh", "-c", script, "sh", *words, **options)


def python(script, **options):
    return Run(sys.executable, "-c", script, **options)


async def test_the_payload_is_its_standard_input():
    run = Run("cat", payload=b"two\0apples")
    assert await run() == (Cause.EXIT, 0, b"", inf)
    assert run.out.all == b"two\0apples"


async def test_a_payload_may_be_larger_than_a_pipe():
    payload = os.urandom(MANY)
    run = Run("cat", payload=payload)
    await run()
    assert run.out.all == payload


@pytest.mark.parametrize("script", ["exit 0", "exec <&-; echo read nothing", "head -c 1 >&2"])
async def test_a_job_need_not_read_its_input(script):
    run = shell(script, payload=b"x" * MANY)
    assert (await run()).status == 0


async def test_what_the_message_says_is_in_words_and_environment():
    run = shell('echo "$1 $ZAICHIK_TOPIC $ZAICHIK_OFFSET $ZAICHIK_KEY"', "{offset}")
    await run()
    assert run.out.all == b"7 orders 7 alice\n"


@pytest.mark.parametrize(
    ("script", "status"), [("exit 3", 3), ("exit 255", 255), ("kill -9 $$", -9), ("kill $$", -15)]
)
async def test_how_it_ended(script, status):
    end = await shell(script)()
    assert (end.cause, end.status) == (Cause.EXIT, status)


async def test_a_pipe_whose_reader_is_gone_ends_a_job_as_it_would_in_a_shell():
    """Python ignores SIGPIPE, and a job must not."""
    run = shell("(yes; echo $? >&2) | head -n 1")
    await run()
    assert (run.out.all, int(run.err.all)) == (b"y\n", 128 + signal.SIGPIPE)


async def test_the_last_of_its_errors_is_kept():
    run = shell("seq 1000 >&2; exit 1")
    everything = b"".join(b"%d\n" % number for number in range(1, 1001))
    assert (await run()).errors == everything[-1024:]
    assert run.err.all == everything


async def test_a_job_may_write_errors_without_end():
    """Nothing of it is kept in memory but its end."""
    script = "import sys\nfor _ in range(300): sys.stderr.write('x' * 99_999 + chr(10))"
    run = python(script + "\nsys.exit(1)")
    run.err.pieces = Counted()
    end = await run()
    assert end.errors == b"x" * 1023 + b"\n"
    assert run.err.pieces.size == 300 * 100_000


class Counted:
    """The size of what was appended."""

    size = 0

    def append(self, data):
        self.size += len(data)


async def test_lines_are_passed_on_whole():
    """So those of several jobs do not mix."""
    run = shell("printf one; sleep 0.01; printf ' line\\nand '; sleep 0.01; printf another")
    await run()
    assert run.out.pieces == [b"one line\n", b"and another"]


async def test_a_line_without_end_is_passed_on_in_parts():
    run = python(f"import sys; sys.stdout.write('x' * {MANY})")
    await run()
    assert run.out.all == b"x" * MANY
    assert max(map(len, run.out.pieces)) <= module.LONGEST_LINE + module.CHUNK


@pytest.mark.parametrize("written", ["", "while :; do echo more; done & "])
async def test_a_process_that_it_leaves_behind_keeps_no_job_open(written):
    """Its pipes are still open, and perhaps written to; what the job itself wrote is all there."""
    run = shell(f"sleep 1000 & {written} echo $$; echo broken >&2; exit 4")
    end = await run()
    assert (end.status, end.errors.startswith(b"broken\n") or bool(written)) == (4, True)
    leader = int(next(word for word in run.out.all.split() if word.isdigit()))
    assert session.members(leader)
    await session.end(leader, 0)


async def test_one_that_takes_too_long_is_ended():
    end = await Run("sleep", "1000", timeout=0.01)()
    assert end == (Cause.TIME_OUT, -signal.SIGTERM, b"", 0.01)


async def test_a_job_that_is_stopped_may_put_things_in_order():
    run = shell("trap 'echo tidy; echo last words >&2; exit 5' TERM; echo ready; sleep 1000 & wait")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await run.out.came.wait()
        run.job.stop()
    assert run.end == (Cause.STOPPED, 5, b"last words\n", inf)
    assert run.out.all == b"ready\ntidy\n"


async def test_a_job_that_does_not_want_to_end_is_killed(monkeypatch):
    monkeypatch.setattr(session.end, "__defaults__", (0.05,))
    run = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await run.out.came.wait()
        run.job.stop()
    assert run.end[:2] == (Cause.STOPPED, -signal.SIGKILL)


async def test_a_job_that_is_killed_has_no_time_left():
    run = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await run.out.came.wait()
        run.job.stop()
        await anyio.wait_all_tasks_blocked()
        run.job.kill()
    assert run.end[:2] == (Cause.STOPPED, -signal.SIGKILL)


def is_running(process):
    """Whether it is there, and does not only wait to be collected."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no list of sessions")
async def test_it_is_ended_with_all_that_it_has_started():
    """`timeout` has a process group of its own, so a signal to that of the job would miss it."""
    run = shell("timeout 1000 sleep 1000 & one=$!; sleep 1000 & echo $one $!; wait")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await run.out.came.wait()
        both = [int(word) for word in run.out.all.split()]
        assert all(map(is_running, both))
        run.job.stop()
    assert not any(map(is_running, both))


async def test_it_is_ended_if_nobody_waits_for_it_any_more():
    run = shell("echo $$; sleep 1000")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await run.out.came.wait()
        tasks.cancel_scope.cancel()
    assert run.end is None
    assert session.members(int(run.out.all)) == []


async def test_a_job_that_was_stopped_before_it_began():
    run = Run("sleep", "1000")
    run.job.stop()
    assert (await run()).cause == Cause.STOPPED


async def test_one_that_has_ended_is_not_stopped():
    run = Run("true")
    await run()
    run.job.kill()
    assert run.end == (Cause.EXIT, 0, b"", inf)


async def test_output_that_nobody_takes_holds_up_its_job_and_its_time_is_over():
    """A pager that waits, or a terminal that is stopped with Ctrl-S."""
    run = Run("yes", timeout=0.05)

    async def never(data):
        await anyio.sleep_forever()

    run.job._output._pass_on = never
    assert (await run()).cause == Cause.TIME_OUT


async def test_output_that_nobody_takes_does_not_change_how_the_job_ended():
    run = shell("echo one; exit 3", timeout=0.05)

    async def never(data):
        await anyio.sleep_forever()

    run.job._output._pass_on = never
    assert (await run())[:2] == (Cause.EXIT, 3)


def descriptors():
    """How many are open, where the system says it; else 0."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


async def test_a_command_that_is_not_there():
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await Run("/nowhere/convert")()
    assert descriptors() == before


async def test_no_descriptor_stays_open():
    # The event loop opens some of its own for the first process.
    await Run("true")()
    before = descriptors()
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(Run("cat", payload=b"x"))
    assert descriptors() == before


async def test_it_leads_a_session_of_its_own():
    """Ctrl-C in the terminal does not reach it."""
    run = python("import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))")
    await run()
    assert run.out.all == b"True\n"
