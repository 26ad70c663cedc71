"""`zaichik dead`: what workers have failed at too often; tried again, moved or forgotten.

List the dead messages of a shared name: those that `zaichik work`, or a program, has failed at
--max-deliveries times, or has rejected. Each line has the offset, when the message died, after how
many deliveries, and why: the last of what the command wrote to standard error. They stay until you
revive or forget them.

Examples:
  zaichik dead images --name thumbs               # list them
  zaichik subscribe images --from 17 --count 1    # what is in message 17?
  zaichik dead images --name thumbs --revive 17   # have it tried again
  zaichik dead images --name thumbs --revive      # all of them
  zaichik dead images --name thumbs --forget 17 18
  zaichik dead images --name thumbs --export failed --forget --follow
  zaichik dead images --name thumbs --forget-name
  zaichik dead images --name thumbs --json | jq .reason

A revived message starts with no failures. One that is gone from its topic (marked "gone") cannot be
revived. In a topic that evicts nothing, a dead message holds everything after it, so keep an eye on
them: --export TOPIC copies their keys and payloads to another topic, with --forget it moves them,
and with --follow it goes on as more die. If a copy is interrupted, it may be made twice.

--forget-name forgets the name with everything in it: the next worker of that name begins with the
earliest message. It is refused while there are workers.

A name belongs to the user that the workers log in as. An operator, who may describe the broker,
names that user with --user.
"""

from collections.abc import AsyncIterator, Sequence

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.apps.work.exporting import export
from zaichik.apps.work.topic import prepare
from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.cli import connecting, names, quantities, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.commands.work import NAME
from zaichik.cli.failure import Failure
from zaichik.client.client import Client
from zaichik.client.work.dead import DeadMessage

POLL_SECONDS = 1.0  # with --follow

