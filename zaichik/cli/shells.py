"""Completion scripts: what a shell needs to know of every command, written in its language.

A script has all words in it. To ask the program at each Tab would be shorter, and take the time in
which Python starts. What is not known, such as a file or a topic, is left to the shell, which
completes names of files.
"""

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zaichik.cli import main


@dataclass(frozen=True, slots=True)
class Option:
    """An option, or an argument without a name.

    Attributes:
        flags: its names; an argument has none.
        about: one line for people.
        value: the word for its value, as in `--file FILE`; empty for a switch.
        choices: the values it may have, if they can be listed.
    """

    flags: tuple[str, ...]
    about: str
    value: str
    choices: tuple[str, ...]


def options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    """Yield all that may be typed after a command, in the order of its help page."""
    for action in parser._actions:  # noqa: SLF001 (argparse has no public way to list them)
        if action.help is argparse.SUPPRESS:
            continue
        formatter = parser._get_formatter()  # noqa: SLF001 (fills in defaults, as the help page does)
        about = " ".join(formatter._expand_help(action).split()) if action.help else ""  # noqa: SLF001
        value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
        choices = tuple(map(str, action.choices or ()))
        yield Option(tuple(action.option_strings), about, value, choices)


def script(shell: str) -> str:
    """Returns the script for one of `SCRIPTS`."""
    commands = {name: list(options(main.command_parser(name))) for name in main.COMMANDS}
    return "\n".join([*SCRIPTS[shell](commands), ""])


Commands = dict[str, list[Option]]


def _bash(commands: Commands) -> Iterator[str]:
    first = " ".join([*commands, *_flags(_without_command())])
    yield "_zaichik() {"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words="
    yield "    if (( COMP_CWORD == 1 )); then"
    yield f"        words={shlex.quote(first)}"
    yield "    else"
    yield "        case ${COMP_WORDS[1]}:$before in"
    for name, members in commands.items():
        unknown = []  # options whose values cannot be listed
        for option in members:
            places = [f"{name}:{flag}" for flag in option.flags if option.value]
            if places and option.choices:
                words = shlex.quote(" ".join(option.choices))
                yield f"            {'|'.join(places)}) words={words} ;;"
            else:
                unknown += places
        if unknown:
            yield f"            {'|'.join(unknown)}) ;;"
        words = shlex.quote(" ".join([*_choices(members), *_flags(members)]))
        yield f"            {name}:*) words={words} ;;"
    yield "        esac"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "# Where nothing fits, names of files are completed."
    yield "complete -o default -F _zaichik zaichik"


def _zsh(commands: Commands) -> Iterator[str]:
    yield "#compdef zaichik"
    yield "_zaichik() {"
    yield "    local -a commands=("
    for name in commands:
        yield f"        {shlex.quote(f'{name}:{main.COMMANDS[name]}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield "        _describe command commands"
    yield f"        compadd -- {' '.join(_flags(_without_command()))}"
    yield "        return"
    yield "    fi"
    yield "    shift words"
    yield "    (( CURRENT-- ))"
    yield "    case $words[1] in"
    for name, members in commands.items():
        specs = " ".join(shlex.quote(spec) for spec in _zsh_specs(members))
        yield f"        {name}) _arguments {specs} ;;"
    yield "    esac"
    yield "}"
    yield "# As a file in $fpath it is the function itself; evaluated, it only defines it."
    yield "if [[ $funcstack[1] == _zaichik ]]; then"
    yield '    _zaichik "$@"'
    yield "else"
    yield "    compdef _zaichik zaichik"
    yield "fi"


def _zsh_specs(members: list[Option]) -> Iterator[str]:
    """Yield what `_arguments` is told of each: its name, [what it is for] and :its value."""
    arguments = [option for option in members if not option.flags]
    for option in members:
        about = _escaped(option.about, "[]")
        value = ""
        if option.value:
            known = f"({' '.join(option.choices)})" if option.choices else "_default"
            value = f":{_escaped(option.value, ':')}:{known}"
        if not option.flags:
            # The star: any number of them, as the command says if they are too many. zsh refuses a
            # second star.
            yield f"*{value}" if option is arguments[-1] else value
        for flag in option.flags:
            # The star: it may be given again, as some options may.
            yield f"*{flag}[{about}]{value}"


def _fish(commands: Commands) -> Iterator[str]:
    for option in _without_command():
        yield f"complete -c zaichik -n __fish_use_subcommand {_fish_option(option)}"
    for name in commands:
        about = _fish_quoted(main.COMMANDS[name])
        yield f"complete -c zaichik -n __fish_use_subcommand -xa {name} -d {about}"
    for name, members in commands.items():
        condition = f"'__fish_seen_subcommand_from {name}'"
        for option in members:
            if option.flags or option.choices:
                yield f"complete -c zaichik -n {condition} {_fish_option(option)}"


def _fish_option(option: Option) -> str:
    words = []
    for flag in option.flags:
        name = flag.lstrip("-")
        words += ["-l" if flag.startswith("--") else "-s", name]
    if option.choices:
        words += ["-xa", _fish_quoted(" ".join(option.choices))]
    elif option.value:
        words.append("-r")
    return " ".join([*words, "-d", _fish_quoted(option.about)])


def _fish_quoted(text: str) -> str:
    return "'" + _escaped(text, "'") + "'"


def _escaped(text: str, letters: str) -> str:
    """Returns text with a backslash before these letters, and before each backslash."""
    for letter in f"\\{letters}":
        text = text.replace(letter, f"\\{letter}")
    return text


def _without_command() -> list[Option]:
    return list(options(main.main_parser()))


def _flags(members: list[Option]) -> list[str]:
    return [flag for option in members for flag in option.flags]


def _choices(members: list[Option]) -> list[str]:
    """Returns the values of arguments without a name, such as the action of a command."""
    return [choice for option in members if not option.flags for choice in option.choices]


SCRIPTS: dict[str, Callable[[Commands], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
