"""Forks: what a process inherits from the one that forked it, and must not use.

A fork copies the objects of a client, but neither its tasks nor its thread, and its socket is one
that both processes write to. So a call in the child would wait for ever, or its bytes would come
between those of the parent. Every object that would do so is watched from its beginning to its end,
and in the child its calls raise.
"""

import os
from collections.abc import Callable

ADVICE = (
    "this client belongs to the process that this one was forked from, and only works there; "
    "connect again in this process"
)

# The functions to call in a child process, one for each object that is watched. After that, calls
# of the object raise.
_watched: dict[Callable[[], None], None] = {}


def watch(inherited: Callable[[], None]) -> None:
    """Call a function in each process that is forked from now on, until `unwatch`."""
    _watched[inherited] = None


def unwatch(inherited: Callable[[], None]) -> None:
    """Stop calling it."""
    _watched.pop(inherited, None)


def _call_all() -> None:
    watched = list(_watched)
    _watched.clear()
    for inherited in watched:
        inherited()


# Windows has no forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_call_all)
