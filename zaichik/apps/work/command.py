"""The command that is run for each message: its words, with what the message says in their places.

`{offset}`, `{key}` and `{topic}` are replaced in one pass over each word. What has been put in is
not looked at again: a key that reads `{topic}` stays as it is, and other braces mean nothing. No
shell is involved, so a key is part of one word, whatever is in it.

The same three are in the job's environment, for keys that are no text, begin with a dash, or have
no place in a shell's script.
"""

import errno
import os
import re
import shutil
from collections.abc import Sequence
from typing import NamedTuple, Self

_PLACE = re.compile(r"\{(offset|key|topic)\}")

# Those with the option -c, which takes a script.
_SHELLS = {"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"}

# Exit codes; the last two are those of shells.
FAILED = 1
NOT_EXECUTABLE = 126
NOT_FOUND = 127


class CannotRun(Exception):
    """The command cannot be run.

    Args:
        text: the sentence to show.
        code: the exit code that shells have for it.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])

    @classmethod
    def by(cls, word: str, error: OSError) -> Self:
        """Returns what the system's error means, for a command of that name."""
        match error:
            case FileNotFoundError() | NotADirectoryError():
                code = NOT_FOUND
            case PermissionError() | OSError(errno=errno.ENOEXEC):
                code = NOT_EXECUTABLE
            # It may be there, but there is no room for one more process.
            case _:
                code = FAILED
        return cls(f"{word}: {error.strerror or error}", code)


class CannotBeAnArgument(Exception):
    """What a message says cannot be put into a command; the text says why."""


class Invocation(NamedTuple):
    """How a job is started.

    Attributes:
        words: the command and its arguments.
        environment: all variables of the job.
    """

    words: list[str]
    environment: dict[str, str]


class Command:
    """A command with places for what a message says.

    Args:
        words: the command and its arguments, at least one.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def check(self) -> None:
        """Find out whether the command can be run, if that does not depend on the message.

        Raises:
            CannotRun: it cannot.
        """
        command = self.words[0]
        if _PLACE.search(command) or shutil.which(command):
            return
        if os.path.isfile(command):  # noqa: PTH113 (a Path would drop the ./ that a shell asks for)
            raise CannotRun(f"{command}: it may not be executed", NOT_EXECUTABLE)
        raise CannotRun(f"{command}: there is no such command", NOT_FOUND)

    @property
    def trusts_keys(self) -> bool:
        """Whether a key becomes part of a shell's script, so that it could be a command itself."""
        shell = os.path.basename(self.words[0])  # noqa: PTH119 (a word, which need not be a path)
        script = ""
        for option, word in zip(self.words[1:], self.words[2:], strict=False):
            if option.startswith("-") and option.endswith("c"):
                script = word
                break
        return shell in _SHELLS and "{key}" in script

    def on(self, topic: str, offset: int, key: bytes | None) -> Invocation:
        """Returns how the job of a message is started.

        A message without a key has an empty text in the places of `{key}`, and no ZAICHIK_KEY.

        Args:
            topic: the topic's name.
            offset: the message's offset.
            key: its key; None: it has none.

        Raises:
            CannotBeAnArgument: the key has a NUL byte, and the command a place for it. Without one,
                ZAICHIK_KEY is left out.
        """
        # Both are bytes to the system. Those that are no text become surrogates, and bytes again.
        values = {"topic": os.fsdecode(topic.encode()), "offset": str(offset), "key": ""}
        if key is not None:
            values["key"] = os.fsdecode(key)
        words = [_PLACE.sub(lambda place: values[place[1]], word) for word in self.words]
        if any("\0" in word for word in words):
            raise CannotBeAnArgument("its key has a NUL byte, which no argument can have")
        environment = dict(os.environ)
        environment.pop("ZAICHIK_KEY", None)
        environment["ZAICHIK_TOPIC"] = values["topic"]
        environment["ZAICHIK_OFFSET"] = values["offset"]
        if key is not None and b"\0" not in key:
            environment["ZAICHIK_KEY"] = values["key"]
        return Invocation(words, environment)
