"""Changes of shared names, folded: the same result, and no more than that needs."""

import json
from random import Random

import pytest

from zaichik.core.shared_names.saved_names import FoldedChanges, take_over


def row(number):
    return [1, number, 0, 0, 0, 0, 0, 10, ""]


def name(next_offset, rows):
    return {"numbers": [0, next_offset, 0, 0, 0, 0, 5, 0], "rows": rows}


def changed_since(known, now):
    """What has changed of a name; None if nothing has."""
    if known is None:
        return now
    rows = dict.fromkeys(known["rows"].keys() - now["rows"].keys())
    rows |= {at: value for at, value in now["rows"].items() if known["rows"].get(at) != value}
    if not rows and known["numbers"] == now["numbers"]:
        return None
    return {"numbers": now["numbers"], "rows": rows}


def history(chance, saves=30):
    """Changes as they are saved, one after another, while names come, work and go."""
    known, now, found = {}, {}, []
    for _ in range(saves):
        for _ in range(chance.randrange(8)):
            key = chance.choice(["a", "b"])
            queue = now.setdefault(key, name(chance.randrange(3), {}))
            rows = queue["rows"]
            match chance.randrange(8):
                case 0:
                    # It may be made again before the next save, and begin anywhere.
                    del now[key]
                case 1 | 2 if rows:
                    del rows[chance.choice([*rows])]
                case 3 if rows:
                    rows[chance.choice([*rows])] = row(chance.randrange(100))
                case _:
                    rows[str(queue["numbers"][1])] = row(0)
                    queue["numbers"][1] += 1 + chance.randrange(2)
        after = json.loads(json.dumps(now))
        changes = dict.fromkeys(known.keys() - after.keys())
        for key, queue in after.items():
            change = changed_since(known.get(key), queue)
            if change is not None:
                changes[key] = change
        found.append(json.dumps(changes))
        known = after
    return found


def taken(saved, names=None):
    names = {} if names is None else names
    for changes in saved:
        take_over(names, json.loads(changes))
    return names


@pytest.mark.parametrize("seed", range(40))
def test_folded_changes_change_the_same(seed):
    """SHR-9: whatever was known before, and whatever comes after."""
    chance = Random(seed)
    saved = history(chance)
    first, last = sorted(chance.sample(range(len(saved) + 1), 2))
    if chance.random() < 0.3:
        first = 0
    folded = FoldedChanges(is_first=not first)
    for changes in saved[first:last]:
        folded.add(json.loads(changes))
    between = [json.dumps(changes) for changes in folded.changes()]
    assert taken(between, taken(saved[:first])) == taken(saved[:last])
    assert taken([*saved[:first], *between, *saved[last:]]) == taken(saved)


def test_what_was_opened_and_settled_leaves_no_trace():
    """Otherwise a file would keep a row for each job that there ever was."""
    folded = FoldedChanges(is_first=False)
    folded.add({"a": name(10, {"7": None, "9": row(1)})})
    for offset in range(10, 100):
        folded.add({"a": name(offset + 1, {str(offset - 1): None, str(offset): row(1)})})
    assert folded.changes() == [{"a": name(100, {"7": None, "9": None, "99": row(1)})}]


def test_nothing_has_gone_of_what_was_never_known():
    folded = FoldedChanges(is_first=True)
    folded.add({"a": name(3, {"2": row(1)}), "b": name(3, {"1": row(1), "2": None})})
    folded.add({"a": None, "b": name(3, {"1": None})})
    assert folded.changes() == [{"b": name(3, {})}]
    folded.add({"b": None})
    assert folded.changes() == []


def test_a_name_that_was_made_again_has_nothing_of_the_one_before():
    folded = FoldedChanges(is_first=False)
    folded.add({"a": None})
    folded.add({"a": name(3, {"2": row(1)})})
    changes = [json.dumps(it) for it in folded.changes()]
    assert taken(changes, {"a": name(9, {"8": row(4)})}) == {"a": name(3, {"2": row(1)})}
