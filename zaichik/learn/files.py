"""Notices that the learner's files have changed, with the watchfiles library.

It asks the operating system (inotify, FSEvents) instead of looking again and again, which on a laptop would cost
battery, and it waits until a burst of changes, as editors and compilers make them, is over. It is an extra: without
it, or where it does not work (some network file systems), one can still run checks by hand, and `Unwatched` says so.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

from zaichik.learn import drawing, progress

BUILT = ("target", "build", "dist", "out", "bin", "obj", "zig-out")  # where compilers write
WRITTEN = (r"\.log$", *(f"^{Path(name).stem}\\." for name in (progress.FILE_NAME, drawing.FILE_NAME)))  # by server, us

# As `zaichik.extras` says it; but the tester imports nothing of what it tests.
MISSING = (
    "the library watchfiles is missing; get it with `make .venv/.installed-learn` in a clone, or "
    "`pip install 'WHEEL[learn]'` with the path of your wheel"
)


class Unwatched(Exception):
    """Changes cannot be noticed; the text says why."""


async def changes(folder: Path) -> AsyncGenerator[None]:
    """One item for each burst of changes below a folder, until it is closed.

    Left out are hidden folders, caches, what compilers build, logs, and our own progress: each of them changes because
    checks are run, and would have them run for ever.

    Raises:
        Unwatched: now or later.
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
