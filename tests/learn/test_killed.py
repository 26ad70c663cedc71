"""Checks that kill the broker pass the project's own, find wrong ones, and are skipped where they
cannot be made.
"""

import json
import re
import sys
from dataclasses import replace

import anyio
import pytest
from learn_hosts import KILLING, find, killable, run
from learn_mutant import TINY
from mutants_killed import MUTANTS
from processes import write

from zaichik.core import producers
from zaichik.learn import config
from zaichik.learn.external import ExternalBroker
from zaichik.learn.failure import Failure
from zaichik.learn.runner import run_check
from zaichik.learn.server import Launcher
from zaichik.learn.stages import CHECKS, s16_killed
from zaichik.learn.trial import Pace, Target

pytestmark = pytest.mark.anyio

AT_ONCE = 8

SURE = Pace(scale=0.25, patience=60.0)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def launcher(folder, *command):
    """Starts a server of a learn.toml with this command."""
    (folder / "learn.toml").write_text(
        f"[server]\ncommand = {json.dumps([sys.executable, *command])}\n"
    )
    return Launcher(config.read(folder / "learn.toml"))


@pytest.fixture(scope="module")
def hosts():
    with killable() as made:
        yield made


@pytest.fixture(scope="module")
def verdicts(hosts, request):
    """Of all mutants that were asked for, by name; several are judged at once, as most of the time
    is waiting.
    """
    chosen = [
        item.callspec.params["mutant"]
        for item in request.session.items
        if "verdicts" in item.fixturenames
    ]
    found = {}

    async def judge_all():
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def judge(mutant):
            async with limiter:
                found[mutant.name] = await find(
                    hosts(mutant.name), mutant.kills, mutant.says, patience=3.0
                )

        async with anyio.create_task_group() as tasks:
            for mutant in chosen:
                if mutant in MUTANTS:
                    tasks.start_soon(judge, mutant)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(s16_killed, "WRITTEN_S", [1.5])
        anyio.run(judge_all)
    return found


@pytest.mark.parametrize(
    "anyio_backend", ["asyncio", pytest.param("trio", marks=pytest.mark.unmeasured)]
)
async def test_the_project_s_broker_has_everything_after_it_was_killed(hosts):
    """Each pattern of writing is met by some check."""
    bad = []

    async def judge(name, seed):
        result = await run(hosts(), name, seeds=[seed])
        if result.outcome != "passed":
            bad.append(f"{name}: {result.failure or result.reason}")

    async with anyio.create_task_group() as tasks:
        for seed, name in enumerate(KILLING):
            tasks.start_soon(judge, name, seed)
    assert bad == []


async def test_learn_kills_the_server_that_it_has_started_and_starts_it_again(tmp_path):
    host = launcher(tmp_path, "-m", "zaichik", "serve", "--port", "{port}", "--data", "{data}")
    result = await run_check(CHECKS["S16.32"], host, [0], SURE)
    await host.stop()
    assert result.outcome == "passed", result.failure or result.reason


@pytest.mark.unmeasured
@pytest.mark.skipif(
    not producers.__file__.endswith(".py"), reason="compiled code cannot be replaced"
)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broker_that_forgets_is_found(mutant, verdicts):
    result = verdicts[mutant.name]
    assert result.outcome == "failed", (
        f"{mutant.kills} does not find it: {result.outcome} {result.reason}"
    )
    assert re.search(mutant.says, result.failure.summary), result.failure.summary


async def test_without_a_folder_in_the_command_nothing_is_killed(tmp_path):
    host = launcher(tmp_path, str(TINY), "{port}")
    for name in KILLING:
        result = await run(host, name)
        assert result.outcome == "skipped"
        assert "{data} into the command in" in result.reason
    await host.stop()


async def test_a_server_without_durable_topics_is_not_killed(tmp_path):
    host = launcher(tmp_path, str(TINY), "{port}", "{data}")
    assert (await run_check(CHECKS["S16.30"], host, [0], SURE)).outcome == "skipped"
    await host.stop()


async def test_a_server_that_runs_already_is_not_killed():
    result = await run(ExternalBroker(Target("127.0.0.1", 1)), "S16.30")
    assert result.outcome == "skipped"
    assert "learn.toml" in result.reason


@pytest.mark.parametrize(
    ("program", "came", "proof"),
    [
        ("listens_once", "ended by itself with exit code 3", ("was here before",)),
        ("hangs_the_second_time", "still runs, but did not listen", ("thinking again",)),
    ],
)
async def test_a_server_that_does_not_come_back_fails_with_its_last_words(
    tmp_path, program, came, proof
):
    path = write(tmp_path, program, argument="{data}", start=20)
    host = Launcher(config.read(path))
    async with host.start_restartable() as server:
        await server.kill()
        await server.kill()
        server._config = replace(server._config, start_s=5.0 if "exit" in came else 3.0)
        with pytest.raises(Failure, match=r"did not come back within (5|3) s") as failed:
            await server.start()
    assert came in failed.value.came
    assert failed.value.excerpt == proof


async def test_the_result_has_the_output_of_the_server_that_failed(tmp_path):
    """Not that of the one that runs beside it."""
    host = Launcher(config.read(write(tmp_path, "listens", argument="{data}")))
    await host.ready()
    async with host.start_restartable() as server:
        folder = server._data
        with pytest.raises(Failure):
            async with host.start_restartable() as other:
                raise Failure("this one")
    assert (await host.post_mortem())[1] == f"listening {other.target.port}"
    await host.ready()
    assert (await host.post_mortem())[1] != f"listening {other.target.port}"
    assert not await anyio.Path(folder).exists()
    await host.stop()
