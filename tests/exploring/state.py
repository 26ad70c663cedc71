"""All that decides how a world goes on, as one value: equal values, equal futures.

The whole graph of objects is walked, because a field that is left out could be the one that has the
bug: what no rule asks for is named in `IGNORED`, and nothing else is passed over. An object that
does not say what it holds is an error. Times become ages, as rules ask how long ago something was,
and not what time it is. Beyond twice the longest duration of a world, older is no different.

Compiled, the core's objects do not say what they hold: there the model's alone tell states apart.
"""

import marshal
from array import array
from collections import Counter, OrderedDict, deque
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType

from model import Limits

from zaichik.core.settings import BrokerSettings

BEGIN_US = 10**15  # when worlds begin: no number that is no time is as large
OLDEST_US = 4_000

IGNORED = frozenset(
    {
        # What never changes.
        "boot",
        "clock",
        "connection_clock",
        "resident",
        # What is empty after each turn.
        "decoder",
        # What no verb uses.
        "shared_names",
        "_suggest",
        # Who has the next turn of the processor: here the story says so.
        "scheduler",
        # What only `describe` and `Explain` tell.
        "decisions",
        "ends",
        "expired_until_us",
        "lags",
        "recent_ends",
        "requests",
        "sent",
        "since_us",
        # Counts the model's ids, which stories do not use.
        "ids",
    }
)
# What never changes, either. (A topic's settings may: CreateTopic replaces those of its first use.)
UNCHANGING = frozenset({BrokerSettings, Limits})
PLAIN = frozenset({bytes, str, float, bool, type(None)})
SEQUENCES = frozenset({tuple, list, deque, array})
MAPPINGS = frozenset({dict, OrderedDict, Counter, MappingProxyType})
SETS = frozenset({set, frozenset})
FUNCTIONS = frozenset({FunctionType, BuiltinFunctionType})


def digest(thing, now_us):
    """What stands for the state of an object, and of all that it knows, at that time."""
    walk = _Walk(now_us)
    walk.add(thing)
    # In this version equal values have equal bytes, whatever else refers to them.
    return blake2b(marshal.dumps(walk.values, 2), digest_size=16).digest()


class _Walk:
    """Attributes:
    values: all that was met, in order, each object as its type and what it holds.
    """

    def __init__(self, now_us):
        self._now_us = now_us
        self._numbers = {}  # of each object that was met, by its id
        self.values = []

    def add(self, thing):
        kind = type(thing)
        if kind in PLAIN:
            self.values.append(thing)
        elif kind is int:
            self._add_number(thing)
        elif kind in SEQUENCES:
            self._add_all(thing)
        elif kind in MAPPINGS:
            self._add_all(thing)
            self._add_all(thing.values())
        elif kind in SETS:
            self._add_all(sorted(thing))
        elif kind in FUNCTIONS:
            self.values.append(thing.__qualname__)
            cells = getattr(thing, "__closure__", None) or ()
            self._add_all([cell.cell_contents for cell in cells])
        elif kind is MethodType:
            self._add_all((thing.__name__, thing.__self__))
        elif kind is partial:
            self._add_all((thing.func, thing.args))
        elif isinstance(thing, Enum | type):
            self.values.append(str(thing))
        elif isinstance(thing, tuple):
            self._add_all((kind.__name__, *thing))  # a named one
        elif kind not in UNCHANGING:
            self._add_object(thing)

    def _add_all(self, things):
        self.values.append((len(things),))  # which is no number that something holds
        for each in things:
            self.add(each)

    def _add_number(self, number):
        if number > BEGIN_US // 2:
            self.values.append("age")
            number = max(-OLDEST_US, min(self._now_us - number, OLDEST_US))
        self.values.append(number)

    def _add_object(self, thing):
        number = self._numbers.get(id(thing))
        if number is not None:
            self.values += ("seen", number)
            return
        self._numbers[id(thing)] = len(self._numbers)
        kind = type(thing)
        self.values.append(kind.__name__)
        slots, fields = _slots(kind), getattr(thing, "__dict__", None)
        if not slots and fields is None and not _is_compiled(kind):
            raise TypeError(f"what a {kind.__name__} holds cannot be seen")
        for name in slots:
            self.add(getattr(thing, name, "unset"))
        for name, value in (fields or {}).items():
            if name not in IGNORED:
                self.values.append(name)
                self.add(value)


@cache
def _slots(kind):
    """The names of what an object of that kind holds in slots, without those that are ignored."""
    names = []
    for each in kind.__mro__:
        names += [name for name in each.__dict__.get("__slots__", ()) if name not in IGNORED]
    return names


def _is_compiled(kind):
    """Whether it is the core's, or the protocol's."""
    return kind.__module__.startswith("zaichik")
