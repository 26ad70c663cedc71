"""What a broker may leave out, done wrong: zaichik with a few words replaced, since tiny_broker leaves it out."""

import importlib
import types
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """A wrong broker.

    Attributes:
        name: what is wrong with it.
        kills: the check that finds it.
        says: words of the verdict.
        module: the module of zaichik with the mistake.
        old, new: its text, and what stands there instead.
        patience: seconds that the verdict takes to come.
    """

    name: str
    kills: str
    says: str
    module: str
    old: str
    new: str
    patience: float = 0.3

    @contextmanager
    def in_force(self):
        """Functions of the module have the mutant's code meanwhile, and its numbers the mutant's values."""
        right = importlib.import_module(f"zaichik.{self.module}")
        text = Path(right.__file__).read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.name}: {self.module} has {text.count(self.old)} times: {self.old}"
        wrong = types.ModuleType(right.__name__)
        exec(compile(text.replace(self.old, self.new), right.__file__, "exec"), wrong.__dict__)  # noqa: S102
        undo = [_replaced(*pair) for pair in _pairs(vars(right), vars(wrong), right.__name__)]
        numbers = {name: value for name, value in vars(right).items() if type(value) is int}
        vars(right).update({name: vars(wrong)[name] for name in numbers})
        try:
            yield
        finally:
            vars(right).update(numbers)
            for function, code in undo:
                function.__code__ = code


def _pairs(right, wrong, module):
    """Functions with their mutants, those of classes too."""
    for name, mine in list(right.items()):
        other = wrong.get(name)
        if isinstance(mine, types.FunctionType) and mine.__module__ == module and isinstance(other, types.FunctionType):
            yield mine, other
        elif isinstance(mine, property) and isinstance(other, property):
            yield mine.fget, other.fget
        elif isinstance(mine, type) and mine.__module__ == module:
            yield from _pairs(vars(mine), vars(other), module)


def _replaced(function, other):
    code = function.__code__
    if code.co_freevars == other.__code__.co_freevars:
        function.__code__ = other.__code__
    return function, code


MUTANTS = [
    Mutant(
        "a batch that comes again is not marked", "S16.6", "flags should be", "broker.producers",
        "duplicate=True)", "duplicate=False)",
    ),
    Mutant(
        "the newest batch is stored again", "S16.6", "flags should be|first_offset should be", "broker.producers",
        "if sequence < known.next:", "if sequence < known.next - 1:",
    ),
    Mutant(
        "gaps are carried out", "S16.7", "should have come", "broker.producers",
        "if sequence > known.next:", "if sequence > known.next + 1:",
    ),
    Mutant("63 answers are kept", "S16.8", "should have", "broker.producers", "REMEMBERED = 64", "REMEMBERED = 63"),
    Mutant("65 answers are kept", "S16.8", "should have", "broker.producers", "REMEMBERED = 64", "REMEMBERED = 65"),
    Mutant(
        "an error that may pass is kept", "S16.9", "should", "broker.producers",
        "if not refusal.code.retryable:", "if True:",
    ),
    Mutant(
        "errors use no number up", "S16.9", "should", "broker.producers",
        "if not refusal.code.retryable:", "if False:",
    ),
    Mutant(
        "what comes again is not marked", "S16.10", "flags should be", "broker.reader",
        "redelivered=again > 0", "redelivered=False",
    ),
    Mutant(
        "old and new come in one frame", "S16.10", "flags should be|base should be", "broker.reader",
        "room = min(room, again)", "room = min(room, again + 9)",
    ),
    Mutant(
        "who unsubscribes is forgotten", "S16.10", "flags should be", "broker.subscription_manager",
        "        if request.forget:\n", "        if True:\n",
    ),
    Mutant(
        "FORGET is overlooked", "S16.11", "flags should be", "broker.subscription_manager",
        "        if request.forget:\n", "        if False:\n",
    ),
    Mutant(
        "who was taken over still commits", "S16.12", "flags should be", "broker.reader",
        "        self.position = Position(self.position.committed)\n", "",
    ),
    Mutant(
        "names may hold control characters", "S16.13", "should have come", "broker.checks",
        'unicodedata.category(letter) == "Cc"', "letter is None",
    ),
    Mutant(
        "two owners are remembered", "S16.14", "should have come", "broker.position",
        "REMEMBERED_OWNERS = 64", "REMEMBERED_OWNERS = 2",
    ),
    Mutant(
        "a topic that rejects evicts", "S16.15", "should have come", "broker.topic_controller",
        "if head > self.ring.head and self.needed() < head:", "if False:",
    ),
    Mutant(
        "a topic rejects what nobody needs", "S16.15", "should have come", "broker.topic_controller",
        "if head > self.ring.head and self.needed() < head:", "if head > self.ring.head:",
    ),
    Mutant(
        "a topic rejects until anonymous readers commit", "S16.15", "should have come", "broker.position",
        "return self.committed if self.name or self.reader is None else self.reader.cursor", "return self.committed",
    ),
    Mutant(
        "what a name was sent may go", "S16.16", "should have come", "broker.position",
        "return self.committed if self.name or self.reader is None else self.reader.cursor",
        "return self.committed if self.reader is None else self.reader.cursor",
    ),
    Mutant(
        "what would be dropped is not counted", "S16.17", "should have come", "broker.topic_controller",
        "        head = self.ring.head_after(batch)\n",
        "        head = self.ring.head_after(batch) - (batch.count - 1)\n",
    ),
    Mutant(
        "pages are of any length", "S16.18", "a page of names is wrong", "observing.describe",
        "limit = min(request.limit, MAX_PAGE)", "limit = MAX_PAGE",
    ),
    Mutant(
        "a page is a list", "S16.18", "no JSON object", "observing.describe",
        "json.dumps(state, ensure_ascii=False)", "json.dumps([state], ensure_ascii=False)",
    ),
    Mutant(
        "a client may end itself", "S16.19", "should have come|ended|nothing came", "broker.subscription_manager",
        "if number == self.number:", "if False:",
    ),
    Mutant(
        "a position is no reason to keep a topic", "S16.20", "should have come", "broker.topic_controller",
        "if messages or named or self.readers:", "if messages or self.readers:",
    ),
    Mutant(
        "what a name has not settled is freed", "S16.21", "should have come", "broker.position",
        "return self.committed if self.name or self.reader is None else self.reader.cursor",
        "return self.reader.cursor if self.reader else self.delivered",
    ),
    Mutant(
        "whoever keeps silent is ended", "S16.22", "ended the connection|should|broke", "serving.deadlines",
        "if heartbeat and self._time_us", "if self._time_us", patience=4.8,
    ),
    Mutant(
        "a heartbeat is never missed", "S16.22", "nothing came", "serving.deadlines",
        "if heartbeat and self._time_us", "if heartbeat and False and self._time_us",
    ),
]  # fmt: skip
