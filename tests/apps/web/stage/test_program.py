"""A scene as a program does the same to a broker of anybody's."""

import ast

import pytest

import zaichik
from zaichik.apps.web.stage.knobs import values
from zaichik.apps.web.stage.program import program
from zaichik.apps.web.stage.scenes import SCENES
from zaichik.apps.web.stage.stage import staged


@pytest.mark.parametrize("slug", SCENES)
def test_each_scene_is_a_program(slug):
    text = program(SCENES[slug], values(SCENES[slug].knobs, {}))
    assert ast.get_docstring(ast.parse(text)).startswith(SCENES[slug].words["title"])
    assert max(map(len, text.partition("async def main")[0].splitlines())) <= 120


RUNS = [("asyncio", slug) for slug in ("late", "lag", "mint", "again", "takeover", "twice")] + [
    ("trio", "takeover")
]


@pytest.mark.parametrize(("anyio_backend", "slug"), RUNS)
@pytest.mark.anyio
async def test_a_program_ends_as_its_scene_does(slug, capsys, monkeypatch, anyio_backend):
    chosen = values(SCENES[slug].knobs, {})
    async with staged(SCENES[slug], chosen) as stage:
        while not stage.is_over:
            await stage.step()
        reading = stage.reading()
    async with zaichik.running_broker(clock=zaichik.ManualClock()) as broker:
        monkeypatch.setattr("sys.argv", [slug, str(broker.port)])
        scope = {"__name__": slug}
        exec(compile(program(SCENES[slug], chosen), slug, "exec"), scope)  # noqa: S102 (it is ours)
        capsys.readouterr()
        await scope["main"]()
    topic, *readers = [
        ast.literal_eval(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"
    ]
    assert topic == {name: reading["topic"][name] for name in topic}
    for told, row in zip(readers, reading["readers"], strict=True):
        # What the client commits by itself comes when it comes, and with it the rest.
        assert {name: told[name] for name in ("client", "session", "skipped")} == {
            name: row[name] for name in ("client", "session", "skipped")
        }
