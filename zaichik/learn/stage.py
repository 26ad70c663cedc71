"""What a stage is: a text, hints, and checks in the order in which a broker grows.

The text is the docstring of the stage's file, so that whoever opens the file reads first what a learner is told.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from zaichik.learn.trial import Trial

CheckFunction = Callable[[Trial], Awaitable[None]]

LABELS = ("Goal", "Tested", "Real systems", "How", "Where")  # of the paragraphs of a stage's text, in this order
_TEXT = re.compile("".join([r"S(\d+): (.+)\.", *(rf"\n\n{label}: (.+)" for label in LABELS)]), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a broker must do.

    Attributes:
        id: such as S5.2.
        stage: its stage's number.
        title: the sentence that must hold.
        hints: where to look first if it does not, how it is usually built, and where it can be read.
        function: carries it out; returns, or raises Failed, Inconclusive or Skipped.
        heavy: whether it loads the machine, so that its seeds are run one after the other.
        once: whether it takes so long, and leaves so little to chance, that one seed is enough.
        sentences: ids of the sentences of `protocol/README.md` that it tests.
    """

    id: str
    stage: int
    title: str
    hints: tuple[str, str, str]
    function: CheckFunction
    heavy: bool = False
    once: bool = False
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A step on the way to a broker.

    Attributes:
        number: 0 to 16.
        title: what the broker can do after it.
        goal: what to make, and why anybody wants it.
        tested: what the checks do.
        real: what real systems do at this point.
        hints: the second and third of each check that has none of its own.
        chapter: of the tutorial, which builds it.
        frames: those that come into play here.
        heavy: whether its checks load the machine.
        checks: in order.
    """

    number: int
    title: str
    goal: str
    tested: str
    real: str
    hints: tuple[str, str]
    chapter: int
    frames: tuple[str, ...]
    heavy: bool
    checks: list[Check] = field(default_factory=list)

    @classmethod
    def told(cls, text: str | None, *, chapter: int, frames: str = "", heavy: bool = False) -> "Stage":
        """The stage that a docstring tells of: number and title in its first line, then the five paragraphs."""
        if (found := _TEXT.fullmatch((text or "").rstrip())) is None:
            raise ValueError(f"a stage's text is S0: its title, and paragraphs that begin with {', '.join(LABELS)}")
        number, title, goal, tested, real, *hints = (" ".join(part.split()) for part in found.groups())
        return cls(int(number), title, goal, tested, real, (hints[0], hints[1]), chapter, tuple(frames.split()), heavy)

    @property
    def id(self) -> str:
        """Such as S5."""
        return f"S{self.number}"

    def check(
        self, title: str, *, hint: str, how: str = "", where: str = "", sentences: str = "", once: bool = False
    ) -> Callable[[CheckFunction], CheckFunction]:
        """Declare a function as the stage's next check.

        Args:
            title: the sentence that must hold.
            hint: where to look first if it does not.
            how: how it is usually built; by default what the stage says of all its checks.
            where: where that can be read; likewise.
            sentences: ids of those that it tests, with spaces between them.
            once: whether one seed is enough.
        """

        def declare(function: CheckFunction) -> CheckFunction:
            name, cited = f"{self.id}.{len(self.checks) + 1}", tuple(sentences.split())
            hints = (hint, how or self.hints[0], where or self.hints[1])
            self.checks.append(Check(name, self.number, title, hints, function, self.heavy, once, cited))
            return function

        return declare
