"""All consumer groups: where requests wait for their group's decision.

Groups belong to users: two users may have a group of the same name. No user can take all the room
that there is for groups.
"""

import secrets
from collections.abc import Iterator
from typing import TypeVar

import anyio

from zaichik.apps.kafka.answers import Answer
from zaichik.apps.kafka.groups import Group
from zaichik.apps.users.shares import Shares

MAX_GROUPS = 1000
# What the members of all groups have chosen: their protocols, and what they read. Each may have 64
# KiB, and 250,000 of those have no place in memory.
MAX_BYTES = 64 * 1024 * 1024

Value = TypeVar("Value")


class TooManyGroups(Exception):
    """There is no room for another group."""


class Coordinator:
    """The groups of all users."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Group] = {}
        # Wakes the requests that wait in a group, to look at its deadline again.
        self._waiting: dict[Group, set[anyio.Event]] = {}

    def __len__(self) -> int:
        """Returns how many groups there are; the last members may have left some of them."""
        return len(self._groups)

    def find(self, user: str, name: str) -> Group | None:
        """Returns that user's group; None if there is none."""
        return self._groups.get((user, name))

    def open(self, user: str, name: str) -> Group:
        """Returns that user's group, which may be a new one.

        Raises:
            TooManyGroups: it would be, and there is no room for it.
        """
        found = self._groups.get((user, name))
        if found is None:
            if self._are_used_up(user):
                self._forget_idle()
            if self._are_used_up(user):
                raise TooManyGroups(self._why_not(user))
            found = self._groups[user, name] = Group(_new_id)
        return found

    def _are_used_up(self, user: str) -> bool:
        shares = Shares(MAX_GROUPS)
        for owner, _ in self._groups:
            shares.take(owner)
        return not shares.may_take(user)

    def _why_not(self, user: str) -> str:
        count = len(self._groups)
        if count >= MAX_GROUPS:
            return f"there are {count} groups, which is the limit"
        own = sum(owner == user for owner, _ in self._groups)
        return f"its user has {own} groups, and others may need the {MAX_GROUPS - count} left"

    def has_room(self, user: str, size: int) -> bool:
        """Returns whether the groups of a user may keep so many bytes more."""
        shares = Shares(MAX_BYTES)
        for (owner, _), group in self._groups.items():
            shares.take(owner, group.size)
        return shares.may_take(user, size)

    def of(self, user: str) -> Iterator[tuple[str, Group]]:
        """Returns the names of a user's groups, and the groups."""
        for (owner, name), group in self._groups.items():
            if owner == user:
                yield name, group

    async def wait(self, group: Group, answer: Answer[Value]) -> Value:
        """Returns the answer when the group gives it, at the latest when its time is up."""
        self.changed(group)
        waiting = self._waiting.setdefault(group, set())
        while answer.value is None:
            news = anyio.Event()
            answer.listen(news.set)
            waiting.add(news)
            try:
                with anyio.move_on_after(group.next_deadline() - anyio.current_time()):
                    await news.wait()
            finally:
                waiting.discard(news)
            group.expire(anyio.current_time())
        return answer.value

    def changed(self, group: Group) -> None:
        """Have the requests that wait in the group look at its deadline again."""
        for news in self._waiting.get(group, ()):
            news.set()

    def _forget_idle(self) -> None:
        """Forget groups without members.

        Their positions are elsewhere. A generation of a group made again begins at 1; what a
        former member sends is refused, for it is not a member.
        """
        now = anyio.current_time()
        for key, group in list(self._groups.items()):
            group.expire(now)
            if group.is_idle:
                del self._groups[key]
                self._waiting.pop(group, None)


def _new_id(client: str) -> str:
    return f"{client[:64]}-{secrets.token_hex(16)}"
