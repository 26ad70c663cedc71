"""Files that decide who gets in: what is judged is what is read."""

import os
import shlex
import stat

import pytest

from zaichik.base.private_files import (
    MOST_BYTES,
    Unusable,
    check_folder_permissions,
    check_permissions,
    parsed,
    read,
    wrong,
)

ME, ROOT, OTHER = os.geteuid(), 0, 54_321


def make(path, data=b"{}", mode=0o600):
    path.write_bytes(data)
    path.chmod(mode)
    return path


def found(mode, owner, kind=stat.S_IFREG):
    return os.stat_result((kind | mode, 1, 1, 1, owner, 0, 2, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "owner", "is_secret", "is_fine"),
    [
        (0o600, OTHER, True, True),
        (0o400, OTHER, True, True),
        (0o640, OTHER, True, False),
        (0o604, OTHER, True, False),
        (0o620, OTHER, True, False),
        (0o644, OTHER, False, True),
        (0o664, OTHER, False, False),
        (0o646, OTHER, False, False),
        (0o640, ROOT, True, True),  # as a package installs it, for a group
        (0o660, ROOT, True, False),
        (0o644, ROOT, True, False),
    ],
)
def test_who_else_may_do_what(tmp_path, monkeypatch, mode, owner, is_secret, is_fine):
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    if is_fine:
        check_permissions(tmp_path, found(mode, owner), is_secret=is_secret)
    else:
        with pytest.raises(Unusable, match=r"others may (read|change) .*; type: chmod go(=|-w) "):
            check_permissions(tmp_path, found(mode, owner), is_secret=is_secret)


def test_a_file_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    with pytest.raises(Unusable, match=f"belongs to another user; type: chown {OTHER} "):
        check_permissions(tmp_path, found(0o600, OTHER + 1), is_secret=True)


@pytest.mark.parametrize("name", ["users.json", "with blank", "it's"])
def test_the_command_in_the_refusal_makes_it_right(tmp_path, name):
    path = make(tmp_path / name, mode=0o644)
    with pytest.raises(Unusable) as caught:
        read(path, is_secret=True)
    command = str(caught.value).partition("type: ")[2]
    assert shlex.split(command) == ["chmod", "go=", str(path)]
    assert os.system(command) == 0  # noqa: S605
    assert read(path, is_secret=True) == b"{}"


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "users.json", 0o600)
    with pytest.raises(Unusable, match="not a regular file"):
        read(tmp_path / "users.json", is_secret=True)


@pytest.mark.parametrize("name", ["", "/dev/null"])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(Unusable, match="not a regular file"):
        read(tmp_path / name, is_secret=True)


def test_of_a_link_the_target_is_judged(tmp_path):
    target = make(tmp_path / "target", mode=0o644)
    (tmp_path / "users.json").symlink_to(target)
    with pytest.raises(Unusable, match="others may read"):
        read(tmp_path / "users.json", is_secret=True)
    target.chmod(0o600)
    assert read(tmp_path / "users.json", is_secret=True) == b"{}"


@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize(("opened", "put_there"), [(0o600, 0o666), (0o666, 0o600)])
def test_a_file_that_is_put_in_its_place_meanwhile_is_neither_judged_nor_read(
    tmp_path, monkeypatch, opened, put_there
):
    path = make(tmp_path / "users.json", b"old", mode=opened)
    other = make(tmp_path / "other", b"new", mode=put_there)
    real = os.open

    def opening(*arguments):
        descriptor = real(*arguments)
        other.replace(path)
        return descriptor

    monkeypatch.setattr(os, "open", opening)
    if opened == 0o600:
        assert read(path, is_secret=True) == b"old"
    else:
        with pytest.raises(Unusable, match="others may read"):
            read(path, is_secret=True)


@pytest.mark.usefixtures("patchable")
def test_a_file_that_is_written_to_meanwhile_is_refused(tmp_path, monkeypatch):
    path = make(tmp_path / "rules", b"user *\n")
    monkeypatch.setattr(
        "zaichik.base.private_files.check_permissions",
        lambda *_, **__: path.write_bytes(b"user *\nallow all *\n"),
    )
    with pytest.raises(Unusable, match="written to while it was read"):
        read(path, is_secret=False)


def test_a_long_file_is_refused(tmp_path):
    assert len(read(make(tmp_path / "most", bytes(MOST_BYTES)), is_secret=True)) == MOST_BYTES
    with pytest.raises(Unusable, match="longer than 1 MiB"):
        read(make(tmp_path / "more", bytes(MOST_BYTES + 1)), is_secret=True)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "users.json", is_secret=True)


def test_a_folder_is_judged(tmp_path):
    check_folder_permissions(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(Unusable, match=r"others may change .* type: chmod go-w "):
        check_folder_permissions(tmp_path)
    with pytest.raises(Unusable, match="is not a folder"):
        check_folder_permissions(make(tmp_path / "file"))


@pytest.mark.parametrize(
    ("at", "place"),
    [(0, "1:1"), (1, "1:2"), (2, "1:3"), (3, "2:1"), (4, "3:1"), (5, "3:2"), (6, "3:3")],
)
def test_a_mistake_has_a_line_and_a_column(at, place):
    assert str(wrong("ab\n\ncd", at, "why")) == f"{place}: why"


def test_a_mistake_in_a_file_has_its_name(tmp_path):
    def parse(data):
        raise wrong(data.decode(), 1, "why")

    path = make(tmp_path / "rules")
    with pytest.raises(Unusable, match=f"^{path}:1:2: why$"):
        parsed(path, parse, is_secret=False)
