"""An answer that is not known yet, because it waits for a disk: a minimal future with callbacks."""

from collections.abc import Callable
from typing import Any

from zaichik_protocol import Refused


class Pending:
    """An answer to come: a reply, a refusal, or any other result."""

    def __init__(self) -> None:
        self._answer: Any = None
        self._calls: list[Callable[[Any], None]] = []

    def then(self, call: Callable[[Any], None]) -> None:
        """Call that with the answer: now if it is known, else as soon as it is.

        Callbacks run in the order of calls.
        """
        if self._answer is None:
            self._calls.append(call)
        else:
            call(self._answer)

    def followed_by(self, make: Callable[[Any], Any]) -> "Pending":
        """Returns the answer that is made of this one when it comes; a refusal is passed on."""
        after = Pending()

        def pass_on(answer: Any) -> None:
            if not isinstance(answer, Refused):
                answer = make(answer)
            after.settle(answer)

        self.then(pass_on)
        return after

    def settle(self, answer: Any) -> None:
        """Give the answer, once."""
        self._answer = answer
        calls = self._calls
        self._calls = []
        for call in calls:
            call(answer)
