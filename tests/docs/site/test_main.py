"""Making a site deletes none but a site."""

import sys

import pytest

from docs.site import __main__ as making
from docs.site import sources


def test_a_folder_with_files_of_others_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "thesis.txt").write_text("three years of work", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["docs.site", str(tmp_path), "--without-stage"])
    monkeypatch.setattr(making, "make", lambda *_: pytest.fail("it would have been deleted"))
    with pytest.raises(SystemExit):
        making.main()
    assert f"{tmp_path} has files in it" in capsys.readouterr().err


def test_a_new_folder_an_empty_one_and_a_site_may_be_replaced(tmp_path):
    assert making.may_be_replaced(tmp_path / "new")
    assert making.may_be_replaced(tmp_path)
    made = tmp_path / sources.STYLES
    made.parent.mkdir()
    made.touch()
    assert making.may_be_replaced(tmp_path)


def test_the_folder_of_the_sites_own_code_may_not():
    assert not making.may_be_replaced(making.ROOT / "docs" / "site")
