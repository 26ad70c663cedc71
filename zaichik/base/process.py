"""What the system says about this process."""

from pathlib import Path
from resource import RLIMIT_NOFILE, getpagesize, getrlimit


def open_files() -> int:
    """Returns how many file descriptors this process may have open, NOFILE."""
    return getrlimit(RLIMIT_NOFILE)[0]


def resident_bytes() -> int | None:
    """Returns the resident memory of this process, in bytes.

    None where the system does not report it.
    """
    try:
        statm = Path("/proc/self/statm").read_text(encoding="ascii")
    except OSError:
        return None
    _, pages, *_ = statm.split()
    return int(pages) * getpagesize()
