"""All stages of a web server that many people share.

Their number, their idle time and their speed are limited.

| address | answer |
| --- | --- |
| `GET /stage/scenes` | the scenes: their words and their knobs |
| `POST /stage` | a new stage, for `{"link": "lag?capacity=8"}`, and its scene as a Python program |
| `GET /stage/ID` | what it shows now |
| `POST /stage/ID/step`, `/back` | what it shows after that |
| `POST /stage/ID/end` | nothing: it has ended |

Every refusal is an HTTPException with a sentence.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zaichik.apps.web.stage.knobs import Values, link, parsed, values
from zaichik.apps.web.stage.program import program
from zaichik.apps.web.stage.scenes import SCENES, Scene
from zaichik.apps.web.stage.script import JSON
from zaichik.apps.web.stage.stage import Stage, staged

MOST_STAGES = 8  # brokers in this process, each with up to ten connections
IDLE_S = 600.0  # a class may talk about a picture for ten minutes
# between the steps of all stages together: each takes up to 12 ms of this process, its picture
# included
STEP_S = 0.05

Show = Callable[[Sequence[JSON], Request], Any]


class Stages:
    """The stages, by ids that cannot be guessed.

    Args:
        tasks: for the stages to live in.
        show: makes what the page draws of the last of some readings; the others are those before.
        most: how many there may be.
        idle_s: seconds after which a stage ends that nobody has used.

    Attributes:
        routes: the addresses above.
    """

    def __init__(
        self, tasks: TaskGroup, show: Show, most: int = MOST_STAGES, idle_s: float = IDLE_S
    ) -> None:
        self._tasks, self._show, self._most, self._idle_s = tasks, show, most, idle_s
        # None stands for one that is being opened.
        self._stages: dict[str, tuple[Stage, anyio.CancelScope] | None] = {}
        self._free_at = 0.0  # when the next step may begin
        looks = [Route("/stage/scenes", self._scenes), Route("/stage/{key}", self._look)]
        acts = [("/stage", self._create), ("/stage/{key}/{verb}", self._act)]
        self.routes = [*looks, *(Route(path, act, methods=["POST"]) for path, act in acts)]

    async def _scenes(self, _: Request) -> Response:
        knobs = {slug: [*map(asdict, scene.knobs)] for slug, scene in SCENES.items()}
        return JSONResponse(
            [scene.words | {"slug": slug, "knobs": knobs[slug]} for slug, scene in SCENES.items()]
        )

    async def _create(self, request: Request) -> Response:
        try:
            slug, chosen = parsed(json.loads(await request.body())["link"])
            scene, fixed = SCENES[slug], values(SCENES[slug].knobs, chosen)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            sentence = f"that is no link to a scene: {error}; the scenes are {', '.join(SCENES)}"
            raise HTTPException(400, sentence) from None
        if len(self._stages) >= self._most:
            raise HTTPException(
                503, f"there are {self._most} stages already; try again when one has ended"
            )
        key = secrets.token_urlsafe(9)
        self._stages[key] = None
        await self._tasks.start(self._live, key, scene, fixed)
        return JSONResponse(self._shown(key, request) | {"program": program(scene, fixed)})

    async def _live(
        self, key: str, scene: Scene, fixed: Values, *, task_status: TaskStatus[None]
    ) -> None:
        try:
            async with staged(scene, fixed) as stage:
                with anyio.move_on_after(self._idle_s) as life:
                    self._stages[key] = stage, life
                    task_status.started()
                    await anyio.sleep_forever()
        finally:
            del self._stages[key]

    async def _look(self, request: Request) -> Response:
        return JSONResponse(self._shown(request.path_params["key"], request))

    async def _act(self, request: Request) -> Response:
        key, verb = request.path_params["key"], request.path_params["verb"]
        stage, life = self._used(key)
        match verb:
            case "step":
                begins = max(anyio.current_time(), self._free_at)
                self._free_at = begins + STEP_S
                await anyio.sleep_until(begins)
                await stage.step()
            case "back":
                stage.back()
            case "end":
                life.cancel()
                return JSONResponse({})
            case _:
                raise HTTPException(404, "a stage can step, go back, and end")
        return await self._look(request)

    def _used(self, key: str) -> tuple[Stage, anyio.CancelScope]:
        """Returns a stage, which counts as used now, and the scope that ends it."""
        if not (entry := self._stages.get(key)):
            raise HTTPException(
                404, "there is no such stage; one that nobody uses ends after a while"
            )
        stage, life = entry
        life.deadline = anyio.current_time() + self._idle_s
        return stage, life

    def _shown(self, key: str, request: Request) -> JSON:
        stage, _ = self._used(key)
        about = {
            "id": key,
            "words": stage.words,
            "link": link(stage.scene.slug, stage.scene.knobs, stage.values),
        }
        models = stage.models()
        drawn = {
            "here": self._show(stage.history(), request),
            "in_2020": models and self._show(models, request),
        }
        return about | drawn
