"""Which file systems should not be trusted with a log."""

from pathlib import Path

DOUBTFUL = {
    "tmpfs": "is in memory: it is gone with the machine's power",
    "ramfs": "is in memory: it is gone with the machine's power",
    "overlay": "is part of a container: it is gone with that",
    "nfs": "is on another machine, which decides whether a sync reaches its disk",
    "cifs": "is on another machine, which decides whether a sync reaches its disk",
}


def doubtful(folder: Path, mounts: str) -> str:
    """Returns why a folder's file system should not be trusted with a log, for a person; "" if nothing is known.

    Args:
        folder: an absolute path.
        mounts: the content of `/proc/mounts`.
    """
    places = [line.split()[1:3] for line in mounts.splitlines()]
    under = [(place, kind) for place, kind in places if folder.is_relative_to(place.replace("\\040", " "))]
    _, kind = max(under, key=lambda it: len(it[0]), default=("", ""))
    return DOUBTFUL.get(kind.removesuffix("4"), "")
