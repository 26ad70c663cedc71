"""The records of `$topics`: which topics there are, and what came and went between two records.

A record is about the newest topic of a name: its epoch, and how many topics of that name there were
before it. So a reader that finds another epoch than the one it knows can count the topics between
the two, which were made and deleted while it did not look: it has missed them.

A count begins again when the broker has forgotten the name, or has made `$topics` anew (PAT-5). So
a record has the epoch of the first topic that it counts.
"""

import json
import unicodedata
from dataclasses import dataclass

from zaichik.client.errors import UnexpectedReply
from zaichik.client.messages import Message

TOPICS = "$topics"

# Names whose topic has gone, of which the last record is remembered. If a name that was forgotten
# comes again, its earlier topics are reported as missed, which is too much, but not too little.
MOST_GONE = 100_000
LONGEST_NAME = 200  # bytes


@dataclass(frozen=True, slots=True)
class Record:
    """A record of `$topics`.

    Attributes:
        topic: the name of the topic.
        epoch: its identity.
        earlier: how many topics of that name are known to have been there before it.
        first: the epoch of the first of these; 0: there is none.
        gone: whether it is there no more.
    """

    topic: str
    epoch: int
    earlier: int = 0
    first: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What a record changes.

    Attributes:
        is_new: whether there is a topic now that was not known.
        missed: how many topics of that name have come and gone unseen.
        over: the epoch of the topic that was known, and is there no more; 0: none.
    """

    is_new: bool
    missed: int
    over: int


def record_of(message: Message) -> Record:
    """Returns the record that is in a message of `$topics`.

    Raises:
        UnexpectedReply: there is none.
    """
    try:
        topic = (message.key or b"").decode()
        members = json.loads(message.payload)
        epoch = members["epoch"]
        earlier = members["earlier"]
        first = members.get("first", 0)
        gone = members.get("gone", False)
    # The last one: it is nested too deeply.
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _wrong(message) from error
    for number in (epoch, earlier, first):
        if type(number) is not int or not 0 <= number < 2**64:
            raise _wrong(message)
    if not _is_name(topic) or not epoch or type(gone) is not bool:
        raise _wrong(message)
    return Record(topic, epoch, earlier, first, gone)


def _is_name(topic: str) -> bool:
    """Returns whether a topic may have that name (TOP-4).

    A program may print it, and a terminal would carry out what control characters say.
    """
    if not 1 <= len(topic.encode()) <= LONGEST_NAME:
        return False
    return not any(unicodedata.category(character) == "Cc" for character in topic)


def _wrong(message: Message) -> UnexpectedReply:
    return UnexpectedReply(
        f"the broker's message {message.offset} of {TOPICS} is no record of a topic"
    )


class KnownTopics:
    """The newest record of each topic that matches."""

    def __init__(self) -> None:
        self._there: dict[str, Record] = {}
        # In the order in which they were found to be gone.
        self._gone: dict[str, Record] = {}

    def take(self, record: Record, *, is_first: bool = False) -> Change:
        """Take a record; returns what it changes.

        Args:
            record: the newest one of its name.
            is_first: whether it is of the first look: what was before is nobody's loss.
        """
        topic = record.topic
        was_there = self._there.pop(topic, None)
        known = was_there or self._gone.pop(topic, None)
        if record.gone:
            self._remember_gone(record)
        else:
            self._there[topic] = record
        over = 0
        if was_there is not None and (record.gone or record.epoch != was_there.epoch):
            over = was_there.epoch
        if known is not None and known.epoch == record.epoch:
            return Change(is_new=False, missed=0, over=over)
        missed = _between(known, record)
        if record.gone:
            missed += 1
        if is_first:
            missed = 0
        return Change(is_new=not record.gone, missed=missed, over=over)

    def has(self, topic: str, epoch: int) -> bool:
        """Returns whether this topic is there, as far as is known."""
        known = self._there.get(topic)
        return known is not None and known.epoch == epoch

    def note_gone(self, topic: str, epoch: int) -> None:
        """Note that this topic was found to be gone.

        A record may say so, but need not come: `$topics` may have been made anew. Then what is
        there, which has no bound, would only grow.
        """
        if self.has(topic, epoch):
            self._remember_gone(self._there.pop(topic))

    def _remember_gone(self, record: Record) -> None:
        self._gone[record.topic] = record
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]


def _between(known: Record | None, record: Record) -> int:
    """Returns how many topics of a name came and went between two records."""
    if known is None or known.epoch < record.first:
        # None of those that are counted was known.
        return record.earlier
    if known.epoch == record.first:
        return record.earlier - 1
    return max(0, record.earlier - known.earlier - 1)
