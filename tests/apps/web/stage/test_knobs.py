import pytest

from zaichik.apps.web.stage.knobs import Knob, link, parsed, values
from zaichik.apps.web.stage.scenes import SCENES

KNOBS = (Knob("capacity", "capacity", 4, 32, 8), Knob("rate", "rate", 1, 9, 2))


def test_a_link_has_the_knobs_that_differ_from_their_defaults():
    assert link("lag", KNOBS, {"capacity": 8, "rate": 2}) == "lag"
    assert link("lag", KNOBS, {"capacity": 9, "rate": 1}) == "lag?capacity=9&rate=1"


@pytest.mark.parametrize("fragment", ["lag?capacity=9&rate=1", "#lag?capacity=9&rate=1"])
def test_a_link_is_read_back(fragment):
    slug, chosen = parsed(fragment)
    assert slug == "lag"
    assert values(KNOBS, chosen) == {"capacity": 9, "rate": 1}


def test_a_knob_that_is_not_named_has_its_default():
    assert values(KNOBS, {"rate": 9}) == {"capacity": 8, "rate": 9}
    assert parsed("lag") == ("lag", {})


@pytest.mark.parametrize(
    "value", [3, 33, "3", "", "-4", "4.0", "\u0665", "9" * 5000, True, None, [], 8.0]
)
def test_a_value_out_of_bounds_is_refused_in_a_sentence(value):
    with pytest.raises(ValueError, match="capacity must be a whole number from 4 to 32, not '"):
        values(KNOBS, {"capacity": value})


def test_an_unknown_knob_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="there is no knob 'color'; there are capacity, rate"):
        values(KNOBS, {"color": 1})


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_each_scene_has_a_seed_and_defaults_within_bounds(scene):
    names = [knob.name for knob in scene.knobs]
    assert names[-1] == "seed"
    assert len(set(names)) == len(names)
    assert values(scene.knobs, {knob.name: knob.default for knob in scene.knobs})
