"""What a teacher may change in a scene: whole numbers within bounds, which a link can carry.

/stage#lag?capacity=8&seed=7
       scene  knobs that differ from their defaults
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

Values = dict[str, int]  # a value for each knob of a scene, by name


@dataclass(frozen=True, slots=True)
class Knob:
    """A number that may be changed.

    Attributes:
        name: in links and in scripts.
        label: its name for a person, with the unit if it has one.
        minimum, maximum: its bounds, both allowed.
        default: its value in a link that does not name it.
    """

    name: str
    label: str
    minimum: int
    maximum: int
    default: int


SEED = Knob("seed", "seed of all chance", 0, 9999, 7)  # every scene has it: keys are drawn


def values(knobs: Sequence[Knob], chosen: Mapping[str, object]) -> Values:
    """Returns a value for each knob: the chosen one, a number or its digits, or else the default.

    Raises:
        ValueError: there is no such knob, or the value is out of its bounds.
    """
    if unknown := sorted(chosen.keys() - {knob.name for knob in knobs}):
        raise ValueError(
            f"there is no knob {unknown[0][:20]!r}; there are "
            f"{', '.join(knob.name for knob in knobs)}"
        )
    return {knob.name: _value(knob, str(chosen.get(knob.name, knob.default))) for knob in knobs}


def _value(knob: Knob, text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number or not knob.minimum <= int(text) <= knob.maximum:
        raise ValueError(
            f"{knob.name} must be a whole number from {knob.minimum} to {knob.maximum}, not "
            f"{text[:20]!r}"
        )
    return int(text)


def link(slug: str, knobs: Sequence[Knob], chosen: Values) -> str:
    """Returns the part of a link after the `#`."""
    changed = {knob.name: chosen[knob.name] for knob in knobs if chosen[knob.name] != knob.default}
    return f"{slug}?{urlencode(changed)}" if changed else slug


def parsed(fragment: str) -> tuple[str, dict[str, str]]:
    """Returns the slug and the knobs, not checked yet, of what follows the `#` of a link."""
    slug, _, query = fragment.removeprefix("#").partition("?")
    return slug, dict(parse_qsl(query, keep_blank_values=True, max_num_fields=32))
