"""Slips for short stories to find: each a wrong line in the core.

How their place and their code are written: see `planting`.
"""

from dataclasses import dataclass

import planting


@dataclass(frozen=True)
class Slip:
    """A wrong line.

    Attributes:
        name: what is wrong.
        kind: of the topic that shows it.
        where, right, wrong: see `planting`.
        story: a shortest one that shows it, its steps separated by commas.
    """

    name: str
    kind: str
    where: str
    right: str
    wrong: str
    story: str

    def planted(self):
        """Returns the file that has the slip, and its text with it."""
        return planting.planted(self.where, self.right, self.wrong)

    def plant(self, monkeypatch):
        """Have the running program be wrong, until the test is over."""
        planting.plant(monkeypatch, self.where, self.right, self.wrong)


SLIPS = [
    Slip(
        "a window is closed at both ends",
        "retained",
        "CompactionWindow.close",
        "oldest_us + self._window_us > now_us",
        "oldest_us + self._window_us >= now_us",
        "publish keyed, a ms passes, publish keyed",
    ),
    Slip(
        "a number that was stored is stored again",
        "retained",
        "Producers.answered",
        "sequence == known.next",
        "sequence >= known.next - 1",
        "publish numbered, publish the number again",
    ),
    Slip(
        "the next topic of a name may have the epoch of the last",
        "retained",
        "TopicRegistry._add",
        "max(now_us, self._last_deleted + 1)",
        "now_us",
        "delete, publish, delete, publish",
    ),
    Slip(
        "the names of a deleted topic stay",
        "retained",
        "Broker._forget",
        "self.named_positions.forget_all_of(topic)",
        "pass",
        "A subscribes by name, delete",
    ),
    Slip(
        "what was taken over reads on",
        "retained",
        "Reader.cut_off",
        "self.leave()",
        "pass",
        "A subscribes by name, B subscribes by name",
    ),
    Slip(
        "what is new counts as sent before",
        "retained",
        "Reader._deliver",
        "first < position.delivered",
        "first <= position.delivered",
        "publish, A subscribes, A takes a turn",
    ),
    Slip(
        "a commit leaves the last message in flight",
        "retained",
        "Reader.commit",
        "frames[0][1] <= next_offset",
        "frames[0][1] < next_offset",
        "publish, A subscribes, A takes a turn, A commits all",
    ),
    Slip(
        "until is inclusive",
        "retained",
        "Reader._next_frame",
        "self.cursor >= self.until",
        "self.cursor > self.until",
        "publish two, A subscribes until 1, A takes a turn",
    ),
    Slip(
        "a message lives a millisecond too long",
        "retained",
        "TopicController.expire",
        "now_us - self._ttl_us",
        "now_us - self._ttl_us - 1_000",
        "publish, a ms passes, a ms passes, publish two",
    ),
    Slip(
        "lag is not told",
        "retained",
        "Reader._go_on",
        "return self._skip(min(lost, self.until))",
        "return self._pass(min(lost, self.until))",
        "publish, A subscribes, publish two, A takes a turn",
    ),
    Slip(
        "a name that has no reader retains nothing",
        "transient",
        "TopicController.positions",
        "chain(live, named)",
        "chain(live)",
        "A subscribes by name, publish, A is cut off",
    ),
    Slip(
        "a full topic loses what a reader needs",
        "lossless",
        "InMemory.check_room",
        "head > ring.head and topic.needed() < head",
        "head > ring.head + 1 and topic.needed() < head",
        "publish, A subscribes, publish two",
    ),
]
