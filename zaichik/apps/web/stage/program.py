"""A scene as a Python program for anybody's own broker: the calls of the script, written out.

`program.txt` has a function for each verb, so that a call is a line.
"""

from importlib.resources import files
from itertools import islice, pairwise
from string import Template

from zaichik.apps.web.stage.knobs import Values
from zaichik.apps.web.stage.scenes import Scene
from zaichik.apps.web.stage.script import JSON, Call

MOST_CALLS = 200  # of free play, which has no end


def program(scene: Scene, values: Values) -> str:
    """Returns the program's text."""
    script = scene.script(values)
    calls = [Call(0, "", "", {}), *islice(script.calls(), MOST_CALLS)]
    template = Template(files(__package__).joinpath("program.txt").read_text(encoding="utf-8"))
    lines = [line for before, call in pairwise(calls) for line in _lines(call, call.at - before.at)]
    actors, settings = (
        ", ".join(name.replace(" ", "_") for name in script.actors),
        _arguments(script.settings),
    )
    parts = {"slug": scene.slug, "actors": actors, "names": [*script.actors], "settings": settings}
    return template.substitute(script.words, **parts, calls="\n".join(lines))


def _lines(call: Call, seconds: float) -> list[str]:
    arguments = ", ".join(
        part for part in (call.actor.replace(" ", "_"), _arguments(call.arguments)) if part
    )
    waits = []
    if seconds:
        waits = [f"        await stage.advance_clock({seconds:.3f})  # {call.at:g} s"]
    return [*waits, f"        await {call.verb}({arguments})"]


def _arguments(arguments: JSON) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
