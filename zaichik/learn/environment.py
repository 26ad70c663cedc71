"""The environment of a learner's program: ours, without secrets for other people's brokers.

A program that is still being written easily prints its environment, or sends it somewhere.
"""

import os
from collections.abc import Mapping

# Prefixes of variables that hold a secret, or name its file.
SECRET = ("ZAICHIK_TOKEN", "ZAICHIK_PASSWORD")
ADDRESS = "ZAICHIK_CONNECT"


def for_program(variable: str, port: int, ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for a program that takes its port from one, and prints unbuffered."""
    kept = {name: value for name, value in ours.items() if not name.startswith(SECRET)}
    if _holds_secret(kept.get(ADDRESS, "")):
        del kept[ADDRESS]
    return kept | {variable: str(port), "PYTHONUNBUFFERED": "1"}


def _holds_secret(address: str) -> bool:
    """Whether an address has a login in it, or may have one."""
    return "@" in address or "zk_" in address
