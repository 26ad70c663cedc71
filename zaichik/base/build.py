"""Which zaichik runs.

That is its version, whether its hot files are compiled, and how CPython itself was compiled.

The hot files are compiled if zaichik's wheel was made with `ZAICHIK_COMPILE=1`. CPython is faster
if it was compiled with a profile of itself (PGO) and optimized when linked (LTO); both are options
of its build.
"""

# Not compiled: it runs once in a program, so there is nothing to gain.

import sysconfig

from zaichik_protocol import codec  # one of the hot files: all of them are compiled, or none is

# As in pyproject.toml. To read it from the installed metadata would take 10 of the 150 ms in which
# a command starts.
VERSION = "0.3.0"

# Options that CPython may have been configured with, and how people call them.
OPTIONS = {"--enable-optimizations": "PGO", "--with-lto": "LTO"}


def is_compiled() -> bool:
    """Returns whether the hot files are compiled."""
    return not str(codec.__file__).endswith(".py")


def build() -> str:
    """Returns the name of the build, "compiled" or "pure Python"."""
    if is_compiled():
        return "compiled"
    return "pure Python"


def interpreter() -> str:
    """Returns how CPython was built, as far as it says so, as in "PGO, no LTO".

    Only the options it was configured with are known. A distribution may have done the same in
    another way.
    """
    configured = sysconfig.get_config_var("CONFIG_ARGS")
    # On Windows, Python is not configured.
    if configured is None:
        return "PGO and LTO not known"
    words: list[str] = []
    for option, name in OPTIONS.items():
        if option in configured:
            words.append(name)
        else:
            words.append(f"no {name}")
    return ", ".join(words)
