"""The rules that a front end needs, so that nobody has to copy them from a page.

What a front end keeps in topics of its own is its own user's alone: whoever else could publish
there would forge sessions, wills and positions. The first rule that matches decides, so these come
before all others, those of `user *` that allow everything included.
"""

import json
import re
from dataclasses import dataclass

from zaichik.cli.arguments import WrongUsage
from zaichik.server.access.rules import EVERYBODY, Rules

# What others must not do with a front end's own topics. They may look at them.
OTHERS = "publish,subscribe,create,delete"

_PLAIN = re.compile(r"[\w./$-]+\*?")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one front end needs.

    Attributes:
        text: what it is, for people.
        own: its own topics, which nobody else may use; patterns of rules.
        allowed: what its user is allowed besides: an action and a pattern.
        takes_topics: whether it serves topics that have to be named.
    """

    text: str
    own: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    takes_topics: bool = False


RECIPES = {
    "mqtt": Recipe("zaichik mqtt", own=("mqtt/*",), allowed=("all mqtt",), takes_topics=True),
    "kafka": Recipe("zaichik kafka", own=("kafka/*",)),
    "metrics": Recipe("zaichik web --metrics", allowed=("describe $broker", "describe *")),
}


def rules_for(recipe: Recipe, user: str, topics: list[str]) -> str:
    """Returns the lines for a file of rules.

    Args:
        recipe: of the front end.
        user: as whom it logs in.
        topics: others that it serves, such as the trees of MQTT.
    """
    lines = [f"# For {recipe.text}, which logs in as {user}.", f"user {user}"]
    lines += [f"allow all {pattern}" for pattern in recipe.own]
    lines += [f"allow {rule}" for rule in recipe.allowed]
    lines += [f"allow all {_quoted(topic)}" for topic in topics]
    if recipe.own:
        lines += ["# Nobody else may write there, or read: it is what the front end remembers."]
        lines += ["user *", *(f"deny {OTHERS} {pattern}" for pattern in recipe.own)]
    return "".join(f"{line}\n" for line in [*lines, ""])


def check_tree(topic: str) -> None:
    """Refuse what would be a rule for more than a topic.

    Raises:
        WrongUsage: it is no topic that is given as --tree.
    """
    if not topic or topic.startswith("$") or topic.endswith("*"):
        raise WrongUsage(f"{topic!r} is not a topic for --tree; name each topic by itself")


def shut_out(recipe: Recipe, before: Rules, after: Rules) -> list[tuple[str, str]]:
    """Returns users who had a front end's own topics, and have them no longer; and what they had.

    One user is to have them. But an operator who has mistyped its name must know.
    """
    found = set()
    for rule in before.rules:
        pattern = f"{rule.text}*"
        if rule.user == EVERYBODY or pattern not in recipe.own:
            continue
        had = before.of(rule.user).may("publish", rule.text)
        if had and not after.of(rule.user).may("publish", rule.text):
            found.add((rule.user, pattern))
    return sorted(found)


def _quoted(topic: str) -> str:
    """Returns a name as a pattern of a rule: one with odd letters is a JSON string."""
    if _PLAIN.fullmatch(topic):
        return topic
    return json.dumps(topic, ensure_ascii=False)
