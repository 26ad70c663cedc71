"""Brokers that are wrong on purpose, each in one place: what the stages must find.

A mutant is tutorial/tiny_broker.py with a few words replaced, as small as the slip that would cause
it; `planting` says how its places and its code are written. Some are what really happened in the
first zaichik, of 2020; they say so.
"""

from dataclasses import dataclass
from pathlib import Path

from planting import planted_in

# Checks of what tiny_broker.py leaves out, as its docstring says, and so do all mutants of it.
LEFT_OUT_BY_TINY = {"S5.9", "S7.8", "S7.9", "S11.12", "S11.13", "S12.8", "S12.12", "S13.4"}
TINY = Path(__file__).parents[2] / "tutorial" / "tiny_broker.py"


@dataclass(frozen=True)
class Mutant:
    """A wrong broker.

    Attributes:
        name: what is wrong with it.
        kills: the checks that find it; the first one is of the stage at which it fails.
        says: words of the verdict.
        patches: a definition in tiny_broker.py, the code that it has, and what stands there
            instead.
    """

    name: str
    kills: tuple[str, ...]
    says: str
    patches: tuple[tuple[str, str, str], ...]

    def source(self) -> str:
        text = TINY.read_text(encoding="utf-8")
        for where, right, wrong in self.patches:
            text = planted_in(text, where, right, wrong)
        return text


def declaring(mutants):
    """A function that adds a mutant to a list; its texts are its patches, three for each."""

    def mutant(name, kills, says, *texts):
        patches = tuple(zip(texts[::3], texts[1::3], texts[2::3], strict=True))
        mutants.append(Mutant(name, tuple(kills.split()), says, patches))

    return mutant
