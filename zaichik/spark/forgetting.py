"""Windows that never close, of a broker that remembers `max_keys` of them (COM-6): the oldest is forgotten first.

Number a topic's windows in the order in which they open. When the next batch comes and so many have opened, those that
are remembered are the last `max_keys`, whatever their keys. So a key's message opens a window if the key's last one has
a number below that `floor`, and a clock that counts windows takes the place of time:

    floor = opened - max_keys           # when a batch begins, and for all of it: the broker forgets after a batch

Who opens a window decides which others are forgotten, so the keys of a topic cannot be counted apart from each other as
those of other windows can: a topic's messages are gone through one by one, in their order, in one place.

Messages of one batch have one time, and those of two batches have different ones, for a broker takes longer than a
microsecond for a batch. That is how batches are told apart here, also where a micro-batch ends within one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zaichik.statistics.chain import numbered


@dataclass(frozen=True, slots=True)
class Turns:
    """How far the windows of a topic have come.

    Attributes:
        opened: windows, by messages with a key.
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
        max_keys: of the broker's windows, those that it remembers.
    """
    names = ("topic", "epoch", "key", "turn")
    last = {tuple(of): turn for *of, turn in zip(*(carried[name].to_pylist() for name in names), strict=True)}
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
