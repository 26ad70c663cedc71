"""Names of topics and readers as arguments. A name that cannot be sent at all is wrong usage."""

from zaichik.cli.arguments import WrongUsage

MOST_BYTES = 0xFFFF  # that a frame can carry


def name(text: str) -> str:
    """Returns the text unchanged if it can be sent.

    The broker decides whether it is a legal name (TOP-4, CMT-3).

    Raises:
        WrongUsage: it is too long, or not UTF-8.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise WrongUsage(f"{text!r} is not UTF-8, and a name must be") from None
    if size > MOST_BYTES:
        raise WrongUsage(
            f"a name of {size:,} bytes is too long; names have 1 to 200 bytes of UTF-8"
        )
    return text
