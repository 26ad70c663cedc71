"""The file of rules: the first that matches decides, and what is cut off only takes away."""

import json
from collections import Counter
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zaichik.base.private_files import Unusable
from zaichik.server.access.rules import ACTIONS, MOST_KNOWN, MOST_RULES, Rights, Rule, Rules

EXAMPLE = """\
# first match wins
user ana                       # section
allow publish,subscribe orders/*
deny  subscribe secret*
user *
allow describe "a topic # with odd letters*"
allow all public
"""
TOPICS = [
    "orders/",
    "orders/1",
    "orders",
    "Orders/1",
    "secret",
    "secrets",
    "public",
    "public ",
    "a topic # with odd letters",
    "*",
    "#",
    "%u",
    "ana",
    "",
    "$broker",
    "$journal/secret",
    "e\u0301",
    "\xe9",
    "\\",
    '"',
    "a\tb",
]


def rules(text):
    return Rules.parse(text.encode())


def rights(text, user="ana"):
    """All that the user may do with these topics."""
    may = rules(text).of(user).may
    return {(action, topic) for action, topic in product(ACTIONS, TOPICS) if may(action, topic)}


def test_the_first_rule_that_matches_decides():
    of = rules(EXAMPLE).of
    assert of("ana").may("publish", "orders/1")
    assert of("ana").rule("publish", "orders/1").line == 3
    assert not of("ana").may("publish", "orders")
    assert not of("boris").may("publish", "orders/1")
    assert of("boris").may("describe", "a topic # with odd letters!")
    assert of("boris").rule("delete", "public").line == 7
    assert of("boris").rule("delete", "else") is None
    first = rules("user *\ndeny all x\nallow all *\n")
    assert not first.of("ana").may("publish", "x")
    assert first.of("ana").may("publish", "xx")


def test_rules_of_a_user_and_of_everybody_decide_in_the_order_of_the_file():
    before = "user *\ndeny all x*\nuser ana\nallow all *\n"
    after = "user ana\nallow all *\nuser *\ndeny all x*\n"
    assert not rules(before).of("ana").may("publish", "x")
    assert rules(after).of("ana").may("publish", "x")


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", " \t\n#\n", "user *\n", "user ana\nuser *\n"]
)
def test_without_rules_nobody_may_anything(text):
    assert rights(text) == set()


def test_names_that_begin_with_a_dollar_are_never_meant_by_accident():
    assert not {topic for _, topic in rights("user *\nallow all *\n") if topic.startswith("$")}
    assert {topic for _, topic in rights("user *\nallow all $*\n")} == {
        "$broker",
        "$journal/secret",
    }
    assert {topic for _, topic in rights("user *\nallow all $broker\n")} == {"$broker"}


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic and "*" not in topic])
def test_a_name_is_compared_as_it_is(topic):
    assert {name for _, name in rights(f"user *\nallow all {json.dumps(topic)}\n")} == {topic}


def test_a_star_is_a_prefix_and_nothing_else_has_a_meaning():
    assert {name for _, name in rights("user *\nallow all *\n")} == {
        t for t in TOPICS if not t.startswith("$")
    }
    assert {name for _, name in rights("user *\nallow all %u\n")} == {"%u"}
    assert {name for _, name in rights('user *\nallow all "#"\n')} == {"#"}
    assert {name for _, name in rights("user *\nallow all e\u0301\n")} == {
        "e\u0301"
    }  # not its composed form


def test_actions():
    for action in ACTIONS:
        assert {did for did, _ in rights(f"user *\nallow {action} *\n")} == {action}
    assert {did for did, _ in rights("user *\nallow publish,create *\n")} == {"publish", "create"}
    assert {did for did, _ in rights("user *\nallow all *\n")} == set(ACTIONS)


def test_a_pattern_is_the_rest_of_the_line():
    assert rules("user *\nallow all two words  # comment\n").rules[0].text == "two words"
    assert rules("user *\nallow all a#b\n").rules[0].text == "a#b"
    assert rules('user *\n\tallow\tall\t"a\\tb" # "\n').rules[0].text == "a\tb"
    assert rules('user *\nallow all a"b\n').rules[0].text == 'a"b'
    assert rules("user *\nallow all a\u2028b\n").rules[0].text == "a\u2028b"  # ends no line here


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("user *\nallow all *", "2:12: the last line must end with a newline"),
        ("allow all *\n", "1:1: whose rule is this?"),
        ("\n  permit all *\n", "2:3: a line cannot begin with 'permit'"),
        ("user\n", "1:5: '' is not a user's name"),
        ("user Ana\n", "1:6: 'Ana' is not a user's name"),
        ("user an*\n", "1:6: 'an*' is not"),
        ("user ana boris\n", "1:10: only a comment may follow"),
        ("user *\nallow publsh *\n", "2:7: 'publsh' is not an action; write publish, subscribe"),
        ("user *\nallow publish, create *\n", "2:7: '' is not an action"),
        ("user *\nallow all,publish *\n", "2:7: 'all' is not an action"),
        ("user *\nallow all\n", "2:10: which topics?"),
        ("user *\nallow all # x\n", "2:11: which topics?"),
        ('user *\nallow all ""\n', "2:11: which topics?"),
        ("user *\nallow all a*b\n", "2:11: * stands for the rest"),
        ("user *\nallow all **\n", "2:11: * stands for the rest"),
        ('user *\nallow all "\\u002a*"\n', "2:11: * stands for the rest"),
        ('user *\nallow all "a\n', "2:11: Unterminated string"),
        ('user *\nallow all "a"b\n', "2:11: only a blank and a comment"),
        ("user *\nallow all a\tb\n", "2:11: a control character"),
        ("user *\r\nallow all *\r\n", "1:6: '*\\r' is not a user's name"),
        ("user ana\nallow all a\r\n", "2:11: a control character"),
        ("\ufeffuser *\n", "1:1: a line cannot begin with '\\ufeffuser'"),
    ],
)
def test_mistakes_have_a_place_and_say_what_is_right(text, told):
    with pytest.raises(Unusable) as caught:
        rules(text)
    assert told in str(caught.value)
    assert "(char" not in str(caught.value), "the only place is the one in the file"


