"""`zaichik access`: says who may do what, and why; and writes the rules that front ends need.

`check` reads the files of a folder for --access as a broker does, and reports what is wrong with
them. Run this before you have the broker reload them (kill -HUP PID). With a user, an action
(publish, subscribe, create, delete or describe) and a topic, it says whether the user may do that,
and which line of DIR/rules decides. The exit code is 1 if a file is wrong, or if the answer is no.

`allow` sets up a front end (mqtt, kafka, or metrics for `zaichik web --metrics`): it writes the
rules of its user before all others, so that nobody else can forge what the front end keeps in
topics, and adds the user, whose token is printed, if there is none of that name. After the user,
name the topics that `zaichik mqtt` is given as --tree. What is there already stays.

Examples:
  zaichik access check ./access
  zaichik access check ./access ana publish orders      # allowed by rules:7
  zaichik access check ./access ana describe '$broker'  # denied: no rule allows
  zaichik access allow ./access mqtt gateway            # prints its token
  zaichik access allow ./access mqtt gateway orders     # with --tree orders
"""

import time
from pathlib import Path
from typing import get_args

from rich.console import Console

from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.base.private_files import Unusable, parsed
from zaichik.cli import screen, token_line
from zaichik.cli.access_folder import edited, locked, named, new_token, with_token, write
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, restated
from zaichik.cli.front_end_rules import RECIPES, check_tree, rules_for, shut_out
from zaichik.cli.serve_access import load, tls_of
from zaichik.core.rights import Action, topic_of
from zaichik.server.access.access_gate import EXPIRY_DAYS, RULES, Access
from zaichik.server.access.rules import EVERYBODY, Rules

ARGUMENTS = (
    argument(
        "ACTION",
        "what to do",
        metavar="check|allow",
        choices=["check", "allow"],
        dest="action_of_ours",
    ),
    argument("DIR", "the folder that the broker is given as --access", Path, dest="folder"),
    argument(
        "[QUESTION...]",
        "check: USER ACTION TOPIC, to ask whether this user may do this; allow: FRONTEND USER "
        "[TOPIC...]",
        metavar="WORDS",
    ),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Check the files, and answer the question; or write the rules of a front end."""
    if arguments.action_of_ours == "allow":
        return _allow(arguments.folder, arguments.question, console)
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


def _allow(folder: Path, words: list[str], console: Console) -> int:
    """Write the rules of a front end, and add its user."""
    if len(words) < 2:
        raise WrongUsage("write FRONTEND USER after DIR, such as: mqtt gateway")
    front_end, user, *topics = words
    recipe = RECIPES.get(front_end)
    if recipe is None:
        raise WrongUsage(f"{front_end!r} is no front end with rules; write one of {_names()}")
    if topics and not recipe.takes_topics:
        raise WrongUsage(f"{recipe.text} takes no topics here; write rules for its users")
    for topic in topics:
        check_tree(topic)
    record = named(user)
    what = "its rules are there already"
    written = _write_rules(folder, rules_for(recipe, user, topics))
    if written is not None:
        what = "rules written"
        for name, pattern in shut_out(recipe, *written):
            screen.remark(f"warning: {name} may no longer write to {pattern}: {user} may", "yellow")
    screen.remark(f"{folder / RULES}: {what}; have the broker read them: kill -HUP PID")
    token, text = new_token(note=recipe.text)
    with edited(folder) as editing:
        if user in editing.users.by_name:
            screen.remark(f"{user}: there already, with what it logs in with")
            return 0
        editing.put(with_token(record, token))
    token_line.show(text, user, folder, console)
    return 0


def _names() -> str:
    return ", ".join(RECIPES)


def _write_rules(folder: Path, lines: str) -> tuple[Rules, Rules] | None:
    """Write rules before those that are there; returns the old and the new; None: they were there.

    Raises:
        Failure: the file cannot be used, or would not be a file of rules any more.
    """
    with locked(folder) as descriptor, restated(Unusable):
        before = parsed(folder / RULES, _text, is_secret=False)
        if lines in before:
            return None
        after = lines + before
        rules = Rules.parse(before.encode()), Rules.parse(after.encode())
        write(descriptor, RULES, after.encode())
    return rules


def _text(data: bytes) -> str:
    """Returns a file of rules as it is, if it is one."""
    Rules.parse(data)
    return data.decode()
