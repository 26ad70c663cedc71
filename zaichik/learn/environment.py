"""The environment of a learner's program: ours, without the secrets for brokers that others run.

A program that is still being written prints its environment, or sends it somewhere, more easily than one means to.
"""

import os
from collections.abc import Mapping

SECRET = ("ZAICHIK_TOKEN", "ZAICHIK_PASSWORD")  # how variables begin that hold a secret, or name its file
ADDRESS = "ZAICHIK_CONNECT"


def for_program(variable: str, port: int, ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the variables for a program that takes its port from one of them, and writes as soon as it prints."""
    kept = {name: value for name, value in ours.items() if not name.startswith(SECRET)}
    if _holds_secret(kept.get(ADDRESS, "")):
        del kept[ADDRESS]
    return kept | {variable: str(port), "PYTHONUNBUFFERED": "1"}


def _holds_secret(address: str) -> bool:
    """Whether there is a login in an address, or there may be one because it is none."""
    return "@" in address or "zk_" in address