ARGUMENTS = (
    argument("TOPIC", "the topic of the messages", names.name),
    NAME,
    argument("--user USER", "whose name it is, if not your own", names.name, default=""),
    argument(
        "--revive [OFFSET...]", "have these tried again; without an offset, all", quantities.natural
    ),
    argument("--forget [OFFSET...]", "forget these; without an offset, all", quantities.natural),
    argument("--forget-name", "forget the name with everything that is open or dead in it"),
    argument("--export TO", "copy them to this topic; with --forget, move them", names.name),
    argument("--follow", "go on, with those that die from now on, until Ctrl-C"),
    argument("--json", "print one JSON object per line"),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> None:
    """List the dead messages, or do something about them."""
    _check(arguments)
    async with connecting.connected(arguments, "dead") as client:
        with connecting.required(client, "share names among workers"):
            await _run(_Dead(client, arguments, console), arguments)


async def _run(dead: "_Dead", arguments: Namespace) -> None:
    if arguments.forget_name:
        await dead.forget_name()
    elif arguments.export is not None:
        await dead.export()
    elif arguments.revive is not None:
        await dead.revive(arguments.revive)
    elif arguments.forget is not None:
        await dead.forget(arguments.forget)
    else:
        await dead.show()


def _check(arguments: Namespace) -> None:
    """Refuse what contradicts itself.

    Raises:
        WrongUsage: see above.
    """
    wanted = {
        "--revive": arguments.revive is not None,
        "--forget": arguments.forget is not None,
        "--forget-name": arguments.forget_name,
        "--export": arguments.export is not None,
    }
    given = [option for option, is_given in wanted.items() if is_given]
    if len(given) > 1 and given != ["--forget", "--export"]:
        raise WrongUsage(f"give either {' or '.join(given)}")
    if arguments.follow and given and "--export" not in given:
        raise WrongUsage(f"--follow is for a list, or for --export, and not for {given[0]}")
    if arguments.follow and arguments.forget:
        raise WrongUsage("--follow is for all that die; leave the offsets out")
    if arguments.export == arguments.topic:
        raise WrongUsage("a copy in the same topic would be worked on again; see --revive")


class _Dead:
    """The dead messages of a name, and what can be done about them."""

    def __init__(self, client: Client, arguments: Namespace, console: Console) -> None:
        self._client = client
        self._arguments = arguments
        self._console = console
        self._topic: str = arguments.topic
        self._name: str = arguments.name
        self._user: str = arguments.user

    @property
    def _where(self) -> str:
        return f"{shown(self._topic)}, {shown(self._name)}"

    async def show(self) -> None:
        """List them."""
        async for messages in self._found():
            for message in messages:
                self._print(message)
            if not (messages or self._arguments.follow or self._arguments.json):
                screen.remark(f"{self._where}: no message is dead")

    async def revive(self, offsets: list[int]) -> None:
        """Have them handed out again."""
        revived = await self._client.revive(
            self._topic, self._name, offsets or None, user=self._user
        )
        self._tell("revived", revived)
        if revived < len(set(offsets)):
            raise Failure(
                f"{len(set(offsets)) - revived:,} of them could not be revived: not dead, or gone "
                "from the topic, or too many messages are open"
            )

    async def forget(self, offsets: list[int]) -> None:
        """Forget them for good."""
        forgotten = await self._client.forget_dead(
            self._topic, self._name, offsets or None, user=self._user
        )
        self._tell("forgotten", forgotten)
        if forgotten < len(set(offsets)):
            raise Failure(
                f"{len(set(offsets)) - forgotten:,} of them could not be forgotten: not dead"
            )

    async def forget_name(self) -> None:
        """Forget the name with everything in it."""
        await self._client.forget_name(self._topic, self._name, user=self._user)
        if self._arguments.json:
            screen.print_json({"topic": self._topic, "name": self._name, "forgotten_name": True})
        else:
            screen.say(self._console, f"{self._where}: the name is forgotten")

    async def export(self) -> None:
        """Copy them to another topic, or move them there."""
        into: str = self._arguments.export
        # Without such a name, or such messages, no topic is made.
        dead = await self._client.dead(self._topic, self._name, user=self._user)
        offsets = set(self._arguments.forget or ())
        if missing := offsets.difference(message.offset for message in dead):
            raise Failure(f"not dead: {', '.join(map(str, sorted(missing)))}")
        if warning := await prepare(self._client, into):
            screen.remark(warning, "yellow")
        forget = None
        if self._arguments.forget is not None:
            forget = self._forget
        async for messages in self._found():
            wanted = self._wanted(messages)
            copied = await export(self._client, self._topic, into, wanted, forget)
            if wanted or not self._arguments.follow:
                self._tell("moved" if forget else "copied", copied, f" to {shown(into)}")
            self._tell_gone(len(wanted) - copied)

    def _tell_gone(self, count: int) -> None:
        if not count:
            return
        problem = f"{counted(count, 'message')} can no longer be read"
        if not self._arguments.follow:
            raise Failure(problem)
        screen.remark(problem, "yellow")

    async def _forget(self, offsets: list[int]) -> object:
        return await self._client.forget_dead(self._topic, self._name, offsets, user=self._user)

    def _wanted(self, messages: Sequence[DeadMessage]) -> list[DeadMessage]:
        """Returns those of the offsets that were given with --forget; all, if none were."""
        offsets = self._arguments.forget
        return [message for message in messages if not offsets or message.offset in offsets]

    async def _found(self) -> AsyncIterator[list[DeadMessage]]:
        """Yields those that are dead; with --follow, again and again those that have died since."""
        seen: set[tuple[int, float]] = set()
        while True:
            messages = await self._client.dead(self._topic, self._name, user=self._user)
            # One that was revived may die again.
            deaths = {(message.offset, message.died): message for message in messages}
            yield [message for death, message in deaths.items() if death not in seen]
            if not self._arguments.follow:
                return
            seen = set(deaths)
            await anyio.sleep(POLL_SECONDS)

    def _print(self, message: DeadMessage) -> None:
        if self._arguments.json:
            told = {
                "topic": self._topic,
                "offset": message.offset,
                "deliveries": message.deliveries,
                "died": message.died,
                "reason": message.reason,
                "readable": message.is_readable,
            }
            screen.print_json(told)
        else:
            self._console.print(_line(message), soft_wrap=True)

    def _tell(self, verb: str, count: int, where: str = "") -> None:
        if self._arguments.json:
            screen.print_json({"topic": self._topic, "name": self._name, verb: count})
        else:
            screen.say(self._console, f"{self._where}: {counted(count, 'message')} {verb}{where}")


def _line(message: DeadMessage) -> Text:
    """Offset, time and deliveries in faint letters, then the reason."""
    died = quantities.show_time(message.died * SECOND_US, with_offset=False)
    deliveries = counted(message.deliveries, "delivery", "deliveries")
    gone = ""
    if not message.is_readable:
        gone = "gone  "
    return Text.assemble(
        (f"{message.offset:>8}  {died}  {deliveries}  ", "dim"),
        (gone, "yellow"),
        shown(message.reason),
    )
