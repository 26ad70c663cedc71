"""What a picture is made of: marks on a strip of offsets, lanes, and the axis of offsets."""

from dataclasses import dataclass

from zaichik.apps.views.axis import Knots, place


@dataclass(frozen=True, slots=True)
class Mark:
    """Offsets first .. end - 1 of the strip or of a lane, and what they are.

    If first == end, it is a place between two offsets.

    Kinds of the strip (lane ""), which do not overlap:
        gone          what became of them was not seen
        expired       their retention had ended
        evicted       the topic was full
        either        some expired and some were evicted, in an order that was not seen
        expiring      readable; the last tenth of their time
        resident      readable. `level` is how fast they came: 1.0 is the fastest of this picture
        sparse        of a table: some of them are readable. `level` is how many
        holes         of a table: none of them is readable any more
    Places of the strip, first == end:
        head, next    where the readable offsets begin, and where the next message will be
        wall          at the next offset, and in the slowest reader's lane: publishers wait for it
    Kinds of a lane, which do not overlap:
        told          lost, and reported to the reader (the text has the count)
        lost          gone before it read them, and not reported to it yet
        committed     settled, from the head on
        in_flight     delivered, not settled
        shared        of a shared name: from the oldest that is open or dead up to the next one to
                      be handed out. Others between them may be settled
        redelivered   delivered before, and again now or next; in place of in_flight and lag
        lag           to be delivered
    Places of a lane, first == end:
        cursor        the next offset to be delivered
        gate          at the cursor: out of credit, a commit opens it

    Attributes:
        kind: see above.
        lane: "" is the strip; else the reader's `name`.
        first, end: offsets.
        text: the exact number or a label, for a person.
        level: 0.0 to 1.0.
    """

    kind: str
    lane: str
    first: int
    end: int
    text: str = ""
    level: float = 1.0


@dataclass(frozen=True, slots=True)
class Lane:
    """A reader in words and numbers.

    Attributes:
        name: its `name` of describe.
        label: its name for a person; printable, and unique among the lanes.
        state: "caught up", "behind", "waits for commit", "reads the disk", "lost", "away" or
            "ended"; of a shared name also "at work", "stuck" (nothing is handed out before somebody
            does something) or "no worker".
        sentence: all of it in words.
        behind: messages to be delivered, describe's `lag`.
        in_flight: messages delivered and not settled: it may be caught up, and still have all of
            its work before it. Of a shared name, those that are open.
        seconds: the age of the next one to be delivered; None if there is none, or the broker does
            not report it.
        trend: "↗", "→", "↘" or "".
        clears_s: seconds until it is caught up at this speed; None if it never will be.
    """

    name: str
    label: str
    state: str
    sentence: str
    behind: int
    in_flight: int
    seconds: float | None
    trend: str
    clears_s: float | None


@dataclass(frozen=True, slots=True)
class Picture:
    """A topic at one moment.

    Attributes:
        axis: knots (offset, place), both ascending, places from 0 to the width; linear in between.
            At least two.
        breaks: places where the axis is broken (≈): on one of the two sides offsets are drawn
            closer together.
        marks: at most 600.
        lanes: the worst first, at most 12.
        hidden: readers of the reading without a lane.
        sentence: the strip in words.
    """

    axis: Knots
    breaks: tuple[float, ...]
    marks: tuple[Mark, ...]
    lanes: tuple[Lane, ...]
    hidden: int
    sentence: str

    def place(self, offset: int) -> float:
        """Returns the place of an offset: where the message with this offset begins."""
        return place(self.axis, offset)
