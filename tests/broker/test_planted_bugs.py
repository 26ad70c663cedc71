"""Does the model find anything? Bugs are planted into the real core, one at a time, and it must find each."""

import pytest
from planted_bugs import BUGS
from test_model import run_model


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_is_caught(name, monkeypatch):
    BUGS[name](monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_model(60)  # the best hidden needs 8 of them
