"""Keeps a login where `zaichik.client.logins` finds it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from zaichik.cli.access_folder import locked, write
from zaichik.client.endpoint import Endpoint
from zaichik.client.logins import KEY, NAME, place


def keep(found: Endpoint, environment: Mapping[str, str] = os.environ) -> Path:
    """Keep an address with its secret, instead of the one before. Returns where."""
    path = place(environment)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(path.parent) as folder:
        write(folder, NAME, json.dumps({"version": 1, KEY: found.line}).encode() + b"\n")
    return path