def test_bytes_that_are_no_text():
    with pytest.raises(Unusable, match=r"^2:3: this is not UTF-8"):
        Rules.parse("user *\né".encode() + b"x\xff\n")


def test_how_many_rules_there_can_be():
    many = "user *\n" + "allow all x\n" * MOST_RULES
    assert len(rules(many).rules) == MOST_RULES
    with pytest.raises(Unusable, match=f"{MOST_RULES} is the limit"):
        rules(many + "allow all x\n")


NAMES = st.sampled_from(TOPICS) | st.text(st.sampled_from('ab/#% *$\u0301"\\'), max_size=6)
PATTERNS = st.sampled_from(
    ["*", "a*", "orders/*", "orders", "$*", "$broker", '"a b*"', '"\\u0024x"', "%u", "b"]
)
LINES = st.one_of(
    st.sampled_from(["user ana", "user *", "user boris", "", "# note", "user ana # it's me"]),
    st.tuples(
        st.sampled_from(["allow", "deny"]),
        st.sampled_from([*ACTIONS, "all", "publish,create"]),
        PATTERNS,
    ).map(" ".join),
)
FILES = st.lists(LINES, max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in ["user ana", *lines])
)


@given(FILES, st.lists(NAMES, max_size=8))
def test_a_file_that_is_cut_off_anywhere_grants_no_more(text, topics):
    """At each byte: either it is refused, or what it grants is a subset of what the whole file
    grants.
    """
    whole = rules(text)
    asked = [
        (user, action, topic)
        for user in ("ana", "boris")
        for action in ACTIONS
        for topic in [*topics, "a", "b"]
    ]
    data = text.encode()
    for size in range(len(data)):
        try:
            part = Rules.parse(data[:size])
        except Unusable:
            continue
        for user, action, topic in asked:
            assert whole.of(user).may(action, topic) or not part.of(user).may(action, topic)


@given(FILES)
def test_every_beginning_of_whole_lines_is_a_file(text):
    lines = text.splitlines(keepends=True)
    for count in range(len(lines)):
        rules("".join(lines[:count]))


@given(st.binary(max_size=60) | FILES.map(str.encode))
@example(b"user *\nallow all \x00*\n")
@example(b'user *\nallow all "\\ud800*"\n')
def test_whatever_is_in_a_file_it_is_parsed_or_refused(data):
    try:
        Rules.parse(data).of("ana").may("publish", "t")
    except Unusable as error:
        place = str(error).split(":")
    else:
        place = ["1", "1"]
    assert all(map(str.isdigit, place[:2]))


@given(FILES, NAMES, st.sampled_from(ACTIONS))
def test_the_rule_that_decides_is_the_first_that_matches_from_top_to_bottom(text, topic, action):
    def matches(rule):
        if (
            rule.user == "boris"
            or action not in rule.actions
            or (topic.startswith("$") and not rule.text)
        ):
            return False
        return topic == rule.text if rule.size is None else topic.startswith(rule.text)

    assert rules(text).of("ana").rule(action, topic) == next(
        filter(matches, rules(text).rules), None
    )


def test_a_question_costs_the_same_however_many_rules_there_are():
    """A page of `describe` asks about each topic, and there may be 10,000 of each: that would take
    seconds.
    """
    asked = Counter()

    class Watched(Rule):
        __slots__ = ()

        def __getattribute__(self, name):
            asked[name] += 1
            return super().__getattribute__(name)

    of_ana = Rights(
        [Watched(n, "ana", True, frozenset(["publish"]), f"topic{n:04}/", 10) for n in range(1000)]
    )
    asked.clear()
    assert not of_ana.may("publish", "else")
    assert of_ana.may("publish", "topic0999/x")
    assert asked.total() < 10


@given(FILES, st.lists(NAMES, max_size=20))
def test_what_is_remembered_is_what_the_rules_say(text, topics):
    of_ana = rules(text).of("ana")
    for topic in topics * 2:
        rule = of_ana.rule("publish", topic)
        assert of_ana.may("publish", topic) == (rule is not None and rule.allows)
        assert of_ana.may("subscribe", topic) in {True, False}
        assert (topic in of_ana.publishable) == (
            of_ana.may("publish", topic) and not topic.startswith("$")
        )


def test_no_name_that_begins_with_a_dollar_is_known_to_be_publishable():
    """What is asked about a journal is asked about its topic, and `$journal/$journal/x` must not
    answer for another.
    """
    of_ana = rules("user *\nallow all *\nallow all $journal/*\n").of("ana")
    assert of_ana.may("publish", "$journal/x")
    assert not of_ana.publishable


def test_what_is_remembered_has_a_limit():
    of_ana = rules("user *\nallow all x*\n").of("ana")
    for number in range(MOST_KNOWN + 10):
        assert of_ana.may("publish", f"x{number}")
    assert len(of_ana._known) == len(of_ana.publishable) == 10
    assert of_ana.may("publish", "x" * 60_000)
    assert max(len(topic) for _, topic in of_ana._known) < 10
