"""What zaichik asks the system for, where there is none: a browser has no module of this name."""

RLIMIT_NOFILE = 7
OPEN_FILES = 1024


def getrlimit(_: int) -> tuple[int, int]:
    """Returns how many files may be open: of those in memory, as many as are usual elsewhere."""
    return OPEN_FILES, OPEN_FILES


def getpagesize() -> int:
    """Returns the usual size of a page of memory."""
    return 4096
