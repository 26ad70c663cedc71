"""The file of rules: what each user may do with which topics.

    # The first rule that matches decides; if none does, the answer is no.
    user ana                          # the rules of one user follow
    deny  subscribe orders/secret     # an exception comes before its rule
    allow publish,subscribe orders/*  # `*` at the end: every name that begins with orders/
    user *                            # those of everybody who has logged in follow
    allow describe "a topic # with odd letters*"
    # The last line ends with a newline.

A file that was cut off can only grant less: every beginning of it that has whole lines grants no
more than all of it, because what is missing is denied. Half a line could grant more (`deny all x`
is less than `deny all x*`, though `x` may be a topic), so a file whose last line is not ended is
refused.

Names are compared as they are: no case folding, no normalization, and nothing in a pattern stands
for the user's name, because then a user could be named after a pattern.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from zaichik.base.private_files import decoded, wrong
from zaichik.core.checks import MAX_NAME
from zaichik.core.rights import Action

ACTIONS: tuple[Action, ...] = get_args(Action)
USER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
EVERYBODY = "*"
MOST_RULES = 10_000
MOST_KNOWN = 4096  # answers that are remembered for each user

_LINE = re.compile(r"[ \t]*([^ \t\n]*)[ \t]*([^ \t\n]*)[ \t]*(.*)\n")  # two words, and the rest
_COMMENT = re.compile(r"(?:^|[ \t]+)#.*|[ \t]+$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line.

    Attributes:
        line: its number.
        user: the user it applies to; "*": everybody.
        allows: whether it allows; otherwise it denies.
        actions: the actions it applies to.
        text: a topic's name, or the beginning of names.
        size: how many letters of a name are compared with `text`; None: all.
    """

    line: int
    user: str
    allows: bool
    actions: frozenset[Action]
    text: str
    size: int | None


class Rights:
    """The rights of one user.

    Args:
        rules: the user's and everybody's, in their order.

    Attributes:
        publishable: a cache of topics that the user has the right to publish to.
    """

    def __init__(self, rules: list[Rule]) -> None:
        # Indexed by the number of letters compared, and by these letters: few of many rules have to
        # be checked.
        self._first: dict[Action, dict[int | None, dict[str, Rule]]] = {}
        for action in ACTIONS:
            self._first[action] = {}
        for rule in rules:
            for action in rule.actions:
                by_text = self._first[action].setdefault(rule.size, {})
                by_text.setdefault(rule.text, rule)
        self._known: dict[tuple[Action, str], bool] = {}
        self.publishable: set[str] = set()

    def rule(self, action: Action, topic: str) -> Rule | None:
        """Returns the rule that decides; None if no rule matches."""
        # The broker's own names begin with $. A `*` alone does not match them: they must be named.
        least = int(topic.startswith("$"))
        first: Rule | None = None
        for size, by_text in self._first[action].items():
            if size is not None and size < least:
                continue
            rule = by_text.get(topic[:size])
            if rule is not None and (first is None or rule.line < first.line):
                first = rule
        return first

    def may(self, action: Action, topic: str) -> bool:
        """Returns whether the user has the right to do that with the topic."""
        answer = self._known.get((action, topic))
        if answer is None:
            rule = self.rule(action, topic)
            answer = rule is not None and rule.allows
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
                self.publishable.clear()
            # No topic has a longer name, but anybody may ask about one.
            if len(topic) <= MAX_NAME:
                self._known[action, topic] = answer
                # A journal is judged by the name of its topic, so its own is not in the cache.
                if answer and action == "publish" and not topic.startswith("$"):
                    self.publishable.add(topic)
        return answer


class Rules:
    """All rules of a file.

    Args:
        rules: in their order.
    """

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self._compiled: dict[str, Rights] = {}

    @classmethod
    def parse(cls, data: bytes) -> "Rules":
        """Returns the rules that a file holds.

        Raises:
            Unusable: LINE:COLUMN, the mistake there, and how to fix it.
        """
        text = decoded(data)
        if text and not text.endswith("\n"):
            raise wrong(
                text, len(text), "the last line must end with a newline: it may have been cut off"
            )
        rules: list[Rule] = []
        user = ""
        for number, line in enumerate(_LINE.finditer(text), 1):
            if line[1] == "user":
                user = _user(line)
            elif line[1] and not line[1].startswith("#"):
                rules.append(_rule(line, number, user))
        if len(rules) > MOST_RULES:
            raise wrong(text, len(text), f"there are {len(rules)} rules; {MOST_RULES} is the limit")
        return cls(rules)

    def of(self, user: str) -> Rights:
        """Returns the rights of a user."""
        if user not in self._compiled:
            own = [rule for rule in self.rules if rule.user in {user, EVERYBODY}]
            self._compiled[user] = Rights(own)
        return self._compiled[user]


def _user(line: re.Match[str]) -> str:
    """Returns the name in a line `user NAME`."""
    if line[2] != EVERYBODY and not USER_NAME.fullmatch(line[2]):
        problem = (
            f"{line[2]!r} is not a user's name ({USER_NAME.pattern}), nor *, which is everybody"
        )
        raise wrong(line.string, line.start(2), problem)
    if _COMMENT.sub("", line[3]):
        problem = "only a comment may follow the name; rules begin on the next line"
        raise wrong(line.string, line.start(3), problem)
    return line[2]


def _rule(line: re.Match[str], number: int, user: str) -> Rule:
    if line[1] not in {"allow", "deny"}:
        problem = (
            f"a line cannot begin with {line[1]!r}; write user, allow, deny, or # and a comment"
        )
        raise wrong(line.string, line.start(1), problem)
    if not user:
        problem = "whose rule is this? Write a line `user NAME` or `user *` before it"
        raise wrong(line.string, line.start(1), problem)
    words: Collection[str] = ACTIONS
    if line[2] != "all":
        words = line[2].split(",")
    unknown = set(words).difference(ACTIONS)
    if unknown:
        known = ", ".join(ACTIONS)
        problem = (
            f"{min(unknown)!r} is not an action; write {known}, with commas and no blanks, or all"
        )
        raise wrong(line.string, line.start(2), problem)
    try:
        pattern = _pattern(line[3])
    except ValueError as error:
        sentence = str(getattr(error, "msg", error))
        # json's own sentence ends in a place that is counted from the quote.
        problem = sentence.partition(" starting")[0]
        raise wrong(line.string, line.start(3), problem) from None
    size = None
    if pattern.endswith("*"):
        size = len(pattern) - 1
    allows = line[1] == "allow"
    actions = frozenset(action for action in ACTIONS if action in words)
    return Rule(number, user, allows, actions, pattern[:size], size)


def _pattern(rest: str) -> str:
    """Returns the pattern at the end of a line: a JSON string, or everything before a comment."""
    pattern = _COMMENT.sub("", rest)
    if rest.startswith('"'):
        pattern, end = json.JSONDecoder().raw_decode(rest)
        if _COMMENT.sub("", rest[end:]):
            raise ValueError("only a blank and a comment may follow the closing quote")
    elif _CONTROL.search(pattern):
        raise ValueError('a control character; write the name as a JSON string: "one\\ttwo"')
    if not pattern:
        raise ValueError(
            "which topics? Write a name, or the beginning of names and a *, or * for all"
        )
    if "*" in pattern[:-1]:
        raise ValueError(
            "* stands for the rest of a name, so it can only be the last letter of a pattern"
        )
    return pattern
