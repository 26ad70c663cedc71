"""Whose the files of a folder are, in words: a permission is not damage, and chown mends it.

It goes wrong when somebody starts a broker by hand, as root: the files that it makes are root's,
and the service cannot read them.
"""

import os
from pathlib import Path
from pwd import getpwuid


def foreign_owner(path: Path) -> str:
    """Returns the user to whom a path belongs, if this process is root's and that is not root.

    "" otherwise.

    Raises:
        OSError: it cannot be looked at.
    """
    owner = path.stat().st_uid
    if os.geteuid() or not owner:
        return ""
    return name_of(owner)


def denied(error: PermissionError) -> str:
    """Returns what a process may not do with a file, and whose that is, for a person."""
    problem = error.strerror or "permission denied"
    if not isinstance(error.filename, str | Path):
        return f"it cannot be read: {problem}"
    path = Path(error.filename)
    try:
        owner = name_of(path.stat().st_uid)
    except OSError:
        # It is in a folder that may not be entered.
        return f"{path} cannot be opened: {problem} for {name_of(os.geteuid())}"
    return (
        f"{path} belongs to {owner}, and {name_of(os.geteuid())} may not open it: {problem}; "
        "change its owner or its permissions"
    )


def name_of(user: int) -> str:
    """Returns the name and the number of a user, for a person."""
    try:
        return f"user {getpwuid(user).pw_name} ({user})"
    except KeyError:
        return f"user {user}"
