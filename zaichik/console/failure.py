"""Exceptions as sentences for users."""

import errno

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


def cannot_listen(error: OSError, port: int, command: str, other: str, host: str = "") -> Failure:
    """Returns why a port cannot be listened at, and what to do.

    Args:
        error: what the system says.
        port: where.
        command: how to choose another port.
        other: the program that is most likely to have the port.
        host: the address, if it could be chosen.
    """
    match error.errno:
        case errno.EADDRINUSE:
            where = f"port {port} at {host}" if host else f"port {port}"
            return Failure(f"{where} is in use, perhaps by {other}; choose a free one: {command}")
        case errno.EACCES:
            return Failure(f"port {port} needs privileges; choose one from 1024 on: {command}")
        case _:
            return Failure(f"cannot listen at {host or f'port {port}'}: {error.strerror or error}")


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
        case ZaichikError(name=name) if name and not name.isdecimal():  # a number is one of a newer broker
            text = f"{error.message} (zaichik explain {name})"
        case Refused():
            text = f"{error.message} (zaichik explain {error.code.name})"
        case Failure() | ZaichikError() | Unencodable() | OSError():
            text = str(error)
        case _:
            return None
    return " ".join(text.split()) or type(error).__name__
