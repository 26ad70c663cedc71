"""`learn.toml`: how to start the learner's server."""

import json
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE_NAME = "learn.toml"
START_S, STOP_S = 10.0, 5.0
# Placeholders in a command for the port, and for a folder to keep durable topics in.
PORT, DATA = "{port}", "{data}"


class BadConfig(Exception):
    """The file is missing or wrong; the text says where, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says.

    Attributes:
        folder: where the file is, and where the server is started.
        command: the program and its arguments.
        port_variable: the environment variable with the server's port.
        start_s, stop_s: how long the server may take to listen, and to stop.
        name: the file's name, for messages.
    """

    folder: Path
    command: tuple[str, ...]
    port_variable: str = "PORT"
    start_s: float = START_S
    stop_s: float = STOP_S
    name: str = FILE_NAME

    @property
    def names_a_folder(self) -> bool:
        """Whether the command gives the server a folder to keep durable topics in."""
        return any(DATA in word for word in self.command)

    def command_at(self, port: int, data: str) -> list[str]:
        """The command with a port and a folder filled in."""
        return [word.replace(PORT, str(port)).replace(DATA, data) for word in self.command]


def read(path: Path) -> Config:
    """Read a learn.toml.

    Raises:
        BadConfig: it is missing, or something in it makes no sense.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        made = "create one" if path.name == FILE_NAME else f"create a {FILE_NAME} to copy"
        how = f"zaichik learn init {path.parent} --python (without --python for another language)"
        raise BadConfig(f"there is no {path}; {made} with: {how}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
    server = content.get("server")
    if not isinstance(server, dict):
        raise BadConfig(f"{path} has no section [server]")
    known = {"command", "port_variable", "start_seconds", "stop_seconds"}
    if unknown := server.keys() - known:
        wrong, right = (", ".join(sorted(names)) for names in (unknown, known))
        raise BadConfig(f"{path}: unknown in [server]: {wrong}; known are {right}")
    return Config(
        path.parent.resolve(),
        _command(server.get("command"), path),
        _typed(server, "port_variable", str, "PORT", path),
        float(_typed(server, "start_seconds", (int, float), START_S, path)),
        float(_typed(server, "stop_seconds", (int, float), STOP_S, path)),
        str(path),
    )


def _command(value: Any, path: Path) -> tuple[str, ...]:
    if isinstance(value, str):
        value = shlex.split(value)
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise BadConfig(
            f'{path}: command must be a list of words, such as ["python3", "broker.py"]'
        )
    return tuple(value)


def _typed(section: dict[str, Any], name: str, kind: Any, default: Any, path: Path) -> Any:
    value = section.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        # JSON writes them as TOML does.
        given, usual = (json.dumps(each, default=str) for each in (value, default))
        raise BadConfig(f"{path}: {name} = {given} makes no sense; the default is {usual}")
    return value
