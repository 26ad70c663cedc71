"""Which filters match which topics: the standard's own examples, and a matcher that is too plain to
be wrong.
"""

from sys import getsizeof

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zaichik.apps.mqtt.filters import (
    ENTRY_BYTES,
    MOST_LEVELS,
    FilterTree,
    filter_problem,
    split_share,
    topic_problem,
)

# Sections 4.7.1 and 4.7.2 of the standard, and the corners of both wildcards.
MATCHES = [
    ("sport/tennis/player1/#", "sport/tennis/player1", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
    ("sport/#", "sport", True),
    ("#", "sport/tennis", True),
    ("sport/tennis/+", "sport/tennis/player1", True),
    ("sport/tennis/+", "sport/tennis/player1/ranking", False),
    ("sport/+", "sport", False),
    ("sport/+", "sport/", True),
    ("+/+", "/finance", True),
    ("/+", "/finance", True),
    ("+", "/finance", False),
    ("+/tennis/#", "sport/tennis", True),
    ("sport/+/player1", "sport/tennis/player1", True),
    ("#", "$SYS/uptime", False),
    ("+/monitor/Clients", "$SYS/monitor/Clients", False),
    ("$SYS/#", "$SYS/uptime", True),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
    ("a/#", "a/$b", True),
    ("a/+", "a/$b", True),
    ("A", "a", False),
    ("a", "a", True),
    ("a", "a/", False),
    ("/", "/", True),
    ("//", "//", True),
    ("+//#", "a//b/c", True),
]


def naive(topic_filter, topic):
    """Whether a filter matches a topic, level by level."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    while wanted:
        level = wanted.pop(0)
        if level == "#":
            return True
        if not levels or level not in ("+", levels[0]):
            return False
        levels.pop(0)
    return not levels


@pytest.mark.parametrize(("topic_filter", "topic", "is_match"), MATCHES)
def test_the_standards_examples(topic_filter, topic, is_match):
    tree = FilterTree()
    tree.add(topic_filter, "it")
    assert tree.match(topic) == ("it",) * is_match
    assert naive(topic_filter, topic) is is_match


# -- against the naive matcher ---------------------------------------------------------------------

LEVELS = ["a", "b", "", "$s"]
TOPICS = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = (
    st.tuples(
        st.lists(st.sampled_from([*LEVELS, "+", "+"]), max_size=4),
        st.sampled_from([[], ["#"]]),
    )
    .map(lambda parts: "/".join(parts[0] + parts[1]))
    .filter(bool)
)


class NaiveTree(RuleBasedStateMachine):
    """A tree beside a set of pairs."""

    def __init__(self):
        super().__init__()
        # Room for three topics or so: the cache is emptied now and then.
        self.tree = FilterTree(remembered=6 * ENTRY_BYTES)
        self.pairs = set()

    @rule(topic_filter=FILTERS, value=st.integers(0, 3))
    def add(self, topic_filter, value):
        is_new = (topic_filter, value) not in self.pairs
        assert self.tree.add(topic_filter, value) is is_new
        self.pairs.add((topic_filter, value))

    @rule(topic_filter=FILTERS, value=st.integers(0, 3))
    def remove(self, topic_filter, value):
        was_there = (topic_filter, value) in self.pairs
        assert self.tree.remove(topic_filter, value) is was_there
        self.pairs.discard((topic_filter, value))

    @rule(data=st.data())
    def remove_one_that_is_there(self, data):
        if self.pairs:
            self.remove(*data.draw(st.sampled_from(sorted(self.pairs))))

    @rule(topic=TOPICS)
    def match(self, topic):
        wanted = [value for topic_filter, value in self.pairs if naive(topic_filter, topic)]
        assert sorted(self.tree.match(topic)) == sorted(wanted)

    @invariant()
    def it_has_as_many(self):
        assert len(self.tree) == len(self.pairs)

    def teardown(self):
        for pair in self.pairs:
            assert self.tree.remove(*pair)
        assert self.tree._root.is_empty, "no level is left over"


TestNaiveTree = NaiveTree.TestCase
TestNaiveTree.settings = settings(max_examples=40, stateful_step_count=30)


@given(st.lists(FILTERS, max_size=20, unique=True), TOPICS)
def test_a_match_is_what_each_filter_alone_would_match(filters, topic):
    tree = FilterTree()
    for topic_filter in filters:
        assert filter_problem(topic_filter) is None
        tree.add(topic_filter, topic_filter)
    assert topic_problem(topic) is None
    assert set(tree.match(topic)) == {each for each in filters if naive(each, topic)}


def test_levels_go_with_the_last_filter_that_needs_them():
    tree = FilterTree()
    filters = ["a/b/c", "a/b", "a/+/c"]
    for topic_filter in filters:
        tree.add(topic_filter, "it")
    tree.remove("a/b/c", "it")
    assert tree.match("a/b") == ("it",)
    assert list(tree._root.children["a"].children["b"].children) == []
    tree.remove("a/b", "it")
    tree.remove("a/+/c", "it")
    assert tree._root.is_empty


# -- costs -----------------------------------------------------------------------------------------


class CountingDict(dict):
    """A node's children, which count how often one is asked for."""

    asked = 0

    def get(self, *arguments):
        CountingDict.asked += 1
        return super().get(*arguments)


def test_a_match_costs_the_levels_and_not_the_filters(monkeypatch):
    costs = []
    for count in (10, 1000):
        tree = FilterTree()
        for number in range(count):
            tree.add(f"device/{number}/command", number)
        tree._root.children = CountingDict(tree._root.children)
        device = tree._root.children["device"]
        device.children = CountingDict(device.children)
        CountingDict.asked = 0
        assert tree.match("device/7/command") == (7,)
        costs.append(CountingDict.asked)
    assert costs[0] == costs[1] <= 6


def test_a_topic_that_comes_again_is_not_searched_again(monkeypatch):
    tree = FilterTree()
    tree.add("a/+", "it")
    searches = []
    search = FilterTree._search
    monkeypatch.setattr(FilterTree, "_search", lambda *it: searches.append(1) or search(*it))
    for _ in range(3):
        assert tree.match("a/b") == ("it",)
        assert tree.match("b") == ()
    assert len(searches) == 2
    tree.add("b", "more")
    assert tree.match("b") == ("more",)
    tree.remove("b", "more")
    assert tree.match("b") == ()
    assert len(searches) == 4


def test_the_cache_has_a_bound():
    most = 10 * (ENTRY_BYTES + getsizeof("topic/9") + getsizeof((0, 1, 2, 3)))
    tree = FilterTree(remembered=most)
    for value in range(4):
        tree.add("#", value)
    for number in range(10):
        assert len(tree.match(f"topic/{number}")) == 4
    assert len(tree._cache) == 10, "all that fit are there"
    for number in range(1000):
        assert len(tree.match(f"topic/{number}")) == 4
        sizes = [ENTRY_BYTES + getsizeof(one) + getsizeof(it) for one, it in tree._cache.items()]
        assert sum(sizes) == tree._cached <= most
    kept = len(tree._cache)
    assert kept > 1
    assert tree.match("long" * most) == (0, 1, 2, 3)
    assert len(tree._cache) == kept, "what is too large for the cache drives nothing out"


# -- which are valid -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("a", "/", "a/b", "+", "#", "+/+", "a/+/b", "a/#", "/#", "$SYS/#", "a b", "é/+"),
        *("$share", "$shared/a"),
        *("$share/g/a", "$share/g/#", "$share/g//", "$share/g/$share/h/a"),
    ],
)
def test_a_filter_is_valid(text):
    assert filter_problem(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    {
        "": "at least one character",
        "a+": "the wildcard + must be all of its level",
        "+a/b": "the wildcard + must be all of its level",
        "a/b+/c": "the wildcard + must be all of its level",
        "a#": "the wildcard # must be the last level",
        "a/#b": "the wildcard # must be the last level",
        "#/a": "the wildcard # must be the last level",
        "a/#/": "the wildcard # must be the last level",
        "##": "the wildcard # must be the last level",
        "a\0": "no U+0000",
        "a" * 65_536: "at most 65,535 bytes",
        "é" * 32_768: "at most 65,535 bytes",
        "/" * MOST_LEVELS: "at most 200 levels",
        "$share/g": "at least one character",
        "$share/g/": "at least one character",
        "$share/": "a shared subscription has a name",
        "$share//a": "a shared subscription has a name",
        "$share/+/a": "the name of a shared subscription has no wildcard",
        "$share/g#/a": "the name of a shared subscription has no wildcard",
        "$share/g/a+": "the wildcard + must be all of its level",
    }.items(),
    ids=lambda text: text[:20],
)
def test_a_filter_is_not_valid(text, problem):
    assert problem in filter_problem(text)


def test_the_largest_filter_is_valid():
    assert filter_problem("a" * 65_535) is None
    assert filter_problem("/" * (MOST_LEVELS - 1)) is None


@pytest.mark.parametrize("text", ["a", "/", "a/b", "$SYS/a", "$share/g/a", "a b", "a" * 65_535])
def test_a_topic_is_valid(text):
    assert topic_problem(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    {
        "": "at least one character",
        "a/+": "no wildcard",
        "a#": "no wildcard",
        "a\0": "no U+0000",
        "a" * 65_536: "at most 65,535 bytes",
        "/" * MOST_LEVELS: "at most 200 levels",
    }.items(),
    ids=lambda text: text[:20],
)
def test_a_topic_is_not_valid(text, problem):
    assert problem in topic_problem(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    {
        "a/b": (None, "a/b"),
        "$share": (None, "$share"),
        "$shares/g/a": (None, "$shares/g/a"),
        "$share/g/a/b": ("g", "a/b"),
        "$share/g//": ("g", "/"),
        "$share/g": ("g", ""),
        "$share//a": ("", "a"),
    }.items(),
)
def test_a_shared_subscription_is_split(text, parts):
    assert split_share(text) == parts
