"""`zaichik ping`: says whether a broker answers, for health checks.

Say whether a broker answers, and how fast. The exit code is 0 if it does, and 1 if it doesn't. No
login is needed: a broker that requires one says so, and that is an answer.

Examples:
  zaichik ping
  zaichik ping --timeout 500ms && echo "it answers"
"""

import time

import anyio
from rich.console import Console

from zaichik.cli import connecting, quantities, screen
from zaichik.cli.arguments import Namespace, argument, within
from zaichik.cli.failure import Failure
from zaichik.client.errors import AuthFailed, TlsRequired

_timeout = within(
    quantities.duration,
    lambda time: time != "forever" and time > 0,
    "{} is not a time to wait; write 500ms, 2s",
)
ARGUMENTS = (
    argument("--timeout DUR", "how long to wait for the answer", _timeout, default="2s"),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Ask, and print what was answered."""
    begin = time.perf_counter()
    try:
        with anyio.fail_after(arguments.timeout):
            answer = await _answer(arguments)
    except TimeoutError:
        problem = f"{arguments.connect} has not answered within {arguments.timeout:g} s"
        raise Failure(problem) from None
    ms = (time.perf_counter() - begin) * 1000
    screen.say(console, f"{arguments.connect} {answer}, after {ms:.1f} ms")


async def _answer(arguments: Namespace) -> str:
    """Returns what the broker answers."""
    try:
        async with connecting.connected(arguments, "ping") as client:
            await client.ping()
    except (AuthFailed, TlsRequired):
        return "answers that it requires a login"
    return "answers"
