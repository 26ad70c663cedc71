"""Which file systems are told of, and where inodes change."""

from pathlib import Path

import pytest

from zaichik.storage.file_systems import doubtful, has_stable_inodes


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("/var/lib/zaichik", ""),
        ("/fast/zaichik", "in memory"),
        ("/mnt/a share/x", "on another machine"),
        ("/", "part of a container"),
    ],
)
def test_file_systems_that_keep_nothing_are_known(folder, says):
    mounts = (
        "overlay / overlay rw 0 0\n/dev/vda /var ext4 rw 0 0\n"
        "tmpfs /fast tmpfs rw 0 0\nx:/ /mnt/a\\040share nfs4 rw 0 0\n"
    )
    found = doubtful(Path(folder), mounts)
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize(
    ("kind", "is_stable"),
    [
        ("ext4", True),
        ("xfs", True),
        ("nfs4", True),
        ("vfat", False),
        ("exfat", False),
        ("cifs", False),
        ("fuseblk", False),
        ("fuse.sshfs", False),
    ],
)
def test_file_systems_whose_files_keep_no_inodes_are_known(kind, is_stable):
    mounts = f"/dev/vda / ext4 rw 0 0\nx /mnt {kind} rw 0 0\n"
    assert has_stable_inodes(Path("/mnt/topics"), mounts) is is_stable
    assert has_stable_inodes(Path("/topics"), mounts)


def test_without_a_list_of_mounts_inodes_are_stable():
    assert has_stable_inodes(Path("/topics"), "")
