"""The scenes: twelve that ask a question, and free play.

The words are in `scenes.toml`. A function for each scene writes what happens: it gets the knobs,
and returns what the question mentions besides them.
"""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import count

from zaichik.apps.web.stage.faults import Model, a_copy_each, frozen, one_too_many, two_topics
from zaichik.apps.web.stage.knobs import SEED, Knob, Values
from zaichik.apps.web.stage.script import JSON, Call, Script

NAMED_SECONDS = 60  # for which a name without a reader is kept (CMT-3)


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene of the stage.

    Attributes:
        slug: its name in links.
        words: its title, sentence, rules and chapter; and question, choices and the index of the
            right one, if any.
        knobs: what may be changed, the seed last.
        write: writes the script.
        model: shows how the same scene would have gone in 2020; None if there is no such model.
    """

    slug: str
    words: JSON
    knobs: tuple[Knob, ...]
    write: Callable[..., JSON | None]
    model: Model | None

    def script(self, values: Values) -> Script:
        """Returns the script for these knobs: all of them, within their bounds (`knobs.values`)."""
        script = Script(values[SEED.name])
        knobs = {name: value for name, value in values.items() if name != SEED.name}
        facts = values | (self.write(script, **knobs) or {})
        question, choices = self.words.get("question", ""), self.words.get("choices", ())
        told = {
            "question": question.format_map(facts),
            "choices": [choice.format_map(facts) for choice in choices],
        }
        script.words = self.words | told | {"right": facts.get("right", self.words.get("right"))}
        return script


def copy(script: Script, readers: int) -> JSON:
    """Three cursors in one row."""
    for number in range(1, readers + 1):
        script.call(0, f"reader {number}", "subscribe")
        script.call(1 + number, f"reader {number}", "take", most=1)
        script.call(1 + number, f"reader {number}", "commit", offset=1)
    script.publish(1)
    return {"more": readers + 1}


def late(script: Script, retention: int, when: int) -> JSON:
    """A reader that comes in the middle."""
    script.settings = {"retention_ttl": retention}
    script.call(0, "early", "subscribe")
    # At the same moment as the topic was created.
    script.call(0, "ben", "create", **script.settings)
    for at in range(12):
        script.publish(at)
    script.call(when, "late", "subscribe")
    script.call(12, "late", "take", most=12)
    return {"kept": min(when + 1, retention), "new": 11 - when}


def ttl(script: Script, retention: int, every: int) -> None:
    """Two readings, a millisecond apart."""
    script.settings = {"retention_ttl": retention}
    for at in range(0, min(retention, 12 * every), every):
        script.publish(at)
    script.call(retention - 0.001, "in time", "subscribe")
    script.call(retention, "too late", "subscribe")


def evict(script: Script, capacity: int, batch: int) -> JSON:
    """More messages than room."""
    script.settings = {"retention_ttl": 3600, "capacity": capacity}
    for at, left in enumerate(range(capacity + 4, 0, -batch)):
        script.publish(at, min(batch, left))
    return {"all": capacity + 4}


def lag(script: Script, capacity: int, stop: int, rate: int) -> JSON:
    """A reader that stops, and goes on."""
    script.settings |= {"capacity": capacity}
    script.call(0, "slow", "subscribe", credit=1)
    end = stop + capacity + 5
    for number in range(1, end + 1):
        script.publish(number / rate)
    for seconds, most in [
        *((number / rate, 1) for number in range(1, stop + 1)),
        (end + 1, 2),
        (end + 2, capacity - 1),
    ]:
        script.call(seconds, "slow", "take", most=most)
    return {"more": end - stop}


def gate(script: Script, credit: int) -> None:
    """A reader that commits nothing."""
    script.settings |= {"capacity": credit + 4}
    script.call(0, "busy", "subscribe", credit=credit)
    end = 2 * credit + 6  # two more than there is room for, beside those in flight
    for at in range(1, end + 1):
        script.publish(at)
    script.call(1, "busy", "take", most=1)
    script.call(end + 1, "busy", "commit", offset=1)
    script.call(end + 2, "busy", "take", most=credit + 1)
    script.call(end + 3, "busy", "leave")
    script.call(end + 3, "busy", "subscribe", credit=credit)


def mint(script: Script, credit: int, offset: int) -> JSON:
    """Commits in any order."""
    script.call(0, "eager", "subscribe", credit=credit)
    script.publish(1, 5)
    script.call(2, "eager", "take", most=3)
    for at, committed in enumerate((3, 3, offset), start=3):
        script.call(at, "eager", "commit", offset=committed)
    return {"more": credit + 1, "free": credit - 2}


def again(script: Script, pause: int) -> JSON:
    """A reader that goes away, and comes back."""
    for at, credit in ((0, 5), (3 + pause, 2)):
        script.call(at, "reader", "subscribe", name="billing", credit=credit)
        script.call(at + 2, "reader", "take", most=3)
    script.publish(1, 8)
    script.call(3, "reader", "leave")
    return {"right": 1 if pause < NAMED_SECONDS else 2}


def takeover(script: Script, before: int) -> None:
    """Two readers under one name."""
    script.call(0, "first", "subscribe", name="billing")
    script.publish(1, before)
    script.call(2, "first", "take", most=before)
    script.call(3, "second", "subscribe", name="billing")
    script.publish(4)
    script.call(5, "second", "take", most=2)
    script.call(6, "first", "take", most=1)


def wall(script: Script, capacity: int, speed: int) -> None:
    """A topic that evicts nothing a reader needs."""
    script.settings |= {"capacity": capacity, "overflow": "reject"}
    script.call(0, "slow", "subscribe", name="billing", credit=2)
    for second in range(1, capacity // (4 - speed) + 5):
        script.publish(second, 2)
        script.publish(second + 0.25, 2)
        script.call(second + 0.5, "slow", "take", most=speed)


def window(script: Script, window: int) -> JSON:
    """One key, five times."""
    script.settings |= {"compaction_window": window}
    for at in (0, 4, 8, 12, 30):
        script.publish(at, key="kim")
    return {"second": 8 if window <= 8 else 12}


def twice(script: Script, times: int, numbered: int) -> JSON:
    """A program that is started again, and again."""
    number = 0 if numbered else None
    for at, (key, payload) in enumerate(script.orders(1) * times):
        script.call(at, f"start {at + 1}", "publish", batch=[(key, payload)], number=number)
    return {
        "right": 0 if numbered else 1,
        "how": "under a number" if numbered else "without a number",
    }


def play(
    script: Script,
    capacity: int,
    retention: int,
    window: int,
    readers: int,
    credit: int,
    **others: int,
) -> None:
    """Actors that act at random, at the rates of the knobs."""
    script.settings = {
        "retention_ttl": retention,
        "compaction_window": window,
        "capacity": capacity,
    }
    script.publish(0)
    for number in range(1, readers + 1):
        script.call(0, f"reader {number}", "subscribe", credit=credit)
    script.endless = _by_rate(script, capacity, readers, **others)


def _by_rate(
    script: Script, most: int, readers: int, rate: int, skew: int, stops: int
) -> Iterator[Call]:
    """Each second a batch, and a turn for each reader: the first keeps up, each further lags."""
    for second in count(1):
        if batch := script.orders(script.random.randint(0, min(2 * rate, most)), skew=skew):
            yield Call(second, "ana", "publish", {"batch": batch})
        for number in range(1, readers if 0 < stops <= second else readers + 1):
            taken = script.random.randint(1, max(1, 3 * rate * (readers + 1 - number) // readers))
            yield Call(round(second + number / 10, 3), f"reader {number}", "take", {"most": taken})


_WRITERS = (copy, late, ttl, evict, lag, gate, mint, again, takeover, wall, window, twice, play)
_MODELS = {"copy": a_copy_each, "late": two_topics, "lag": frozen, "gate": one_too_many}


def _scenes() -> Iterator[Scene]:
    words = tomllib.loads(files(__package__).joinpath("scenes.toml").read_text(encoding="utf-8"))
    for write in _WRITERS:
        slug = write.__name__
        knobs = [Knob(name, *values) for name, values in words[slug].pop("knobs").items()]
        yield Scene(slug, words[slug], (*knobs, SEED), write, _MODELS.get(slug))


SCENES = {scene.slug: scene for scene in _scenes()}  # in the order of a lesson
