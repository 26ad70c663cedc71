"""Exceptions as sentences for users."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zaichik.client.errors import ZaichikError
from zaichik_protocol import Refused, Unencodable


class Failure(Exception):
    """A command cannot do what was asked.

    Args:
        text: the sentence to show.
        code: the exit code.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@contextmanager
def restated(*kinds: type[Exception], by: Callable[[str], Exception] = Failure) -> Iterator[None]:
    """What these exceptions say in the block is raised as a failure, or as another exception."""
    try:
        yield
    except kinds as error:
        raise by(str(error)) from error


@contextmanager
def listening(port: int, command: str, other: str, host: str = "") -> Iterator[None]:
    """If the block cannot listen at a port, the failure says why, and what to do.

    Args:
        port: where.
        command: how to choose another port.
        other: the program that is most likely to have the port.
        host: the address, if it could be chosen.
    """
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                where = f"port {port} at {host}" if host else f"port {port}"
                problem = f"{where} is in use, perhaps by {other}; choose a free one: {command}"
            case errno.EACCES:
                problem = f"port {port} needs privileges; choose one from 1024 on: {command}"
            case _:
                problem = f"cannot listen at {host or f'port {port}'}: {error.strerror or error}"
        raise Failure(problem) from error


def sentence(error: BaseException) -> str | None:
    """Returns the line to show for an exception; None if it is a bug rather than a failure."""
    match error:
        case BaseExceptionGroup():
            # Several tasks failed together: one cause, seen from several sides.
            return next(filter(None, map(sentence, error.exceptions)), None)
        case OSError(filename=str(name), strerror=str(reason)):
            text = f"{name}: {reason}"
        case OSError(strerror=str(reason)):
            text = reason
        # A number is a code of a newer broker.
        case ZaichikError(name=name) if name and not name.isdecimal():
            text = f"{error.message} (zaichik explain {name})"
        case Refused():
            text = f"{error.message} (zaichik explain {error.code.name})"
        case Failure() | ZaichikError() | Unencodable() | OSError():
            text = str(error)
        case _:
            return None
    return " ".join(text.split()) or type(error).__name__
