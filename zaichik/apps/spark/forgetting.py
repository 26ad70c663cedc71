"""Windows that never close (COM-6): a broker remembers `max_keys`, and forgets the oldest first.

Number a topic's windows in the order in which they open. When a batch begins, those still
remembered are the `max_keys` that opened last, whatever their keys. So a message opens a window if
its key's last one has a number below the `floor`: a clock that counts windows takes the place of
time.

    # When a batch begins, and for all of it: the broker forgets after a batch.
    floor = opened - max_keys

Which windows are forgotten depends on which others open, so the keys of a topic cannot be counted
apart from each other, as those of windows that close can. A topic's messages are walked through in
their order, in one place.

The messages of a batch have one time, and no two batches have the same, since a broker takes longer
than a microsecond for one. That is how batches are told apart here, also where a micro-batch ends
within one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zaichik.apps.statistics.chain import numbered


@dataclass(frozen=True, slots=True)
class Turns:
    """How far the windows of a topic have come.

    Attributes:
        opened: how many there have been; messages without a key have none.
        floor: the number of the oldest one that is remembered, as of the last batch.
        now_us: when that batch was accepted.
    """

    opened: int = 0
    floor: int = 0
    now_us: int = -1


def turned(
    new: pa.Table, carried: pa.Table, before: Mapping[str, Turns], max_keys: int
) -> tuple[pa.Table, dict[str, Turns]]:
    """Returns the new messages with their column `turn` filled, and how far their topics have come.

    `turn` is the number of a message's window; null for a message without a key.

    Args:
        new: messages, as `carry.CARRIED`; all of their topics.
        carried: the rows carried for these topics, with their turns.
        before: how far the topics had come; one that is not there has not begun.
        max_keys: windows that the broker remembers.
    """
    names = ("topic", "epoch", "key", "turn")
    last = {
        tuple(of): turn
        for *of, turn in zip(*(carried[name].to_pylist() for name in names), strict=True)
    }
    order = np.lexsort((new["position"].to_numpy(), numbered(new["topic"])[1]))
    rows = new.take(pa.array(order))
    columns = (rows[name].to_pylist() for name in ("topic", "epoch", "key", "accepted_us"))
    turns: list[int | None] = []
    after: dict[str, Turns] = {}
    name, opened, floor, now_us = None, 0, 0, -1
    for *of, at_us in zip(*columns, strict=True):
        if of[0] != name:
            if name is not None:
                after[name] = Turns(opened, floor, now_us)
            name = of[0]
            known = before.get(name, Turns())
            opened, floor, now_us = known.opened, known.floor, known.now_us
        if at_us != now_us:
            floor, now_us = opened - max_keys, at_us
        if of[2] is None:
            turns.append(None)
            continue
        group = tuple(of)
        if last.get(group, -1) < max(floor, 0):
            last[group] = opened
            opened += 1
        turns.append(last[group])
    if name is not None:
        after[name] = Turns(opened, floor, now_us)
    at = rows.column_names.index("turn")
    return rows.set_column(at, "turn", pa.array(turns, pa.int64())), after
