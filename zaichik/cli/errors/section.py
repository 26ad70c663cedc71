"""One error, explained: what happened, by which rule, and what to do next."""

from dataclasses import dataclass

from zaichik.learn.chapters import CHAPTERS, Chapter
from zaichik_protocol import EndCode, ErrorCode, GoAwayCode

CLIENT = "client"  # the origin of errors that no frame carries
_FRAMES = {ErrorCode: "Error", EndCode: "SubscriptionEnded", GoAwayCode: "GoAway"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The explanation of one code.

    Attributes:
        code: the wire's, or the name that an error of the client's own ends in.
        title: what it means, in at most 50 characters.
        what: what happened.
        why: the reason for the rule that decided so.
        rules: the ids of such rules in docs/understand/semantics.md, with blanks in between;
            ERR is that part as a whole. "" for what is decided by no broker.
        then: what to do next: commands, calls, settings.
        chapter_number: of the tutorial's chapter about it; None: there is none.
        page: the page of docs/ that says more, perhaps with an anchor; "": none.
    """

    code: ErrorCode | EndCode | GoAwayCode | str
    title: str
    what: str
    why: str
    rules: str
    then: str
    chapter_number: int | None = None
    page: str = ""

    @property
    def name(self) -> str:
        """The code's name, such as TOPIC_FULL."""
        return self.code if isinstance(self.code, str) else self.code.name

    @property
    def number(self) -> str:
        """The code's number on the wire; "" for an error of the client's own."""
        return "" if isinstance(self.code, str) else str(int(self.code))

    @property
    def frame(self) -> str:
        """The frame that carries the code; `CLIENT` if none does."""
        return CLIENT if isinstance(self.code, str) else _FRAMES[type(self.code)]

    @property
    def chapter(self) -> Chapter | None:
        """The tutorial's chapter about it."""
        return None if self.chapter_number is None else CHAPTERS[self.chapter_number]

    @property
    def kind(self) -> str:
        """In a sentence or two: the frame, the exception, and what becomes of the connection."""
        match self.code:
            case ErrorCode() as code:
                fate = "The connection ends" if code.fatal else "The connection goes on"
                retry = "the same request would fail again"
                if code.retryable:
                    retry = "the same request may succeed later"
                return f"Error {int(code)}, in Python zaichik.{camel(code.name)}. {fate}; {retry}."
            case EndCode() as code:
                return (
                    f"SubscriptionEnded {int(code)}, in Python {_raised(code)}. The connection "
                    "goes on."
                )
            case GoAwayCode() as code:
                return f"GoAway {int(code)}, in Python zaichik.ConnectionLost. The connection ends."
            case name:
                return f"Raised by the client as {camel(name)}; the wire has no number for it."


def camel(name: str) -> str:
    """Returns the name of the exception that stands for a code: TopicFull for TOPIC_FULL."""
    return name.title().replace("_", "")


def _raised(code: EndCode) -> str:
    match code:
        case EndCode.UNTIL:
            return "the end of the loop"
        case EndCode.TAKEN_OVER:
            return "zaichik.TakenOver"
        case _:
            return "zaichik.SubscriptionLost"
