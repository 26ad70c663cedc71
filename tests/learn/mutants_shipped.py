"""What a broker may leave out, done wrong.

A mutant is zaichik with a few words replaced, since tiny_broker leaves it out; `planting` says how
its place and its code are written.
"""

import importlib
import types
from contextlib import contextmanager
from dataclasses import dataclass

from planting import find, planted


@dataclass(frozen=True)
class Mutant:
    """A wrong broker.

    Attributes:
        name: what is wrong with it.
        kills: the check that finds it.
        says: words of the verdict.
        where: the definition of zaichik with the mistake.
        right: what stands there, an expression or statements; `wrong` stands there instead.
        nth: which one, counted from 1, if what is right is there several times.
        patience: seconds that the verdict takes to come.
        clock: the broker's, as `zaichik serve --clock` names it.
    """

    name: str
    kills: str
    says: str
    where: str
    right: str
    wrong: str
    nth: int = 0
    patience: float = 0.3
    clock: str = "system"

    def planted(self):
        """The file that has the mistake, and its text with it."""
        return planted(self.where, self.right, self.wrong, self.nth)

    @contextmanager
    def in_force(self):
        """Give the module's functions the mutant's code meanwhile, and its numbers their values."""
        right = importlib.import_module(find(self.where).module)
        _, source = self.planted()
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
        is_own = getattr(mine, "__module__", "") == module
        if (
            is_own
            and isinstance(mine, types.FunctionType)
            and isinstance(other, types.FunctionType)
        ):
            yield mine, other
        elif isinstance(mine, property) and isinstance(other, property):
            yield mine.fget, other.fget
        elif is_own and isinstance(mine, type):
            yield from _pairs(vars(mine), vars(other), module)


def _replaced(function, other):
    code = function.__code__
    if code.co_freevars == other.__code__.co_freevars:
        function.__code__ = other.__code__
    return function, code


