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
        clock: the broker's, as `zaichik serve --clock` names it.
    """

    name: str
    kills: str
    says: str
    module: str
    old: str
    new: str
    patience: float = 0.3
    clock: str = "system"

    def _module(self):
        return importlib.import_module(f"zaichik.{self.module}")

    def source(self):
        """The module with the mutant's code."""
        text = Path(self._module().__file__).read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.name}: {self.module} has {text.count(self.old)} times: {self.old}"
        return text.replace(self.old, self.new)

    @contextmanager
    def in_force(self):
        """Functions of the module have the mutant's code meanwhile, and its numbers the mutant's values."""
        right, source = self._module(), self.source()
        wrong = types.ModuleType(right.__name__)
        exec(compile(source, right.__file__, "exec"), wrong.__dict__)  # noqa: S102
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
        "durable=durable, duplicate=True)", "durable=durable)",
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
        "limit = min(limit, most)", "limit = most",
    ),
    Mutant(
        "a page is a list", "S16.18", "no JSON object", "observing.describe",
        "return more, json.dumps(state | {\"now_us\": now_us, \"boot\": broker.boot}, ensure_ascii=False).encode()",
        "return more, json.dumps([state], ensure_ascii=False).encode()",
    ),
    Mutant(
        "a client may end itself", "S16.19", "should have come|ended|nothing came", "broker.operating",
        "if other == own:", "if False:",
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
    Mutant(
        "settings of durable topics are told of every topic", "S16.23", "tells settings of durable", "broker.settings",
        'names if self.durable else names[: names.index("durable")]', "names",
    ),
    Mutant(
        "a durable topic may keep nothing", "S16.23", "should have come", "broker.settings",
        "if merged.durable and not merged.retention_ttl_ms:", "if False:",
    ),
    Mutant(
        "a durable topic keeps nothing by default", "S16.23", "does not tell|INVALID_FIELD", "broker.settings",
        'if values.get("durable") and not self.retention_ttl_ms:', "if False:",
    ),
    Mutant(
        "any topic may have a log", "S16.23", "should have come", "broker.settings",
        'if not merged.durable and ("log_bytes" in values or "segment_bytes" in values):', "if False:",
    ),
    Mutant(
        "what is on the disk is told to whoever does not understand it", "S16.24", "flags should be", "broker.replies",
        "durable=self.tells_durable", "durable=True",
    ),
    Mutant(
        "what is on the disk is told to nobody", "S16.24", "flags should be", "broker.replies",
        "durable=self.tells_durable", "durable=False",
    ),
    Mutant(
        "Closed does not wait for the disk", "S16.25", "Closed came before", "broker.replies",
        "        if not self.owed:\n            self.add(frame)\n", "        if True:\n            self.add(frame)\n",
    ),
    Mutant(
        "the newest of those that waited is answered first", "S16.25", "out of order|first_offset", "broker.durable",
        "done = self.waiting.popleft()", "done = self.waiting.pop()",
    ),
    Mutant(
        "what waits when its topic is deleted may be tried again", "S16.26", "NO_SUCH_TOPIC", "broker.durable",
        "Refused(ErrorCode.NO_SUCH_TOPIC, problem)", "Refused(ErrorCode.STORAGE_FULL, problem)",
    ),
    Mutant(
        "what waits when its topic is deleted is never answered", "S16.26", "nothing came", "broker.durable",
        "self.refused(Refused(ErrorCode.NO_SUCH_TOPIC, problem))", "pass",
    ),
    Mutant(
        "what has gone from the ring is gone", "S16.27", "start should be|Lagged", "broker.topic_controller",
        "return self.ring.head if self.durable is None else self.durable.head", "return self.ring.head",
    ),
    Mutant(
        "a batch for the disk may be larger than the ring", "S16.27", "should have come", "broker.topic_controller",
        "if batch.count > self.settings.capacity or", "if not self.durable and batch.count > self.settings.capacity or",
    ),
    Mutant(
        "what the disk is asked comes when it comes", "S16.27", "should have come|id should be", "broker.replies",
        "self.must_wait = not size", "self.must_wait = False",
    ),
    Mutant(
        "a log grows for ever", "S16.28", "is the head", "log.writer",
        "too_much, index = self.bytes - min(self._log_bytes, room), 0", "too_much, index = 0, 0",
    ),
    Mutant(
        "a log that rejects grows for ever", "S16.28", "should have come", "broker.durable",
        'raise Refused(ErrorCode.TOPIC_FULL, problem, "topic")', "pass",
    ),
    Mutant(
        "numbers count in all topics", "S16.29", "should", "broker.topic_registry",
        "return name if (self._settings.topic if topic is None else topic.settings).durable else \"\"", 'return ""',
    ),
    Mutant(
        "a clock only says that it was moved", "S16.35", "should", "broker.broker",
        "self.clock.move_to(to_us)", "pass", clock="manual",
    ),
    Mutant(
        "a request that is sent again is one to set the clock back", "S16.35", "should", "broker.broker",
        "if not now_us <= to_us <= LAST_US", "if not now_us < to_us <= LAST_US", clock="manual",
    ),
    Mutant(
        "numbers outlive their durable topic", "S16.29", "flags should be", "broker.broker",
        "self.producers.forget_all_of(topic.name)", "pass",
    ),
    Mutant(
        "what is in flight is called settled", "S16.36", "the verdict in_flight about offset 1", "explain.delivery",
        "if offset < reader.committed:", "if offset < reader.cursor:",
    ),
    Mutant(
        "what is the next offset is called gone", "S16.36", "the first verdict about offset 3", "explain.stored",
        "if offset < topic.head:", "if offset < topic.head or offset == topic.end:",
    ),
    Mutant(
        "another message is said to have kept it out", "S16.36", "winner in it is wrong", "explain.remembered",
        'opened_us, evidence["winner"] = found.before',
        'opened_us, evidence["winner"] = found.before[0], found.before[1] + 1',
    ),
    Mutant(
        "pages don't tell the time", "S16.37", "a page of kind 4 is wrong", "observing.describe",
        'state | {"now_us": now_us, "boot": broker.boot}', 'state | {"boot": broker.boot}',
    ),
    Mutant(
        "expired messages are counted", "S16.37", "counters", "observing.rows",
        "*(topic.name, topic.head, topic.end, ring.bytes", "*(topic.name, 0, topic.end, ring.bytes",
    ),
    Mutant(
        "the oldest window comes first", "S16.37", "windows", "broker.compaction",
        "in reversed(self._opened_us.items()):", "in self._opened_us.items():",
    ),
    Mutant(
        "marks leave out the newest batch", "S16.37", "marks", "broker.ring",
        "index * (self.batches - 1) // max(count - 1, 1)", "index * (self.batches - 1) // count",
    ),
    Mutant(
        "the reader that is ahead of all comes first", "S16.37", "furthest", "observing.describe",
        'shown, key=attrgetter("needed")', "shown, key=lambda position: -position.needed",
    ),
]  # fmt: skip
