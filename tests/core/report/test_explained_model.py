"""Explanations beside the model: one that is wrong once is found."""

import pytest
from explaining_model import Explaining
from planted_explanations import WRONG
from sampling import sampled
from test_model import run_model


@pytest.mark.unmeasured
@pytest.mark.parametrize("first", [0, 3])
def test_every_explanation_is_what_has_happened(first):
    run_model(3, first, machine=Explaining)


SAMPLE = [
    "a_change_of_cause_is_overlooked",
    "what_was_skipped_was_delivered",
    "all_of_a_batch_was_kept_out",
]


@pytest.mark.unmeasured
@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize("name", sampled(WRONG, SAMPLE, rest=pytest.mark.soak))
def test_a_wrong_explanation_is_found(name, monkeypatch):
    WRONG[name](monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_model(60, machine=Explaining)
