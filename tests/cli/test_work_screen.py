"""What `zaichik work` shows."""

import json
from types import SimpleNamespace

import pytest

from zaichik.apps.work.pool import Phase
from zaichik.apps.work.queue_state import QueueState
from zaichik.apps.work.result import Result
from zaichik.cli.work_screen import WorkScreen
from zaichik_protocol import Outcome

pytestmark = pytest.mark.anyio

DONE = Result(Outcome.DONE)
FAILED = Result(Outcome.RETRY, "exit code 3", "no such image")
REJECTED = Result(Outcome.REJECT, "exit code 65")
GIVEN_BACK = Result(Outcome.GIVE_BACK)
RELEASED = Result(Outcome.RELEASE)


class Line:
    """A line that keeps what it is given."""

    def __init__(self):
        self.is_drawn = True
        self.out = b""
        self.err = b""
        self.said = []
        self.text = ""

    async def write(self, data):
        self.out += data

    async def write_errors(self, data):
        self.err += data

    async def say(self, sentence, style=""):
        self.said.append((sentence, style))

    def show(self, text):
        self.text = text.plain


def message(offset=7, delivery=1, key=b"alice"):
    return SimpleNamespace(topic="orders", offset=offset, delivery=delivery, key=key)


@pytest.fixture
def line():
    return Line()


@pytest.fixture
async def screen(line):
    return WorkScreen(line, "orders", 5, as_json=False)


@pytest.fixture
async def in_json(line):
    return WorkScreen(line, "orders", 5, as_json=True)


async def settle(screen, it, result, *, is_late=False):
    screen.started(it)
    await screen.settled(it, result, is_late=is_late)


async def test_what_went_well_is_only_counted(screen, line):
    await settle(screen, message(), DONE)
    assert (line.said, line.out, line.text) == ([], b"", "orders: 0 running, 1 done")


async def test_a_failure_is_a_line_without_what_the_job_wrote(screen, line):
    """That has been passed on."""
    await settle(screen, message(), FAILED)
    (said,) = line.said
    assert said == (
        "orders, offset 7: exit code 3; it will be tried again (delivery 1 of 5)",
        "yellow",
    )
    assert line.text == "orders: 0 running, 0 done, 1 failed"


async def test_without_an_end_of_deliveries_none_is_said(line):
    screen = WorkScreen(line, "orders", 0, as_json=False)
    await settle(screen, message(delivery=70), FAILED)
    assert line.said[0][0].endswith("(delivery 70)")


@pytest.mark.parametrize(
    ("delivery", "result", "after"), [(5, FAILED, "5 deliveries"), (1, REJECTED, "1 delivery")]
)
async def test_a_message_that_is_dead_now(screen, line, delivery, result, after):
    await settle(screen, message(delivery=delivery), result)
    assert line.said == [(f"orders, offset 7: {result.cause}; dead after {after}", "red")]
    assert line.text == "orders: 0 running, 0 done, 1 dead"


@pytest.mark.parametrize(
    ("result", "cause"), [(DONE, "done"), (FAILED, "exit code 3"), (GIVEN_BACK, "give back")]
)
async def test_what_came_too_late_is_said(screen, line, result, cause):
    await settle(screen, message(delivery=5), result, is_late=True)
    (said,) = line.said
    assert said[0] == f"orders, offset 7: {cause}, but too late: it has been handed out again"
    assert line.text == "orders: 0 running, 0 done, 1 too late"


async def test_how_far_the_end_has_come(screen, line):
    for offset in range(3):
        screen.started(message(offset))
    screen.enter(Phase.DRAINING)
    await screen.settled(message(), DONE, is_late=False)
    assert line.text == "orders: 2 running, 1 done; waiting for 2 jobs; Ctrl-C ends them"
    screen.enter(Phase.STOPPING)
    await screen.settled(message(), GIVEN_BACK, is_late=False)
    assert line.text == "orders: 1 running, 1 done, 1 given back; ending 1 job; Ctrl-C kills them"


@pytest.mark.parametrize(("running", "are"), [(1, "1 job is"), (2, "2 jobs are")])
async def test_what_is_waited_for_is_said_where_there_is_no_line(screen, line, running, are):
    for offset in range(running):
        screen.started(message(offset))
    await screen.drained()
    assert line.said == []
    line.is_drawn = False
    await screen.drained()
    assert line.said == [(f"orders: {are} still running; a second signal ends what runs", "")]


async def test_an_idle_worker_waits_for_nothing(screen, line):
    line.is_drawn = False
    await screen.drained()
    assert line.said == []


def queue(left=1234, waits_for="messages", is_serious=False):
    return QueueState(left, 0, 0, waits_for, is_serious, is_stuck=False)


async def test_what_is_left_and_what_an_idle_worker_waits_for(screen, line):
    await screen.show_queue(queue(), "")
    assert line.text == "orders: 0 running, 0 done, 1,234 left; waiting for messages"
    screen.started(message())
    assert line.text == "orders: 1 running, 0 done, 1,234 left"
    # The broker reports it a second later.
    await screen.settled(message(), DONE, is_late=False)
    screen.started(message(8))
    assert line.text == "orders: 1 running, 1 done, 1,233 left"
    assert line.said == []


async def test_what_somebody_has_to_do_something_about_is_said_once(screen, line):
    """SHR-2."""
    for _ in range(2):
        await screen.show_queue(queue(waits_for="room", is_serious=True), "")
    assert line.said == [("orders: nothing is handed out; it waits for room", "yellow")]


async def test_what_holds_the_log_is_said(screen, line):
    """SHR-5."""
    await screen.show_queue(queue(), "orders is 60% full")
    assert line.said == [("orders is 60% full", "yellow")]


async def test_what_jobs_write_is_passed_on(screen, line):
    await screen.pass_on(b"an image\n")
    await screen.pass_on_errors(b"a warning\n")
    assert (line.out, line.err) == (b"an image\n", b"a warning\n")


async def test_the_summary(screen, line):
    await settle(screen, message(), DONE)
    await settle(screen, message(), FAILED)
    await settle(screen, message(), RELEASED)
    # It was killed.
    screen.started(message())
    await screen.summarise()
    assert line.said[-1][0].startswith("orders: 1 done, 1 failed, 1 given back, 1 released, ")
    assert line.said[-1][0].endswith(" s")


async def test_json_has_an_object_for_each_message(in_json, line):
    await settle(in_json, message(), DONE)
    await settle(in_json, message(delivery=5, key=b"\xff"), FAILED)
    await settle(in_json, message(key=None), REJECTED, is_late=True)
    first, second, third = map(json.loads, line.out.splitlines())
    assert first == {
        "topic": "orders",
        "offset": 7,
        "key": "alice",
        "delivery": 1,
        "outcome": "done",
        "reason": "",
        "dead": False,
        "late": False,
    }
    assert second == first | {
        "key": {"base64": "/w=="},
        "delivery": 5,
        "outcome": "retry",
        "reason": "exit code 3: no such image",
        "dead": True,
    }
    assert third == first | {
        "key": None,
        "outcome": "reject",
        "reason": "exit code 65",
        "late": True,
    }


async def test_json_has_standard_output_for_itself(in_json, line):
    await in_json.pass_on(b"an image\n")
    await in_json.summarise()
    assert (line.out, line.err, line.said) == (b"", b"an image\n", [])
