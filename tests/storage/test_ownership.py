"""Whose a file is, in words that say what to do."""

import errno
import os

import pytest

from zaichik.storage.ownership import denied, foreign_owner, name_of

NOBODY_HERE = 54_321


class Status:
    """What the system says of a file."""

    def __init__(self, owner):
        self.st_uid = owner


@pytest.fixture
def owned(monkeypatch, patchable):
    """Has every path belong to a user, and the process be another's."""

    def own(owner, process):
        monkeypatch.setattr("pathlib.Path.stat", lambda _: Status(owner))
        monkeypatch.setattr(os, "geteuid", lambda: process)

    return own


def error_of(path):
    return PermissionError(errno.EACCES, "Permission denied", str(path))


def test_a_user_has_a_name_or_a_number():
    assert name_of(0) == "user root (0)"
    assert name_of(NOBODY_HERE) == f"user {NOBODY_HERE}"


def test_only_root_is_kept_from_what_others_have(owned, tmp_path):
    for owner, process, expected in (
        (NOBODY_HERE, 0, f"user {NOBODY_HERE}"),
        (0, 0, ""),
        (NOBODY_HERE, NOBODY_HERE, ""),
        (0, NOBODY_HERE, ""),
    ):
        owned(owner, process)
        assert foreign_owner(tmp_path) == expected


def test_a_permission_names_the_file_and_both_users(owned, tmp_path):
    owned(0, NOBODY_HERE)
    path = tmp_path / "0.log"
    assert denied(error_of(path)) == (
        f"{path} belongs to user root (0), and user {NOBODY_HERE} may not open it: Permission "
        "denied; change its owner or its permissions"
    )


def test_a_file_that_cannot_be_looked_at_is_named_all_the_same(tmp_path):
    path = tmp_path / "closed" / "0.log"
    problem = denied(error_of(path))
    assert problem == f"{path} cannot be opened: Permission denied for {name_of(os.geteuid())}"


def test_without_a_file_there_is_the_reason_alone():
    assert denied(PermissionError(errno.EACCES, "Permission denied")) == (
        "it cannot be read: Permission denied"
    )
