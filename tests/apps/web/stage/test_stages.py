"""All stages of a server: what the page may ask, and what holds strangers back."""

import json

import anyio
import pytest
from starlette.applications import Starlette

from zaichik.apps.web.stage import stages as stages_module
from zaichik.apps.web.stage.scenes import SCENES
from zaichik.apps.web.stage.stages import Stages
from zaichik.net.background import BackgroundTasks

pytestmark = pytest.mark.anyio
GUARD = 60  # seconds after which a test that hangs fails


class Page:
    """What a browser sends, without a socket."""

    def __init__(self, stages):
        self._app = Starlette(routes=stages.routes)

    async def get(self, path):
        return await self._ask("GET", path, b"")

    async def post(self, path, body=b""):
        return await self._ask(
            "POST", path, body if isinstance(body, bytes) else json.dumps(body).encode()
        )

    async def _ask(self, method, path, body):
        """Returns the status, and the JSON or the sentence."""
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        names = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [],
            "query_string": b"",
            "root_path": "",
        }
        with anyio.fail_after(GUARD):
            await self._app(names, receive, send)
        start, *rest = sent
        text = b"".join(message["body"] for message in rest).decode()
        is_json = (b"content-type", b"application/json") in start["headers"]
        return start["status"], json.loads(text) if is_json else text


@pytest.fixture
async def page():
    async with BackgroundTasks() as tasks:
        yield Page(Stages(tasks.group, lambda readings, request: readings[-1]))


async def test_the_page_is_told_of_all_scenes(page):
    status, scenes = await page.get("/stage/scenes")
    assert status == 200
    assert [scene["slug"] for scene in scenes] == list(SCENES)
    assert scenes[3]["knobs"][0] == {
        "name": "capacity",
        "label": "capacity, messages",
        "minimum": 4,
        "maximum": 24,
        "default": 8,
    }


async def test_a_link_makes_a_stage_which_steps_and_goes_back_and_ends(page):
    status, made = await page.post("/stage", {"link": "#evict?capacity=5"})
    assert status == 200
    assert made["link"] == "evict?capacity=5"
    assert made["words"]["question"].startswith("There's room for 5 messages")
    assert '"""Out of room.' in made["program"]
    assert (made["here"]["step"], made["in_2020"]) == (0, [])
    address = f"/stage/{made['id']}"
    for _ in range(2):
        status, stepped = await page.post(f"{address}/step")
    assert stepped["here"]["topic"]["published"] == 2
    assert "program" not in stepped
    _, back = await page.post(f"{address}/back")
    assert (back["here"]["step"], back["here"]["is_past"]) == (1, True)
    assert await page.get(address) == (200, back)
    assert await page.post(f"{address}/end") == (200, {})
    with anyio.fail_after(GUARD):
        while (await page.get(address))[0] == 200:
            await anyio.lowlevel.checkpoint()
    status, sentence = await page.post(f"{address}/step")
    assert (status, sentence) == (
        404,
        "there is no such stage; one that nobody uses ends after a while",
    )


async def test_the_model_is_shown_beside_the_broker(page):
    _, made = await page.post("/stage", {"link": "copy"})
    assert made["in_2020"]["model"].startswith("a model of 2020")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "that is no link to a scene"),
        (b"[" * 100_000, "that is no link to a scene"),
        ([], "that is no link to a scene"),
        ({"link": 7}, "that is no link to a scene"),
        ({"link": "opera"}, "that is no link to a scene: 'opera'; the scenes are copy, late, ttl,"),
        ({"link": "lag?capacity=1"}, "capacity must be a whole number from 4 to 16, not '1'"),
        ({"link": "lag?colour=1"}, "there is no knob 'colour'"),
        (
            {"link": "lag?" + "&".join(f"a{n}=1" for n in range(50))},
            "Max number of fields exceeded",
        ),
    ],
)
async def test_what_is_no_link_is_refused_in_a_sentence(page, body, sentence):
    status, text = await page.post("/stage", body)
    assert status == 400
    assert sentence in text


async def test_a_stage_knows_no_other_verbs(page):
    _, made = await page.post("/stage", {"link": "copy"})
    assert await page.post(f"/stage/{made['id']}/perform") == (
        404,
        "a stage can step, go back, and end",
    )
    assert (await page.get(f"/stage/{made['id']}/step"))[0] == 405


async def test_there_are_only_so_many_stages_and_one_that_ends_makes_room():
    async with BackgroundTasks() as tasks:
        page = Page(Stages(tasks.group, lambda readings, request: readings[-1], most=1))
        _, made = await page.post("/stage", {"link": "copy"})
        status, sentence = await page.post("/stage", {"link": "copy"})
        assert (status, sentence) == (
            503,
            "there are 1 stages already; try again when one has ended",
        )
        await page.post(f"/stage/{made['id']}/end")
        with anyio.fail_after(GUARD):
            while (await page.post("/stage", {"link": "copy"}))[0] != 200:
                await anyio.lowlevel.checkpoint()


async def test_a_stage_that_nobody_uses_ends():
    async with BackgroundTasks() as tasks:
        stages = Stages(tasks.group, lambda readings, request: readings[-1], idle_s=1e9)
        _, used = await Page(stages).post("/stage", {"link": "copy"})
        _, unused = await Page(stages).post("/stage", {"link": "copy"})
        stages._idle_s = 0
        await Page(stages).get(f"/stage/{unused['id']}")  # for the last time
        stages._idle_s = 1e9
        with anyio.fail_after(GUARD):
            while len(stages._stages) == 2:
                await anyio.lowlevel.checkpoint()
        assert (await Page(stages).get(f"/stage/{used['id']}"))[0] == 200
        assert (await Page(stages).get(f"/stage/{unused['id']}"))[0] == 404


async def test_steps_of_all_stages_together_are_some_time_apart(page, monkeypatch):
    times = []

    async def sleep_until(time):
        times.append(time)

    _, one = await page.post("/stage", {"link": "copy"})
    _, two = await page.post("/stage", {"link": "copy"})
    with monkeypatch.context() as patched:
        patched.setattr(stages_module.anyio, "sleep_until", sleep_until)
        patched.setattr(stages_module, "STEP_S", 1000.0)
        for made in (one, two, one):
            await page.post(f"/stage/{made['id']}/step")
    assert times[1] == times[0] + 1000
    assert times[2] == times[1] + 1000
