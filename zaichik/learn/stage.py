"""What a stage is: a text, hints, and checks in the order in which a broker grows.

The text is the docstring of the stage's file, so that the file opens with what the learner reads.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from zaichik.learn.trial import Trial

CheckFunction = Callable[[Trial], Awaitable[None]]

LABELS = (
    "Goal",
    "Tested",
    "Real systems",
    "How",
    "Where",
)  # of the paragraphs of a stage's text, in this order
_TEXT = re.compile(
    "".join([r"S(\d+): (.+)\.", *(rf"\n\n{label}: (.+)" for label in LABELS)]), re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a broker must do.

    Attributes:
        id: such as S5.2.
        stage: its stage's number.
        title: the sentence that must hold.
        hints: where to look first if it does not hold, how it is usually built, and where to read
            about it.
        function: runs it; returns, or raises Failure, Inconclusive or Skipped.
        heavy: whether it loads the machine, so that its seeds are run one after another.
        once: whether one seed is enough, because it takes long and depends little on chance.
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
        number: 0 to 18.
        title: what the broker can do afterwards.
        goal: what to build, and why.
        tested: what the checks do.
        real: what real systems do at this point.
        hints: the second and third hint of each check that has none of its own.
        chapter: the tutorial's chapter that builds it.
        frames: the frames that are new here.
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
    def parse(cls, text: str, *, chapter: int, frames: str = "", heavy: bool = False) -> "Stage":
        """Read a stage's docstring: number and title, then the five paragraphs."""
        if (found := _TEXT.fullmatch(text.rstrip())) is None:
            raise ValueError(
                "a stage's text is S0: its title, and paragraphs that begin with "
                f"{', '.join(LABELS)}"
            )
        number, title, goal, tested, real, *hints = (
            " ".join(part.split()) for part in found.groups()
        )
        return cls(
            int(number),
            title,
            goal,
            tested,
            real,
            (hints[0], hints[1]),
            chapter,
            tuple(frames.split()),
            heavy,
        )

    @property
    def id(self) -> str:
        """Such as S5."""
        return f"S{self.number}"

    def check(
        self,
        title: str,
        *,
        hint: str,
        how: str = "",
        where: str = "",
        sentences: str = "",
        once: bool = False,
    ) -> Callable[[CheckFunction], CheckFunction]:
        """Declare a function as the stage's next check.

        Args:
            title: the sentence that must hold.
            hint: where to look first if it does not hold.
            how: how it is usually built; by default the stage's text.
            where: where to read about it; by default the stage's text.
            sentences: ids of the sentences that it tests, separated by spaces.
            once: whether one seed is enough.
        """

        def declare(function: CheckFunction) -> CheckFunction:
            name, cited = f"{self.id}.{len(self.checks) + 1}", tuple(sentences.split())
            hints = (hint, how or self.hints[0], where or self.hints[1])
            self.checks.append(
                Check(name, self.number, title, hints, function, self.heavy, once, cited)
            )
            return function

        return declare
