"""A broker that listens on a port of its own choice, and prints which."""

import json
import sys


def serving(*options: str, python: str = "", log_level: str = "warning") -> list[str]:
    """Returns the command that starts such a broker: the first line that it prints has the port.

    Args:
        options: further options of `zaichik serve`.
        python: the interpreter of another environment, whose zaichik is to run; "" for this one.
        log_level: what the broker logs.
    """
    interpreter = [sys.executable]
    if python:
        # It must not find this tree, which is the working directory.
        interpreter = [python, "-I"]
    told = ["--port", "0", "--json", "--log-level", log_level]
    return [*interpreter, "-m", "zaichik", "serve", *told, *options]


def port_in(line: str) -> int:
    """Returns the port that is in the first line."""
    port: int = json.loads(line)["port"]
    return port
