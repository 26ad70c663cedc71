"""Which zaichik runs: its version, whether its hot files are compiled, and how CPython itself was compiled.

The hot files are compiled if zaichik's wheel was made with `ZAICHIK_COMPILE=1`. CPython is faster if it was compiled
with a profile of itself (PGO) and optimized when linked (LTO); both are options of its build.
"""

import sysconfig

from zaichik_protocol import hot  # one of the hot files: all of them are compiled, or none is

VERSION = "0.2.0"  # as in pyproject.toml; the installed metadata would take 10 of the 150 ms in which a command starts

PROFILED, LINKED = "--enable-optimizations", "--with-lto"


def is_compiled() -> bool:
    """Returns whether the hot files are compiled."""
    return not str(hot.__file__).endswith(".py")


def build() -> str:
    """Returns the name of the build, "compiled" or "pure Python"."""
    return "compiled" if is_compiled() else "pure Python"


def interpreter() -> str:
    """Returns how CPython was built, as far as it says so: "PGO, LTO", "PGO, no LTO" or "no PGO, no LTO".

    Only the options it was configured with are known. A distribution may have done the same in another way.
    """
    options = sysconfig.get_config_var("CONFIG_ARGS")
    if options is None:  # Windows
        return "PGO and LTO not known"
    return ", ".join(
        name if option in options else f"no {name}" for name, option in (("PGO", PROFILED), ("LTO", LINKED))
    )
