"""`zaichik completion`: a script for a shell, which then completes commands and options.

Print a script with which bash, zsh or fish completes commands, options and their values when you
press Tab. The shell reads it once, when it starts, so completing is instant. After an upgrade, a
new shell knows the new options.

Examples:
  eval "$(zaichik completion bash)"            # in ~/.bashrc
  eval "$(zaichik completion zsh)"             # in ~/.zshrc, after compinit
  zaichik completion fish > ~/.config/fish/completions/zaichik.fish
"""

import sys

from rich.console import Console

from zaichik.cli import shells
from zaichik.cli.arguments import Namespace, argument

ARGUMENTS = (
    argument("SHELL", "which shell: bash, zsh or fish", metavar="SHELL", choices=shells.SCRIPTS),
)


async def run(arguments: Namespace, _: Console) -> None:
    """Print the script."""
    sys.stdout.write(shells.script(arguments.shell))
