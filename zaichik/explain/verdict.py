"""A verdict: what became of a message at one place, under which rule, by what evidence, and what to do about it."""

from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """What became of a message at one place.

    Attributes:
        fate: one word; `docs/explain.md` lists all.
        rule: the id of the rule of `docs/semantics.md` that says so.
        text: the same as a sentence.
        next: what to do, as a sentence; "" if nothing is wrong.
        evidence: what shows it: offsets, times in µs since 1970, settings, subscriptions.
    """

    fate: str
    rule: str
    text: str
    next: str
    evidence: dict[str, Any]
