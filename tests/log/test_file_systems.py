"""Which file systems are told of."""

from pathlib import Path

import pytest

from zaichik.log.file_systems import doubtful


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
