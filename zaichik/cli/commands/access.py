"""`zaichik access check`: reads a folder for access control, and says who may do what, and why.

Read the files of a folder for --access as a broker does, and report what is wrong with them. Run
this before you have the broker reload them (kill -HUP PID). With a user, an action (publish,
subscribe, create, delete or describe) and a topic, say whether the user may do that, and which line
of DIR/rules decides. The exit code is 1 if a file is wrong, or if the answer is no.

Examples:
  zaichik access check ./access
  zaichik access check ./access ana publish orders      # allowed by rules:7
  zaichik access check ./access ana describe '$broker'  # denied: no rule allows
"""

import time
from pathlib import Path
from typing import get_args

from rich.console import Console

from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.cli import screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure
from zaichik.cli.serve_access import load, tls_of
from zaichik.core.rights import Action, topic_of
from zaichik.server.access.access_gate import EXPIRY_DAYS, RULES, Access
from zaichik.server.access.rules import EVERYBODY

ARGUMENTS = (
    argument("CHECK", "what to do", metavar="check", choices=["check"], dest="action_of_ours"),
    argument("DIR", "the folder that the broker is given as --access", Path, dest="folder"),
    argument("[QUESTION...]", "ask whether this user may do this", metavar="USER ACTION TOPIC"),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Check the files, and answer the question."""
    access = load(arguments.folder, tls_of(arguments.folder))
    match arguments.question:
        case []:
            return _describe(access, arguments.folder, console)
        case [user, action, topic]:
            return _answer(access, user, action, topic, console)
    raise WrongUsage("write USER ACTION TOPIC after DIR, or nothing")


def _describe(access: Access, folder: Path, console: Console) -> int:
    names, rules = access.users.by_name, access.rules.rules
    days = None if access.tls is None else int(access.tls.not_after_s - time.time()) // 86_400
    certificate = (
        "no certificate" if days is None else f"a certificate valid for {counted(days, 'day')}"
    )
    users = counted(len(names), "user")
    screen.say(console, f"{folder}: {users}, {counted(len(rules), 'rule')}, {certificate}")
    if access.tls is not None:
        screen.say(console, f"logins end in @HOST:PORT?pin={access.tls.pin}")
    if days is not None and days < EXPIRY_DAYS:
        screen.remark(
            f"warning: the certificate expires in {counted(days, 'day')}; replace it, and "
            "send the broker a SIGHUP",
            "yellow",
        )
    for name in sorted({rule.user for rule in rules} - names.keys() - {EVERYBODY}):
        line = next(rule.line for rule in rules if rule.user == name)
        screen.remark(
            f"warning: {RULES}:{line} is about {name}, but there is no user of that name", "yellow"
        )
    for name in names:
        if not any(rule.allows and rule.user in {name, EVERYBODY} for rule in rules):
            screen.remark(f"warning: {name} may do nothing: no rule allows it", "yellow")
    return 0


def _answer(access: Access, user: str, action: str, topic: str, console: Console) -> int:
    if action not in get_args(Action):
        raise WrongUsage(f"{action!r} is not an action; write one of {', '.join(get_args(Action))}")
    if user not in access.users.by_name:
        raise Failure(f"there is no user '{shown(user)}'; see: zaichik user list")
    rule = access.rules.of(user).rule(action, topic_of(topic))  # type: ignore[arg-type]
    verdict = "allowed" if rule and rule.allows else "denied"
    screen.say(
        console, f"{verdict} by {RULES}:{rule.line}" if rule else "denied: no rule allows it"
    )
    return int(verdict == "denied")
