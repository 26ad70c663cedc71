"""The sentences of the wire protocol's text: their ids, and which of them a check tests."""

import re
from pathlib import Path

from offenders import each

from zaichik.learn import sentences
from zaichik.learn.stages import CHECKS

ROOT = Path(__file__).parents[2]
KNOWN = list(sentences.parse(sentences.TEXT.read_text(encoding="utf-8")))
IDS = {each.id for each in KNOWN}
TOPICS = {name.partition(".")[0] for name in IDS}
DROPPED: set[str] = set()  # ids of sentences that are no more: nobody gets them again

# Sentences without a check, by the reason. A new check that cites one of them takes it out of here.
WITHOUT_CHECK = {
    "about what a client does, and the suite checks brokers": """
        id.3 published.4 messages.4
    """,
    "leaves something to the broker, and any way of using that is right": """
        hello.8 setting.5 setting.6 credit.7 error.5 limit.1 limit.2 deletion.6 topic.3 durable.3
        table.11
    """,
    "about the protocol's future": """
        version.1 version.2 version.3
    """,
    "cannot be made to happen, or be seen, from outside": """
        stop.2 limit.3
    """,
    "takes longer than a check may: ten seconds to a day": """
        producer.12 slow.3 follow.4
    """,
    "needs more subscriptions, names or memory than a check may use up": """
        subscribe.9 name.12
    """,
    "is about shared names, without a stage yet; tests/test_black_box.py holds ours to it": """
        hello.19 messages.6 settle.1 settle.2 settle.3 settle.4
        dead.1 dead.2 dead.3 dead.4 dead.5 dead.6 dead.7
        shared.2 shared.3 shared.4 shared.5 shared.6 shared.7 shared.8 shared.9 shared.10
        shared.11 shared.12 shared.13 shared.14 shared.15
    """,
    "needs a disk that is full, damaged or broken": """
        durable.7 durable.8 durable.12
    """,
    "is for brokers that know users, or speak TLS; tests/server/access holds ours to it": """
        tls.1 tls.2 user.1 user.2 user.3 right.1 right.2 right.3 right.4 right.5
        follow.6 follow.7
    """,
}
WITHOUT = 66  # so many are in the list, which may only get shorter: lower this with it


def cited_without_check():
    return [name for names in WITHOUT_CHECK.values() for name in names.split()]


def test_an_id_is_given_once_and_no_number_is_left_out():
    names = [each.id for each in KNOWN]
    assert len(names) == len(IDS)
    assert not IDS & DROPPED
    for topic in TOPICS:
        numbers = [
            int(name.partition(".")[2]) for name in IDS | DROPPED if name.startswith(f"{topic}.")
        ]
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), topic


@each("sentence", KNOWN, shown=lambda sentence: sentence.id)
def test_a_sentence_is_one(sentence):
    assert len(sentence.words) > 15
    assert sentence.words.endswith((".", ".)", ":", ";"))
    assert sentence.heading


@each(
    "path",
    [
        *sorted((ROOT / "protocol").rglob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "zaichik" / "learn").rglob("*.py")),
        ROOT / "CONTRIBUTING.md",
    ],
    shown=lambda path: str(path.relative_to(ROOT)),
)
def test_what_refers_to_a_sentence_finds_it(path):
    found = re.findall(
        rf"(?<![\w.$])(?:{'|'.join(sorted(TOPICS))})\.[0-9]+\b", path.read_text(encoding="utf-8")
    )
    assert set(found) <= IDS


@each("check", CHECKS.values(), shown=lambda check: check.id)
def test_a_check_cites_the_sentences_that_it_tests(check):
    """To cite one is to name its id: `@STAGE.check(…, sentences="credit.2 credit.3")`."""
    assert check.sentences, f"which sentences of protocol/README.md does {check.id} test?"
    assert len(set(check.sentences)) == len(check.sentences)
    assert set(check.sentences) <= IDS


def test_every_sentence_has_a_check_or_a_reason():
    without = IDS - {name for check in CHECKS.values() for name in check.sentences}
    named = cited_without_check()
    assert sorted(without) == sorted(named), "WITHOUT_CHECK names just those that no check cites"
    assert len(named) == WITHOUT


def test_ids_are_told_from_the_rules_of_the_semantics():
    """Small letters and a dot here, capitals and a dash there."""
    rules = set(
        re.findall(
            r"[A-Z]+-\d+",
            (ROOT / "docs" / "understand" / "semantics.md").read_text(encoding="utf-8"),
        )
    )
    assert rules
    assert not IDS & rules


def test_sentences_are_found_in_paragraphs_and_lists():
    text = (
        "## 1 Place\n\n**a.1** One\ntwo. **a.2** Three.\n\n- **b.1** four\n  five;\n- "
        "six\n\nNone.\n"
    )
    assert [(each.id, each.words, each.heading) for each in sentences.parse(text)] == [
        ("a.1", "One two.", "1 Place"),
        ("a.2", "Three.", "1 Place"),
        ("b.1", "four five;", "1 Place"),
    ]


def test_without_the_text_no_sentence_is_known(monkeypatch, tmp_path):
    """An installed package has ids, and no text."""
    monkeypatch.setattr(sentences, "TEXT", tmp_path / "README.md")
    assert sentences.load() == {}
