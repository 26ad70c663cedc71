"""Explanations beside the model: one that is wrong once is found."""

import pytest
from explaining_model import Explaining
from planted_explanations import WRONG
from test_model import run_model


@pytest.mark.unmeasured
def test_every_explanation_is_what_has_happened():
    run_model(6, machine=Explaining)


SAMPLE = ["a_change_of_cause_is_overlooked", "what_was_skipped_was_delivered", "all_of_a_batch_was_kept_out"]


@pytest.mark.unmeasured
@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.soak) for name in WRONG]
)
def test_a_wrong_explanation_is_found(name, monkeypatch):
    WRONG[name](monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_model(60, machine=Explaining)
