r"""`zaichik work`: runs a command for each message of a topic, so many at a time.

A job queue in one line of shell. Each message goes to one worker of the same --name, on this or
another machine. Its payload is the command's standard input. {offset}, {key} and {topic} in the
command are replaced, without a shell; they are in the variables ZAICHIK_OFFSET, ZAICHIK_KEY and
ZAICHIK_TOPIC as well. In a script for a shell, use "$ZAICHIK_KEY" and not {key}: a key could hold
commands.

Examples:
  zaichik work images --name thumbs --jobs 4 -- xargs mogrify -resize 100
  ls *.jpg | zaichik publish images
  zaichik work mails --name smtp --timeout 30s -- sendmail -t
  zaichik work orders --name billing --by-key -- ./bill {key}
  zaichik work images --name thumbs --until-empty -- ./resize && echo finished
  zaichik dead images --name thumbs       # what has failed too often

What the exit code of the command means:
  0         done
  65        the message is wrong (EX_DATAERR): dead at once, not tried again
  others    failed; as is a command that was ended by a signal, or that took
            longer than --timeout. The message comes again after 1 s, then 2 s,
            and so on, up to 60 s. When it has failed --max-deliveries times,
            it is dead. The last KiB that the command wrote to standard error
            is kept with it.

Ctrl-C, SIGTERM and SIGHUP let the jobs that run finish, and release what waits. A second one ends
the jobs (SIGTERM, and after 5 seconds SIGKILL), and gives their messages back: they come again
after a while, and nothing is counted. A third one does not wait. A job does not get the Ctrl-C of
the terminal: it has a session of its own.

If the topic doesn't exist, it is created so that it loses no job: durable, if the broker has a
folder, kept forever, and full rather than evicting. Of another topic, it is said what it can lose.

exit codes:
  0     with --until-empty: nothing is left, and no job has died meanwhile
  1     with --until-empty: jobs have died, or it cannot become empty
  126   the command may not be executed
  127   there is no such command; its message, if it had one, was released
  130   ended with Ctrl-C, SIGTERM or SIGHUP
"""

import sys
from math import inf

from rich.console import Console

from zaichik.apps.work.command import CannotRun, Command
from zaichik.apps.work.pool import Pool
from zaichik.apps.work.topic import prepare
from zaichik.cli import connecting, names, quantities, screen, signals
from zaichik.cli.arguments import Namespace, argument, within
from zaichik.cli.failure import Failure
from zaichik.cli.status_line import StatusLine, status_line
from zaichik.cli.work_screen import WorkScreen
from zaichik.cli.work_watch import QueueWatch
from zaichik.client.client import Client
from zaichik.net.background import BackgroundTasks

INTERRUPTED = 130  # the exit code
MOST_JOBS = 10_000
MOST_DELIVERIES = 0xFFFF  # that a frame can carry
DAY = 86_400.0
# A job that takes too long is ended here, and its message is tried again. The broker takes the
# message away only if we do not settle it by then: that takes more than ending the job does.
MARGIN = 10.0


def _timeout(text: str) -> float:
    seconds = quantities.duration(text)
    if seconds == "forever" or not seconds:
        return inf
    # The broker's time ends after a day at most, and after the job's.
    if DAY - MARGIN < seconds <= DAY:
        return DAY - MARGIN
    return seconds


_jobs = within(
    quantities.positive, lambda jobs: jobs <= MOST_JOBS, f"{{}} is too large; at most {MOST_JOBS}"
)
_deliveries = within(
    quantities.natural,
    lambda number: number <= MOST_DELIVERIES,
    f"{{}} is too large; at most {MOST_DELIVERIES}",
)
_limit = within(
    _timeout,
    lambda seconds: seconds == inf or seconds <= DAY,
    "{} is longer than a day; for as long as a job takes, write 0",
)
NAME = argument(
    "--name NAME",
    "the name that the workers of a queue have in common",
    within(names.name, bool, "{} is no name"),
    required=True,
)
ARGUMENTS = (
    argument("TOPIC", "the topic with the messages, created if it doesn't exist", names.name),
    argument("COMMAND...", "the command and its arguments, after --"),
    NAME,
    argument("--jobs N", "how many at a time", _jobs, default=1),
    argument("--timeout DUR", "end a job that takes longer; 0: never", _limit, default="60s"),
    argument(
        "--max-deliveries N",
        "how often a message is tried before it is dead; 0: for ever",
        _deliveries,
        default=5,
    ),
    argument("--by-key", "one message of a key at a time, in their order"),
    argument("--until-empty", "end when nothing is left, or waits to be tried again"),
    argument("--json", "print a JSON object for each message; what jobs print goes to stderr"),
    connecting.PLACE,
    connecting.RECONNECT,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Run jobs until something ends it."""
    command = Command(arguments.command)
    try:
        command.check()
    except CannotRun as error:
        raise Failure(str(error), error.code) from None
    if command.trusts_keys:
        screen.remark(
            '{key} is part of a script here, so a key could hold commands; use "$ZAICHIK_KEY"',
            "yellow",
        )
    async with connecting.connected(arguments, "work", arguments.topic) as client:
        if warning := await prepare(client, arguments.topic):
            screen.remark(warning, "yellow")
        async with status_line(sys.stdout, sys.stderr) as line:
            return await _work(client, command, arguments, line)


async def _work(client: Client, command: Command, arguments: Namespace, line: StatusLine) -> int:
    shown = WorkScreen(line, arguments.topic, arguments.max_deliveries, as_json=arguments.json)
    pool = Pool(command, arguments.jobs, shown, arguments.timeout)
    watch = QueueWatch(client, arguments.topic, arguments.name, shown)
    async with (
        client.subscribe(
            arguments.topic,
            name=arguments.name,
            shared=True,
            timeout=_brokers(arguments.timeout),
            max_deliveries=arguments.max_deliveries,
            by_key=arguments.by_key,
            credit=arguments.jobs,
        ) as work,
        signals.in_steps(pool.drain, pool.stop, pool.kill) as was_asked_to_end,
        BackgroundTasks() as background,
    ):
        background.group.start_soon(_drain_without_a_reader, pool)
        if arguments.until_empty:
            background.group.start_soon(_drain_when_empty, watch, pool)
        else:
            background.group.start_soon(watch.go_on)
        await pool.run(work)
    await shown.summarise()
    if pool.failure is not None:
        raise Failure(str(pool.failure), pool.failure.code)
    if was_asked_to_end():
        return INTERRUPTED
    return watch.exit_code


def _brokers(timeout: float) -> float:
    """Returns the time-out that the broker is told, in seconds; 0: none."""
    if timeout == inf:
        return 0
    return timeout + MARGIN


async def _drain_when_empty(watch: QueueWatch, pool: Pool) -> None:
    await watch.until_empty()
    pool.drain()


async def _drain_without_a_reader(pool: Pool) -> None:
    await screen.reader_gone()
    pool.drain()
