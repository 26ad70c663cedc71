"""What programs have done here since `zaichik web` began, for its metrics."""

from dataclasses import dataclass, field

CLASSES = ("2xx", "4xx", "5xx")  # of statuses; there are no others


@dataclass(eq=False, slots=True)
class Counts:
    """The counters.

    Attributes:
        streams: how many are open now.
        published: messages that were stored, or dropped by a window.
        answers: requests by the class of their status; streams count when they begin.
    """

    streams: int = 0
    published: int = 0
    answers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))

    def answered(self, status: int) -> None:
        """Count an answer."""
        self.answers[f"{status // 100}xx"] += 1
