"""A verdict: what became of a message at one place, by which rule and evidence, and what to do."""

from typing import Any, NamedTuple

# offsets, times in µs since 1970, settings, subscriptions, by name
Evidence = dict[str, Any]


class Verdict(NamedTuple):
    """What became of a message at one place.

    Attributes:
        fate: one word; `docs/use/explain.md` lists all.
        rule: the id of the rule of `docs/understand/semantics.md` that says so.
        text: the same as a sentence.
        next: what to do, as a sentence; "" if nothing is wrong.
        evidence: what shows it.
    """

    fate: str
    rule: str
    text: str
    next: str
    evidence: Evidence
