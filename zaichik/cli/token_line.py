"""A new token, shown once."""

from contextlib import suppress
from pathlib import Path

from rich.console import Console

from zaichik.base.private_files import Unusable
from zaichik.cli import screen
from zaichik.cli.serve_access import tls_of
from zaichik.net.tls_settings import UnusableCertificate


def show(token: str, name: str, folder: Path, console: Console) -> None:
    """Print a token on standard output, and nothing else there, for a script to store."""
    screen.say(console, token)
    line = "zaichik://TOKEN@HOST:PORT"
    if tls := tls_of(folder):
        line = "zaichiks://TOKEN@HOST:PORT?pin=..."
        # The broker reports it when it starts.
        with suppress(Unusable, UnusableCertificate, OSError):
            line = line.replace("...", tls(folder).pin)
    how = f"to log in, paste into `zaichik login`: {line}"
    screen.remark(f"this is the token of {name}, shown once and stored nowhere; {how}")
