"""Names in order, a page at a time."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.directory import Directory

names = st.text("ab#", max_size=4)


def page(directory, after, prefix):
    return list(directory.after(after, prefix))


def expected(things, after, prefix):
    return sorted(
        (name, thing) for name, thing in things.items() if name > after and name.startswith(prefix)
    )


@given(st.lists(st.tuples(names, st.booleans(), names, names), max_size=40))
def test_a_page_is_what_sorting_everything_would_give(steps):
    """With additions and removals in between."""
    directory, things = Directory(), {}
    for number, (name, stays, after, prefix) in enumerate(steps):
        if name in things and not stays:
            directory.remove(name)
            del things[name]
        elif name not in things:
            directory.add(name, number)
            things[name] = number
        assert len(directory) == len(things)
        assert page(directory, after, prefix) == expected(things, after, prefix)


@given(st.sets(names), st.integers(1, 3), names, st.lists(names, max_size=3))
def test_pages_are_complete_though_names_come_and_go_in_between(there, size, prefix, removed):
    """What is there all the time comes once; and nothing comes twice."""
    directory = Directory()
    for name in there:
        directory.add(name, None)
    seen, after, gone = [], "", list(removed)
    while found := list(islice(directory.after(after, prefix), size)):
        seen += [name for name, _ in found]
        after = seen[-1]
        if gone:
            if (name := gone.pop()) in there:
                directory.remove(name)
                there.discard(name)
            directory.add("b" * (5 + len(gone)), None)
    assert seen == sorted(set(seen))
    assert set(seen) >= {name for name in there if name.startswith(prefix) and name}


class Watched(list):
    """A list that counts how many of its items were read."""

    looks = 0

    def __getitem__(self, index):
        self.looks += 1
        return super().__getitem__(index)


def test_a_page_costs_the_same_however_many_names_there_are():
    """P5."""
    directory = Directory()
    for number in range(10_000):
        directory.add(f"{number:05}", number)
    directory._names = Watched(directory._names)
    found = list(islice(directory.after("04999", "0"), 50))
    assert [thing for _, thing in found] == list(range(5_000, 5_050))
    assert directory._names.looks <= 50 * 3 + 40