MUTANTS = [
    Mutant(
        "a batch that comes again is not marked",
        "S16.6",
        "flags should be",
        "Producers.answered",
        "Published(request.id, *answer, durable=durable, duplicate=True)",
        "Published(request.id, *answer, durable=durable)",
    ),
    Mutant(
        "the newest batch is stored again",
        "S16.6",
        "flags should be|first_offset should be",
        "Producers.answered",
        "sequence == known.next",
        "sequence in (known.next, known.next - 1)",
    ),
    Mutant(
        "gaps are carried out",
        "S16.7",
        "should have come",
        "Producers.answered",
        "sequence == known.next",
        "sequence in (known.next, known.next + 1)",
    ),
    Mutant(
        "63 answers are kept",
        "S16.8",
        "should have",
        "REMEMBERED_ANSWERS",
        "REMEMBERED_ANSWERS = 64",
        "REMEMBERED_ANSWERS = 63",
    ),
    Mutant(
        "65 answers are kept",
        "S16.8",
        "should have",
        "REMEMBERED_ANSWERS",
        "REMEMBERED_ANSWERS = 64",
        "REMEMBERED_ANSWERS = 65",
    ),
    Mutant(
        "an error that may pass is kept",
        "S16.9",
        "should",
        "Producers.remember",
        "outcome.code.retryable",
        "False",
    ),
    Mutant(
        "errors use no number up",
        "S16.9",
        "should",
        "Producers.remember",
        "outcome.code.retryable",
        "True",
    ),
    Mutant(
        "what comes again is not marked",
        "S16.10",
        "flags should be",
        "Reader._deliver",
        "self._send(found, is_again=is_again)",
        "self._send(found, is_again=False)",
    ),
    Mutant(
        "old and new come in one frame",
        "S16.10",
        "flags should be|base should be",
        "Reader._deliver",
        "min(before, position.delivered)",
        "min(before, position.delivered + 9)",
    ),
    Mutant(
        "who unsubscribes is forgotten",
        "S16.10",
        "flags should be",
        "SubscriptionManager._unsubscribe",
        "request.forget and reader.why_cut_off is None",
        "True",
    ),
    Mutant(
        "FORGET is overlooked",
        "S16.11",
        "flags should be",
        "SubscriptionManager._unsubscribe",
        "request.forget and reader.why_cut_off is None",
        "False",
    ),
    Mutant(
        "who was taken over still commits",
        "S16.12",
        "flags should be|start should be",
        "Reader.cut_off",
        "self.position = ExclusivePosition(self.position.committed)",
        "pass",
    ),
    Mutant(
        "names may hold control characters",
        "S16.13",
        "should have come",
        "check_name",
        'unicodedata.category(letter) == "Cc"',
        "letter is None",
    ),
    Mutant(
        "a start that is refused leaves a position",
        "S16.13",
        "should have come|flags should be",
        "SubscriptionManager._subscribe",
        "broker.shared_names.note_time(now_us)",
        """
        broker.shared_names.note_time(now_us)
        if request.name and request.start == 2 and request.value > topic.end:
            from zaichik.core.exclusive_position import ExclusivePosition

            broker.named_positions.open(topic, ExclusivePosition(topic.end, key, self.client))
            raise Refused(ErrorCode.OFFSET_AHEAD, "it is ahead", "value")
        """,
    ),
    Mutant(
        "two owners are remembered",
        "S16.14",
        "should have come",
        "REMEMBERED_OWNERS",
        "REMEMBERED_OWNERS = 64",
        "REMEMBERED_OWNERS = 2",
    ),
    Mutant(
        "a topic that rejects evicts",
        "S16.15",
        "should have come",
        "InMemory.check_room",
        "head > ring.head and topic.needed() < head",
        "False",
    ),
    Mutant(
        "a topic rejects what nobody needs",
        "S16.15",
        "should have come",
        "InMemory.check_room",
        "head > ring.head and topic.needed() < head",
        "head > ring.head",
    ),
    Mutant(
        "a topic rejects until anonymous readers commit",
        "S16.15",
        "should have come",
        "ExclusivePosition.needed",
        "self.reader.cursor",
        "self.committed",
    ),
    Mutant(
        "what a name was sent may go",
        "S16.16",
        "should have come",
        "ExclusivePosition.needed",
        "self.name or self.reader is None",
        "self.reader is None",
    ),
    Mutant(
        "what would be dropped is not counted",
        "S16.17",
        "should have come",
        "InMemory.check_room",
        "ring.head_after(batch)",
        "ring.head_after(batch) - (batch.count - 1)",
    ),
    Mutant(
        "pages are of any length",
        "S16.18",
        "a page of names is wrong",
        "describe:_page",
        "min(limit, most)",
        "most",
    ),
    Mutant(
        "a page is a list",
        "S16.18",
        "not a JSON object",
        "describe:describe",
        "json.dumps(state, ensure_ascii=False)",
        "json.dumps([state], ensure_ascii=False)",
    ),
    Mutant(
        "a client may end itself",
        "S16.19",
        "should have come|ended|nothing came",
        "_disconnect",
        "other == own",
        "False",
    ),
    Mutant(
        "a position is no reason to keep a topic",
        "S16.20",
        "should have come",
        "TopicController.check_empty",
        "messages or named",
        "messages",
    ),
    Mutant(
        "what a name has not settled is freed",
        "S16.21",
        "should have come",
        "ExclusivePosition.needed",
        """
        if self.name or self.reader is None:
            return self.committed
        return self.reader.cursor
        """,
        "return self.reader.cursor if self.reader else self.delivered",
    ),
    Mutant(
        "whoever keeps silent is ended",
        "S16.22",
        "ended the connection|should|broke",
        "Deadlines._overdue",
        "heartbeat and self._time_us - self._heard_us >= limits.idle_timeout * SECOND_US",
        "self._time_us - self._heard_us >= limits.idle_timeout * SECOND_US",
        patience=4.8,
    ),
    Mutant(
        "a heartbeat is never missed",
        "S16.22",
        "nothing came",
        "Deadlines._overdue",
        "heartbeat and self._time_us - self._heard_us >= limits.idle_timeout * SECOND_US",
        "heartbeat and False and self._time_us - self._heard_us >= limits.idle_timeout * SECOND_US",
    ),
    Mutant(
        "parts of a frame are no sign of life",
        "S16.22",
        "should have come",
        "Deadlines.check",
        "(frames, buffered) != (self._frames, self._buffered)",
        "frames != self._frames",
        patience=4.8,
    ),
    Mutant(
        "settings of durable topics are told of every topic",
        "S16.23",
        "has settings of durable",
        "TopicSettings.by_name",
        "absent |= OF_DURABLE_TOPICS",
        "pass",
    ),
    Mutant(
        "a durable topic may keep nothing",
        "S16.23",
        "should have come",
        "TopicSettings.check_kind",
        "self.durable and not self.retention_ttl_ms",
        "False",
    ),
    Mutant(
        "a durable topic keeps nothing by default",
        "S16.23",
        "does not report|INVALID_FIELD",
        "TopicSettings.merged",
        "is_kept and not self.retention_ttl_ms",
        "False",
    ),
    Mutant(
        "any topic may have a log",
        "S16.23",
        "should have come",
        "TopicSettings.check_kind",
        "sizes_log and not self.durable",
        "False",
    ),
    Mutant(
        "what is on the disk is told to whoever does not understand it",
        "S16.24",
        "flags should be",
        "Replies._pay",
        "replace(answer, id=request.id, durable=self.tells_durable)",
        "replace(answer, id=request.id, durable=True)",
    ),
    Mutant(
        "what is on the disk is told to nobody",
        "S16.24",
        "flags should be",
        "Replies._pay",
        "replace(answer, id=request.id, durable=self.tells_durable)",
        "replace(answer, id=request.id, durable=False)",
    ),
    Mutant(
        "Closed does not wait for the disk",
        "S16.25",
        "Closed came before",
        "Replies.add_last",
        "not self.owed",
        "True",
    ),
    Mutant(
        "the newest of those that waited is answered first",
        "S16.25",
        "out of order|first_offset",
        "WriteQueue.take_synced",
        "self.waiting.popleft()",
        "self.waiting.pop()",
    ),
    Mutant(
        "what waits when its topic is deleted may be tried again",
        "S16.26",
        "NO_SUCH_TOPIC",
        "WriteQueue._refuse_rest",
        "Refused(ErrorCode.NO_SUCH_TOPIC, problem)",
        "Refused(ErrorCode.STORAGE_FULL, problem)",
    ),
    Mutant(
        "what waits when its topic is deleted is never answered",
        "S16.26",
        "nothing came",
        "WriteQueue._refuse_rest",
        "self._log.owner.on_refused(Refused(ErrorCode.NO_SUCH_TOPIC, problem))",
        "pass",
    ),
    Mutant(
        "what has gone from the ring is gone",
        "S16.27",
        "start should be|Lagged",
        "Durable.head",
        "self._head",
        "self.head_in_memory",
    ),
    Mutant(
        "a batch for the disk may be larger than the ring",
        "S16.27",
        "should have come",
        "TopicController.publish",
        "batch.count > capacity",
        "not self.settings.durable and batch.count > self.settings.capacity",
    ),
    Mutant(
        "what the disk is asked comes when it comes",
        "S16.27",
        "should have come|id should be",
        "Replies.owe",
        "self.must_wait = not size",
        "self.must_wait = False",
    ),
    Mutant(
        "a log grows for ever",
        "S16.28",
        "is the head",
        "Writer.excess",
        "self.bytes - min(self._log_bytes, room)",
        "0",
    ),
    Mutant(
        "a log that rejects grows for ever",
        "S16.28",
        "should have come",
        "Durable.check_room",
        'raise no_room(f"the log of {topic.name!r}", log.head, topic.positions())',
        "pass",
    ),
    Mutant(
        "numbers count in all topics",
        "S16.29",
        "should",
        "Durable.__init__",
        "super().__init__(topic, settings, topic.name)",
        'super().__init__(topic, settings, "")',
    ),
    Mutant(
        "a clock only says that it was moved",
        "S16.35",
        "should",
        "Broker.advance",
        "clock.move_to(to_us)",
        "pass",
        clock="manual",
    ),
    Mutant(
        "a request that is sent again is one to set the clock back",
        "S16.35",
        "should",
        "Broker.advance",
        "now_us <= to_us <= LAST_US",
        "now_us < to_us <= LAST_US",
        clock="manual",
    ),
    Mutant(
        "numbers outlive their durable topic",
        "S16.29",
        "flags should be",
        "Broker._forget",
        "self.producers.forget_all_of(scope)",
        "pass",
    ),
    Mutant(
        "what is in flight is called settled",
        "S16.36",
        "the verdict in_flight on offset 1",
        "delivery:_below_cursor",
        "offset < reader.committed",
        "offset < reader.cursor",
    ),
    Mutant(
        "what is the next offset is called gone",
        "S16.36",
        "the first verdict on offset 3",
        "message_at",
        "offset < topic.head",
        "offset < topic.head or offset == topic.end",
    ),
    Mutant(
        "another message is said to have kept it out",
        "S16.36",
        "its winner is wrong",
        "kept_out",
        'evidence["winner"] = winner',
        'evidence["winner"] = winner + 1',
    ),
    Mutant(
        "pages don't tell the time",
        "S16.37",
        "a page of kind 4 is wrong",
        "describe:describe",
        'state["now_us"] = now_us',
        "pass",
    ),
    Mutant(
        "expired messages are counted",
        "S16.37",
        "counters",
        "counters",
        "retained.head",
        "0",
    ),
    Mutant(
        "the oldest window comes first",
        "S16.37",
        "windows",
        "CompactionWindow.newest",
        "reversed(self._opened_us.items())",
        "self._opened_us.items()",
    ),
    Mutant(
        "marks leave out the newest batch",
        "S16.37",
        "marks",
        "BroadcastRing.marks",
        "max(count - 1, 1)",
        "count",
    ),
    Mutant(
        "the reader that is ahead of all comes first",
        "S16.37",
        "furthest",
        "_furthest",
        'attrgetter("needed")',
        "lambda position: -position.needed",
    ),
    Mutant(
        "a table may keep nothing",
        "S17.1",
        "should have come",
        "TopicSettings.check_table",
        "not self.retention_ttl_ms",
        "False",
    ),
    Mutant(
        "settings of tables are told of every topic",
        "S17.1",
        "has settings of tables",
        "TopicSettings.by_name",
        "not self.table",
        "False",
    ),
    Mutant(
        "nothing is superseded",
        "S17.2",
        "was not due|Messages.base should be",
        "KeepLast._supersede",
        "part.alive[row] = 0",
        "pass",
    ),
    Mutant(
        "what comes next may be committed",
        "S17.3",
        "should have come",
        "Reader.commit",
        "next_offset > self.cursor",
        "next_offset > self.cursor + 1",
    ),
    Mutant(
        "holes are lag",
        "S17.4",
        "Lagged",
        "Table.lost_until",
        "max(offset, self.kept.head)",
        "self.kept.readable_from(offset)",
    ),
    Mutant(
        "holes cost credit",
        "S17.5",
        "nothing came",
        "Reader._send",
        "self.in_flight += count",
        "self.in_flight += end - first",
    ),
    Mutant(
        "a commit among holes settles nothing",
        "S17.5",
        "nothing came",
        "Reader.commit",
        "offsets is not None",
        "False",
    ),
    Mutant(
        "everybody knows tables",
        "S17.6",
        "should have come",
        "SubscriptionManager._hello",
        "bool(reply.features & TABLES)",
        "True",
    ),
    Mutant(
        "a full table is full one message early",
        "S17.7",
        "should have come",
        "Table._check",
        "change.messages > self._capacity",
        "change.messages >= self._capacity",
    ),
    Mutant(
        "tombstones take room",
        "S17.7",
        "should have come",
        "KeepLast.judge",
        "self.messages + len(last) + keyless - len(tombstones) - len(replaced)",
        "self.messages + len(last) + keyless - len(replaced)",
    ),
    Mutant(
        "every topic is a table to its readers",
        "S17.6",
        "flags should be",
        "SubscriptionManager._begin",
        "bool(topic.settings.table)",
        "True",
    ),
    Mutant(
        "a full table has room for another byte",
        "S17.8",
        "should have come",
        "Table._check",
        "change.size > self._max_bytes",
        "change.size > self._max_bytes + 1",
    ),
    Mutant(
        "a full table uses no number up",
        "S17.9",
        "should",
        "Producers.remember",
        "outcome.code.retryable",
        'outcome.code.retryable or outcome.code.name == "TABLE_FULL"',
    ),
    Mutant(
        "what has expired is passed",
        "S17.10",
        "Subscribed.start should be 4",
        "KeepLast._expire",
        "self.head = part.offsets[part.alive.rfind(1, 0, stop)] + 1",
        "pass",
    ),
    Mutant(
        "tombstones that are superseded in their batch need not be meant",
        "S17.11",
        "should have come",
        "Table._judged",
        "change.has_tombstones and not tombstones",
        "change.tombstones and not tombstones",
    ),
    Mutant(
        "only the newest tombstone stays",
        "S17.12",
        "DeletionsMissed came",
        "Table._store",
        "self._max_bytes // TOMBSTONES_PART",
        "0",
    ),
    Mutant(
        "the newest message may go",
        "S17.13",
        "DeletionsMissed|nothing came|was not due|Messages.base should be",
        "KeepLast._oldest_tombstone",
        "offset < self.next_offset - 1",
        "offset < self.next_offset",
    ),
    Mutant(
        "deletions are missed in silence",
        "S17.14",
        "a DeletionsMissed should have come",
        "Reader._has_missed_deletions",
        "self.cursor < below and not self.position.is_fresh",
        "False",
        patience=1.5,
    ),
    Mutant(
        "below is the last tombstone that has gone",
        "S17.14",
        "and below is 2",
        "Reader._next_frame",
        "DeletionsMissed(self.id, retained.deleted_below)",
        "DeletionsMissed(self.id, retained.deleted_below - 1)",
        patience=1.5,
    ),
    Mutant(
        "every reader begins at the earliest",
        "S17.15",
        "a DeletionsMissed should have come",
        "_own_position",
        "request.start == Start.EARLIEST",
        "True",
        patience=1.5,
    ),
    Mutant(
        "a name that was sent nothing has missed deletions",
        "S17.16",
        "DeletionsMissed came",
        "_own_position",
        "named.is_fresh = is_fresh",
        "named.is_fresh = False",
        patience=1.5,
    ),
    Mutant(
        "tombstones have half of the bytes",
        "S17.17",
        "was not due|Messages.base should be",
        "TOMBSTONES_PART",
        "TOMBSTONES_PART = 4",
        "TOMBSTONES_PART = 2",
    ),
    Mutant(
        "rows that are packed change places",
        "S17.18",
        "not published like this|was not due|Messages.base should be",
        "Part.trim",
        "_packed(self.payloads, self.payload_ends, rows)",
        "_packed(self.payloads, self.payload_ends, rows[::-1])",
    ),
    Mutant(
        "the next topic of a name looks like the first",
        "S17.19",
        "record of topic",
        "TopicsTable.came",
        "earlier.topics + 1",
        "earlier.topics",
    ),
    Mutant(
        "topics that go are not told of",
        "S17.19",
        "nothing came",
        "Following.went",
        "self._table is not None and not is_own(topic.name)",
        "False",
    ),
    Mutant(
        "a client may say what the table of topics has",
        "S17.20",
        "should have come",
        "check_publish",
        "topic.startswith(OWN_TOPICS)",
        "False",
    ),
    Mutant(
        "new topics do not wait for followers",
        "S17.21",
        "Lagged",
        "InMemory.sweep",
        "topic.settings.retention_ttl_ms == 0 and now_us >= topic.held_until_us",
        "topic.settings.retention_ttl_ms == 0",
    ),
    Mutant(
        "the table of topics keeps positions",
        "S17.22",
        "should have come",
        "check_follower",
        "request.topic == TOPICS and request.name",
        "False",
    ),
]
