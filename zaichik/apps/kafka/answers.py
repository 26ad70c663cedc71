"""An answer that is given later, by whatever settles it: a value with one listener."""

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Answer(Generic[Value]):
    """The answer to a request that may have to wait.

    It knows no tasks, so what settles it can be tested without any.

    Attributes:
        value: the answer; None until it is settled.
    """

    def __init__(self, value: Value | None = None) -> None:
        self.value = value
        self._listener: Callable[[], object] | None = None

    def settle(self, value: Value) -> None:
        """Give the answer, unless there is one already."""
        if self.value is not None:
            return
        self.value = value
        if self._listener is not None:
            self._listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the answer is given; at once if it is there."""
        self._listener = listener
        if self.value is not None:
            listener()
