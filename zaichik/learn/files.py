"""Notices that the learner's files have changed, with the watchfiles library.

The library asks the operating system (inotify, FSEvents) instead of polling, which would drain a
laptop's battery, and it waits until a burst of changes, as made by editors and compilers, is over.
It is an extra: without it, or where it does not work (on some network file systems), checks can
still be run by hand, and `Unwatched` says so.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

from zaichik.learn import drawing, progress

BUILT = ("target", "build", "dist", "out", "bin", "obj", "zig-out")  # where compilers write
WRITTEN = (
    r"\.log$",
    *(f"^{Path(name).stem}\\." for name in (progress.FILE_NAME, drawing.FILE_NAME)),
)  # by server, us

# As `zaichik.base.extras` says it; but the tester imports nothing of what it tests.
MISSING = (
    "the library watchfiles is missing; get it with `make .venv/.installed-learn` in a clone, or "
    "`pip install 'WHEEL[learn]'` with the path of your wheel"
)


class Unwatched(Exception):
    """Files cannot be watched; the text says why."""


async def changes(folder: Path) -> AsyncGenerator[None]:
    """One item per burst of changes below a folder, until closed.

    Hidden folders, caches, compilers' output, logs and our own progress are ignored: they change
    because checks are run, and would make them run forever.

    Raises:
        Unwatched: at once or later.
    """
    try:
        from watchfiles import DefaultFilter, awatch
    except ImportError:
        raise Unwatched(MISSING) from None
    is_source = DefaultFilter(
        ignore_dirs=(*DefaultFilter.ignore_dirs, *BUILT),
        ignore_entity_patterns=(*DefaultFilter.ignore_entity_patterns, *WRITTEN),
    )
    try:
        async for _ in awatch(folder, watch_filter=is_source, rust_timeout=500):
            yield
    except (OSError, RuntimeError) as error:
        raise Unwatched(f"{folder} cannot be watched: {error}") from None
