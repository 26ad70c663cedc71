"""The option that has a command wait until what it publishes, or shows, is replicated (AK-1)."""

from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument
from zaichik.client.messages import AckedBy, check_acked_by


def _acked_by(text: str) -> str:
    try:
        check_acked_by(text)
    except ValueError:
        raise WrongUsage(f"{text!r} acknowledges nothing; write kafka") from None
    return text


def option(text: str) -> Argument:
    """The option.

    Args:
        text: what it does in this command.
    """
    return argument("--acked-by WHAT", text, _acked_by)


def chosen(arguments: Namespace) -> AckedBy | None:
    """Returns what has to have the messages; None: the broker alone."""
    by: AckedBy | None = arguments.acked_by
    return by
