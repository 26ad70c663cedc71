"""Notices that the learner's files have changed, with the watchfiles library.

It asks the operating system (inotify, FSEvents) instead of looking again and again, which on a laptop would cost
battery, and it waits until a burst of changes, as editors and compilers make them, is over. It is an extra: without
it, or where it does not work (some network file systems), one can still run checks by hand, and `Unwatched` says so.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

from zaichik.learn import progress


class Unwatched(Exception):
    """Changes cannot be noticed; the text says why."""


async def changes(folder: Path) -> AsyncGenerator[None]:
    """One item for each burst of changes below a folder, until it is closed.

    Raises:
        Unwatched: now or later.
    """
    try:
        from watchfiles import DefaultFilter, awatch
    except ImportError:
        raise Unwatched("the library watchfiles is missing; get it with: pip install 'zaichik[learn]'") from None
    is_source = DefaultFilter()
    try:
        async for _ in awatch(
            folder, watch_filter=lambda change, path: is_source(change, path) and not _is_ours(path), rust_timeout=500
        ):
            yield
    except (OSError, RuntimeError) as error:
        raise Unwatched(f"{folder} cannot be watched: {error}") from None


def _is_ours(path: str) -> bool:
    return Path(path).stem == Path(progress.FILE_NAME).stem
