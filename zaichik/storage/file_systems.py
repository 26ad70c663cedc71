"""Which file systems should not be trusted with a log, and what is special about others."""

from pathlib import Path

DOUBTFUL = {
    "tmpfs": "is in memory: it is gone with the machine's power",
    "ramfs": "is in memory: it is gone with the machine's power",
    "overlay": "is part of a container: it is gone with that",
    "nfs": "is on another machine, which decides whether a sync reaches its disk",
    "cifs": "is on another machine, which decides whether a sync reaches its disk",
}

# Where a file may have another inode once the system has forgotten it, and opens it again: they
# number files as they come, or another machine or a program does.
UNSTABLE = {"msdos", "vfat", "exfat", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuseblk"}


def doubtful(folder: Path, mounts: str) -> str:
    """Returns why a folder's file system should not be trusted with a log, for a person.

    "" if nothing is known against it.

    Args:
        folder: an absolute path.
        mounts: the content of `/proc/mounts`.
    """
    # Two versions of NFS have names of their own: nfs, nfs4.
    return DOUBTFUL.get(_kind(folder, mounts).removesuffix("4"), "")


def has_stable_inodes(folder: Path, mounts: str) -> bool:
    """Returns whether another inode at the same path is another file. See `doubtful`."""
    # A file system that is a program is named after that, too: fuse.sshfs.
    kind, _, _ = _kind(folder, mounts).partition(".")
    return kind not in UNSTABLE


def _kind(folder: Path, mounts: str) -> str:
    """Returns the name of the file system that a folder is on; "" if it is unknown."""
    deepest = ""
    kind = ""
    for line in mounts.splitlines():
        _, place, its_kind, *_ = line.split()
        # Of mounts inside each other, the innermost has the folder.
        if len(place) > len(deepest) and folder.is_relative_to(place.replace("\\040", " ")):
            deepest = place
            kind = its_kind
    return kind
