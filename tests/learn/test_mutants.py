"""Every check finds a broker that is wrong in just that, and says so."""

import re

import anyio
import pytest
from learn_hosts import find, run, small_buffers, stepping_us, system_us, tiny
from learn_liars import is_at, places, places_in
from learn_mutant import LEFT_OUT_BY_TINY, TINY
from learn_mutants import MUTANTS
from mutants_killed import MUTANTS as KILLED_MUTANTS
from mutants_shared import MUTANTS as SHARED_MUTANTS
from mutants_shipped import MUTANTS as SHIPPED_MUTANTS

from zaichik.learn import story
from zaichik.learn.stages import CHECKS, s09_exactly, s13_stuck_reader
from zaichik.learn.trial import Trial

# What no mutant of tiny_broker can show is shown by servers that are no brokers at all.
KILLED_ELSEWHERE = (
    dict.fromkeys(LEFT_OUT_BY_TINY - {"S13.4"}, "test_brokers.py: what tiny_broker leaves out")
    | {
        "S0.1": "test_hopeless.py: nothing listens",
        "S0.2": "test_hopeless.py: random bytes",
        "S14.5": "test_server.py: SIGTERM is ignored",
        "S14.10": "test_server.py: tiny_broker says no GoAway",
    }
    | {mutant.kills: "test_shipped_mutants.py" for mutant in SHIPPED_MUTANTS}
    | {mutant.kills: "test_shipped_mutants.py" for mutant in SHARED_MUTANTS}
    | {mutant.kills: "test_killed.py" for mutant in KILLED_MUTANTS}
)

AT_ONCE = 4
OF_MILLISECONDS = {
    "S11.8",
    "S12.7",
}  # they find what is 20 ms long by the broker's clock, so it is one that waits
ELSEWHERE = {
    "s00_listen",
    "s14_close",
    "s14_ends",
    "s16_managing",
    "s16_kept",
    "s16_durable",
    "s16_killed",
    "s16_table_killed",
    "s16_explaining",
    "s17_following",
    "s17_tables",
    "s17_full",
    "s17_tombstones",
    "s17_changes",
    "s18_shared",
    "s18_settling",
    "s18_dead",
    "s18_lost",
    "s18_order",
    "s18_history",
    "backlog",
}
REACHED, RUN = (
    set(),
    set(),
)  # statements that wrong brokers failed at, and the names of these brokers


@pytest.fixture
def anyio_backend():
    """Mutants are asyncio's, too; the tester itself runs on both loops in test_brokers.py."""
    return "asyncio"


async def judge_all(mutants):
    """The results of each mutant's checks, by its name.

    Most of the time is waiting, so several are judged at once.
    """
    limiter, results = anyio.CapacityLimiter(AT_ONCE), {}

    async def judge(mutant):
        now_us = system_us if OF_MILLISECONDS.isdisjoint(mutant.kills) else stepping_us()
        async with limiter, tiny(mutant.source(), now_us) as host:
            first = MUTANTS.index(mutant)
            says = {name: mutant.says if name == mutant.kills[0] else "" for name in mutant.kills}
            results[mutant.name] = [
                await find(host, name, says[name], first_seed=first) for name in mutant.kills
            ]

    async with anyio.create_task_group() as tasks:
        for mutant in mutants:
            tasks.start_soon(judge, mutant)
    return results


@pytest.fixture(scope="module")
def results(request):
    """Of all mutants that were asked for."""
    chosen = [
        item.callspec.params["mutant"]
        for item in request.session.items
        if "results" in item.fixturenames
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_buffers(monkeypatch)
        monkeypatch.setattr(
            s13_stuck_reader, "STALLED_S", 60.0
        )  # slow on a busy machine is not stalled
        monkeypatch.setattr(
            s09_exactly, "RALLY_S", 60.0
        )  # all its messages, or what is lost may not be among them
        return anyio.run(judge_all, chosen)


@pytest.mark.unmeasured
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # some mutants leave sockets open
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_broker_fails_where_it_is_wrong(mutant, results):
    for name, result in zip(mutant.kills, results[mutant.name], strict=True):
        says = mutant.says if name == mutant.kills[0] else ""
        assert result.outcome == "failed", (
            f"{name} does not find it: {result.outcome} {result.reason}"
        )
        assert re.search(says, said := f"{result.failure.summary}. {result.failure.cause}"), said
        assert len(set(result.check.hints)) == 3
        REACHED.update(places_in(result.failure))
    RUN.add(mutant.name)


@pytest.mark.anyio
async def test_a_history_s_failure_shows_the_frames_that_matter_and_draws_them():
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == "one message in 23 is skipped"]
    async with tiny(mutant.source()) as host:
        result = await find(host, "S15.1", mutant.says)
    frames = result.failure.frames
    assert {entry.frame.name for entry in frames} >= {"Subscribe", "Subscribed", "Messages"}
    (reader,) = {entry.connection for entry in frames if entry.frame.name == "Subscribed"}
    seen = [
        entry.frame.name for entry in frames if entry.connection == reader
    ]  # a publisher's answer may come later
    assert seen[-1] in {
        "Messages",
        "Lagged",
    }  # the first that begins too late; a slow reader is told of a lag
    assert len(frames) < 10 < len(result.trace.entries)
    assert (
        len({entry.connection for entry in frames}) <= 3
    )  # the reader's, and those of two publishers
    titles = {section.title: section.lines for section in story.sections(result)}
    assert titles["proof"] == result.failure.drawing.lines()
    assert any(
        "SILENT GAP" in line for line in titles["proof"]
    )  # then, perhaps, that publisher's answer
    assert "that matter" in titles["frames"][0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name", ["retention is taken for microseconds", "who waits gets what has expired"]
)
async def test_a_broker_is_not_blamed_if_the_tester_itself_came_too_late(name, monkeypatch):
    """On a busy machine the message may have expired before anybody could ask for it."""
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    monkeypatch.setattr(Trial, "since", lambda _trial, _moment: 9.0)
    async with tiny(mutant.source()) as host:
        result = await run(host, mutant.kills[0])
    assert result.outcome == "inconclusive"


@pytest.mark.anyio
@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
async def test_a_wrong_broker_passes_every_stage_before(mutant):
    """Who learns with the stages is never sent back to one that was passed."""
    stage = CHECKS[mutant.kills[0]].stage
    async with tiny(mutant.source()) as host:
        for check in CHECKS.values():
            if check.stage < stage and check.id not in LEFT_OUT_BY_TINY.union(mutant.kills):
                result = await run(host, check.id)
                assert result.outcome != "failed", f"{check.id}: {result.failure.summary}"


def test_every_verdict_that_a_stage_words_itself_is_reached_by_some_mutant():
    """All other judgements are shown to be some by test_liars.py; KILLED_ELSEWHERE has the rest of
    S0, S14 and S16 to S18.
    """
    if len(RUN) < len(MUTANTS):
        pytest.skip("not all mutants were run")
    not_reached = {place for place in places(raising=True) if not is_at(place, REACHED)}
    assert {place for place in not_reached if place.file not in ELSEWHERE} == set()


def test_every_check_is_killed_by_some_mutant():
    killed = {name for mutant in MUTANTS for name in mutant.kills} | KILLED_ELSEWHERE.keys()
    assert set(CHECKS) - killed == set()
    assert killed - set(CHECKS) == set()


def test_mutants_differ_from_the_original_and_from_each_other():
    sources = [mutant.source() for mutant in MUTANTS]
    assert len({*sources, TINY.read_text(encoding="utf-8")}) == len(MUTANTS) + 1
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
