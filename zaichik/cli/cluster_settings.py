"""The settings of a node: options of `zaichik cluster serve`, or lines of a file by the same names.

An option that is given counts more than the file's line. What the file says and no option has is
refused, for it would be a typing error that nobody notices.
"""

import difflib
import shlex
import socket
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zaichik.cli import address, default_ports, log, quantities
from zaichik.cli.arguments import Argument, Namespace, Parse, WrongUsage, argument, within
from zaichik.client.cluster.map import MOST_SHARDS

MOST_NAME = 100


def _name(text: str) -> str:
    if not text.isprintable() or "/" in text or text in {".", ".."} or len(text) > MOST_NAME:
        raise ValueError(text)
    return text


def _seconds(text: str) -> float:
    seconds = quantities.duration(text)
    if seconds == "forever":
        raise ValueError(text)
    return seconds


_shards = within(quantities.positive, lambda number: number <= MOST_SHARDS, "{} is too large")
_machine = within(_name, bool, "{} is no name for a machine: 1 to 100 letters without a slash")
_first_port = within(address.port, bool, "{} is no port that the next ones can be counted from")
_session = within(
    _seconds, lambda seconds: 1 <= seconds <= 600, "{} is not a duration from 1s to 10m"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: the option's, and the line's in the file.
        value: the word for its value; "" for a switch.
        text: what it is for.
        parse: makes the value of what was typed.
        default: its value if nobody has said anything.
        choices: its values, if there are few.
    """

    name: str
    value: str
    text: str
    parse: Parse = str
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of its attribute."""
        return self.name.replace("-", "_")

    @property
    def option(self) -> Argument:
        """The option; its value is None if it is not given."""
        if not self.value:
            return argument(f"--{self.name}", self.text, action="store_true", default=None)
        more: dict[str, Any] = {}
        if self.choices:
            more["choices"] = self.choices
        return argument(f"--{self.name} {self.value}", self.text, self.parse, **more)

    def parsed(self, value: Any) -> Any:
        """Returns the value of a line in the file.

        Raises:
            WrongUsage, ValueError: it is none.
        """
        if not self.value:
            if not isinstance(value, bool):
                raise WrongUsage("it must be true or false")
            return value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise WrongUsage("it must be text or a number")
        if self.choices and value not in self.choices:
            raise WrongUsage(f"it must be one of {', '.join(self.choices)}")
        return self.parse(str(value))


SETTINGS = (
    Setting("machine", "NAME", "this machine's name (default: the host's)", _machine),
    Setting("data", "DIR", "this machine's folder, made if it is missing", Path),
    Setting("shards", "N", "how many shards the cluster has; the first node decides", _shards),
    Setting(
        "most", "N", "how many shards this machine takes at most (default: all free ones)", _shards
    ),
    Setting(
        "zookeeper",
        "HOSTS/PATH",
        "HOST:PORT,... of ZooKeeper, and a path there (default: a cluster of this machine alone)",
    ),
    Setting("create-path", "", "make the path at ZooKeeper if it is missing"),
    Setting("zookeeper-login", "FILE", "a file with USER:PASSWORD for ZooKeeper", Path),
    Setting(
        "session",
        "DUR",
        "the silence after which ZooKeeper takes this machine for gone (default: 6s)",
        _session,
        6.0,
    ),
    Setting("serve-alone", "", "serve what was here last before ZooKeeper has answered"),
    Setting(
        "host", "HOST", "address that brokers listen on (default: 127.0.0.1)", str, "127.0.0.1"
    ),
    Setting("advertise", "HOST", "what clients are told to connect to (default: --host)"),
    Setting(
        "first-port",
        "PORT",
        f"the port of shard 0; shard N has this and N more (default: {default_ports.CLUSTER})",
        _first_port,
        default_ports.CLUSTER,
    ),
    Setting("access", "DIR", "the folder with users and rules, for all brokers here", Path),
    Setting(
        "broker-options",
        "OPTIONS",
        'more options of `zaichik serve`, in one word: "--retention 1h --limit max_keys=9"',
        shlex.split,
        (),
    ),
    Setting("log-level", "LEVEL", ", ".join(log.LEVELS), default="info", choices=(*log.LEVELS,)),
    Setting(
        "log-format",
        "FORMAT",
        "json: one object per line, with stable names for programs",
        default="text",
        choices=("text", "json"),
    ),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
CONFIG = argument("--config FILE", "a TOML file with these options, without their dashes", Path)


def given(arguments: Namespace) -> list[str]:
    """Returns the names of the options that were given."""
    return [setting.name for setting in SETTINGS if getattr(arguments, setting.key) is not None]


def completed(arguments: Namespace) -> Namespace:
    """Returns the arguments, completed by the file and the defaults.

    Raises:
        WrongUsage: the file cannot be read, or says what is no setting.
    """
    lines = {} if arguments.config is None else _lines(arguments.config)
    settings = vars(arguments).copy()
    for setting in SETTINGS:
        if settings[setting.key] is None:
            settings[setting.key] = lines.get(setting.key, setting.default)
    if settings["machine"] is None:
        settings["machine"] = socket.gethostname()
    return Namespace(**settings)


def _lines(path: Path) -> dict[str, Any]:
    """Returns the values in a file, by the keys of their settings."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUsage(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path} is not TOML: {error}") from None
    values = {}
    for name, value in found.items():
        setting = BY_NAME.get(name)
        if setting is None:
            raise WrongUsage(f"{path}: there is no setting {name}{_similar(name)}")
        try:
            values[setting.key] = setting.parsed(value)
        except (WrongUsage, ValueError) as error:
            raise WrongUsage(f"{path}: {name}: {error}") from None
    return values


def _similar(name: str) -> str:
    similar = difflib.get_close_matches(name, BY_NAME, 1)
    if similar:
        return f"; did you mean {similar[0]}?"
    return f"; there are {', '.join(BY_NAME)}"
