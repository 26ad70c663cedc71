"""Tries small edits of the core, and says which of them no test notices: `make mutants-core`.

`mutations.py` says what is edited. Nothing is ever written into the source tree, and hardly
anything is started anew:

1. pytest collects the tests of the core once. In a fork of that process they all run, under
   coverage, to learn which of them reach which lines. That is kept in `build/mutants` until the
   core or its tests change.
2. For each edit inside a function, a fork of the same process gives the function the edited code,
   and runs the tests that reach it, the quickest first, until one fails.
3. Other edits take effect when a module is imported. They are made by an import hook, in a process
   that has imported no part of zaichik yet. What survives in 2 is tried again like this, because
   what tests collect may depend on the function, too.

An edit is *killed* if a test fails, or takes six times as long as it should and five seconds: then
it loops without end. What survives changes nothing, and is in `equivalent_mutants.txt` with the
reason; or a test is missing; or the code does nothing and should not be there.
"""

import argparse
import difflib
import gc
import hashlib
import importlib.abc
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import coverage
import hypothesis
import pytest
from mutations import CORE, ROOT, Mutant, mutants, sample, within

TESTS = ROOT / "tests"
TESTED = (  # what tests the core
    "tests/core",
    "tests/server",
    "tests/simulation",
    "tests/storage",
    "tests/test_black_box.py",
)
# They plant bugs and look for them, which says nothing about an edit that was not planted there.
NOT_TESTED = ("tests/core/test_planted_bugs.py", "tests/simulation/test_planted.py")
KEPT = ROOT / "build" / "mutants"
REACH = KEPT / "reach.json"
EQUIVALENT = TESTS / "equivalent_mutants.txt"

# A test has that much processor time, and that many times what it takes without an edit.
SECONDS, TIMES = 5.0, 6
# One whose tests wait for nothing is ended after so much real time, and as many times as above.
REAL_SECONDS = 120.0
UNMEASURED_S = 2.5  # of which nobody knows what it takes
ALL_S = 60.0  # what all of tests/core take
MEMORY = 4 << 30  # bytes that an endless loop may take in addition

KILLED, SURVIVED = "killed", "survived"
NOT_TRIED = 71  # exit code: no function can get the edited code, but its module can be imported


# -- what is known of the tests --------------------------------------------------------------------


@dataclass
class Reach:
    """Which tests reach which lines.

    Attributes:
        cost_s: the processor time of each test.
        tests: by file and line, the tests that reach it.
        imported: lines that also run while tests are collected.
        core: a hash of the core.
        files: of the files of tests, by path.
    """

    cost_s: dict[str, float] = field(default_factory=dict)
    tests: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    imported: dict[str, set[int]] = field(default_factory=dict)
    core: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def load(self, text: str) -> None:
        """Take what `dump` has returned."""
        told = json.loads(text)
        names = [name for name, _ in told["cost_s"]]
        self.cost_s = dict(told["cost_s"])
        for path, lines in told["tests"].items():
            its_tests = self.tests[path] = {}
            for line, numbers in lines.items():
                its_tests[int(line)] = {names[number] for number in numbers}
        self.imported = {path: set(lines) for path, lines in told["imported"].items()}
        self.core, self.files = told["core"], told["files"]

    def dump(self) -> str:
        """Returns all of it as text."""
        numbers = {name: number for number, name in enumerate(self.cost_s)}
        tests = {}
        for path, lines in self.tests.items():
            tests[path] = {
                line: sorted(numbers[name] for name in names if name in numbers)
                for line, names in lines.items()
            }
        imported = {path: sorted(lines) for path, lines in self.imported.items()}
        return json.dumps(
            {
                "cost_s": list(self.cost_s.items()),
                "tests": tests,
                "imported": imported,
                "core": self.core,
                "files": self.files,
            }
        )

    def update(self, newer: "Reach") -> None:
        """Take over what was measured of some files of tests."""
        self.cost_s = {
            name: cost_s
            for name, cost_s in self.cost_s.items()
            if name.partition("::")[0] not in newer.files
        }
        for path, lines in newer.tests.items():
            known = self.tests.setdefault(path, {})
            for line, names in lines.items():
                known[line] = known.get(line, set()) | names
        for path, imported in newer.imported.items():
            self.imported[path] = self.imported.get(path, set()) | imported
        self.cost_s |= newer.cost_s
        self.files |= newer.files
        self.core = newer.core

    def leave_out(self, least_s: float) -> None:
        """Forget the tests that take that much or more."""
        self.cost_s = {name: cost_s for name, cost_s in self.cost_s.items() if cost_s < least_s}

    def of(self, mutant: Mutant) -> list[str]:
        """Returns the tests that can notice an edit, the quickest first."""
        path = str(mutant.path.relative_to(ROOT))
        if mutant.function is not None and not self.is_imported(mutant):
            found = self._reached(path, mutant.lines)
        else:
            its_own = f"/test_{mutant.path.stem}.py"
            found = {name for name in self.cost_s if name.partition("::")[0].endswith(its_own)}
            found |= self._naming(mutant.name)
        return sorted(found, key=lambda name: (self.cost_s[name], name))

    def is_imported(self, mutant: Mutant) -> bool:
        """Returns whether the edit takes effect while tests are collected."""
        imported = self.imported.get(str(mutant.path.relative_to(ROOT)), set())
        return mutant.function is None or not imported.isdisjoint(mutant.lines)

    def _reached(self, path: str, lines: Iterable[int]) -> set[str]:
        known = self.tests.get(path, {})
        return set().union(*(known.get(line, set()) for line in lines)) & self.cost_s.keys()

    def _naming(self, name: str) -> set[str]:
        """The tests that reach a line of the core with this name; all of them if none does."""
        found: set[str] = set()
        word = re.compile(rf"\b{re.escape(name)}\b")
        for path in self.tests:
            lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
            found |= self._reached(
                path, [n for n, line in enumerate(lines, 1) if word.search(line)]
            )
        return found or set(self.cost_s)


class Measuring:
    """A plugin that measures what tests reach and cost. Those that fail are left out."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.failed: list[str] = []
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{CORE}/*"], data_suffix=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test under its name."""
        self._coverage.switch_context(item.nodeid)
        before_s = time.process_time()
        result = yield
        self.reach.cost_s[item.nodeid] = round(time.process_time() - before_s, 4)
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test has failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Take over what coverage has seen."""
        self._coverage.stop()
        for name in self.failed:
            self.reach.cost_s.pop(name, None)
        data = self._coverage.get_data()
        for path in data.measured_files():
            name = str(Path(path).relative_to(ROOT))
            tests: dict[int, set[str]] = {}
            imported: set[int] = set()
            for line, contexts in data.contexts_by_lineno(path).items():
                tests[line] = {each for each in contexts if each in self.reach.cost_s}
                if "" in contexts:
                    imported.add(line)
            self.reach.tests[name] = tests
            self.reach.imported[name] = imported


class Chosen:
    """A plugin that runs the tests of a task in their order, each for as long as it may take.

    Args:
        task: the edit, and its tests.
        cost_s: what tests take without an edit.
        into: the file that gets the name of the test that fails.
    """

    def __init__(self, task: "Task", cost_s: dict[str, float], into: Path) -> None:
        self._task = task
        self._cost_s = cost_s
        self._into = into

    def choose(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Returns these tests, out of all.

        An id may have a number in it that is edited: then all tests of that function are meant.
        """
        if self._task.tests is None:
            stem = self._task.mutant.path.stem
            return sorted(items, key=lambda item: item.path.stem != f"test_{stem}")
        by_name: dict[str, list[pytest.Item]] = {item.nodeid: [item] for item in items}
        by_function: dict[str, list[pytest.Item]] = {}
        for item in items:
            by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
        chosen: dict[pytest.Item, None] = {}
        for name in self._task.tests:
            found = by_name.get(name) or by_function.get(name.partition("[")[0], [])
            chosen.update(dict.fromkeys(found))
        return list(chosen)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run no others."""
        items[:] = self.choose(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let the system end this process when a test takes too long."""
        cost_s = self._cost_s.get(item.nodeid, UNMEASURED_S)
        signal.setitimer(signal.ITIMER_PROF, SECONDS + TIMES * cost_s)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the test that fails; pytest stops after it."""
        if report.failed:
            self._into.write_text(report.nodeid, encoding="utf-8")


class Quick:
    """A plugin that loads the settings of hypothesis: what fails once need not become small."""

    def pytest_configure(self) -> None:
        """Before tests are collected, because they keep what is loaded then."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        profile = hypothesis.settings.get_profile("zaichik")
        hypothesis.settings.register_profile("mutants", profile, phases=phases, database=None)
        hypothesis.settings.load_profile("mutants")


def arguments(names: Iterable[str] | None = None) -> list[str]:
    """Returns what pytest is started with: the files of these tests, or of those of the core."""
    if names is None:
        names = ["tests/core"]
    files = {name.partition("::")[0] for name in names}
    paths = [str(ROOT / file) for file in sorted(files)]
    ignored = [f"--ignore={ROOT / each}" for each in NOT_TESTED]
    options = ["-q", "-x", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-n", "0"]
    # What a fork has imported before pytest starts is not rewritten; none of it is a test.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    return [*paths, *ignored, *options]


# -- processes -------------------------------------------------------------------------------------


@dataclass
class Task:
    """An edit that is tried.

    Attributes:
        mutant: the edit.
        tests: what to run; None for all of `tests/core`, those of the edited file first.
        verdict: `KILLED` or `SURVIVED`, or "" until that is known.
        why: the test that failed, or what else happened.
    """

    mutant: Mutant
    tests: list[str] | None
    verdict: str = ""
    why: str = ""


@dataclass
class _Child:
    task: Task
    folder: Path
    until_s: float


def in_forks(
    tasks: Iterable[Task], run: Callable[[Task, Path], int], cost_s: dict[str, float], jobs: int
) -> Iterator[Task]:
    """Runs each task in a fork of this process, some at a time; returns each with its verdict.

    Args:
        tasks: what to try.
        run: returns pytest's exit code; the file of the name that it is given gets the test that
            failed.
        cost_s: what tests take without an edit.
        jobs: how many at a time.
    """
    waiting = list(tasks)[::-1]
    running: dict[int, _Child] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        while waiting or running:
            if waiting and len(running) < jobs:
                task = waiting.pop()
                folder = Path(name, f"{len(waiting)}")
                folder.mkdir()
                pid = os.fork()
                if not pid:
                    _be_child(task, folder, run)
                expected_s = ALL_S
                if task.tests is not None:
                    expected_s = sum(cost_s[name] for name in task.tests)
                until_s = time.monotonic() + REAL_SECONDS + TIMES * expected_s
                running[pid] = _Child(task, folder, until_s)
                continue

            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                time.sleep(0.01)
                _end_those_that_hang(running)
                continue

            child = running.pop(pid)
            _judge(child, status)
            shutil.rmtree(child.folder, ignore_errors=True)
            yield child.task


def _be_child(task: Task, folder: Path, run: Callable[[Task, Path], int]) -> None:
    """Run a task in this process, which ends with it."""
    code = 70  # what goes wrong here is nobody's verdict
    try:
        os.setsid()  # with all that it starts
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        code = run(task, folder / "failed")
    finally:
        sys.stdout.flush()
        os._exit(code)


def _end_those_that_hang(running: dict[int, _Child]) -> None:
    now_s = time.monotonic()
    for pid, child in running.items():
        if child.until_s < now_s:
            os.killpg(pid, signal.SIGKILL)


def _judge(child: _Child, status: int) -> None:
    """Give the task of a child that has ended its verdict."""
    task, failed = child.task, child.folder / "failed"
    code = os.waitstatus_to_exitcode(status)
    task.verdict = KILLED
    if failed.exists():
        task.why = failed.read_text(encoding="utf-8")
    elif code in {-signal.SIGPROF, -signal.SIGKILL}:
        task.why = "a test takes too long"
    elif code in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}:
        task.why = "the tests cannot be collected"
    elif code < 0:
        task.why = f"a test ends with signal {-code}"
    elif code == NOT_TRIED:
        task.verdict = ""
    elif code == pytest.ExitCode.OK:
        task.verdict = SURVIVED
        task.why = "by all tests" if task.tests is None else f"by {len(task.tests)} tests"
    else:
        output = (child.folder / "output").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"{task.mutant.id}: exit code {code}\n{output[-4000:]}")


# -- edited functions, in forks of a process that has collected all tests --------------------------


def functions_of(folder: Path) -> list[FunctionType]:
    """Returns the functions of all modules of a folder that are imported."""
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{folder}/")
    ]


def replace_code(mutant: Mutant, functions: list[FunctionType]) -> None:
    """Give the function that an edit is in, which is one of these, the edited code.

    Raises:
        LookupError: there is no such function, or it has other variables of functions around it.
    """
    assert mutant.function is not None
    edited = next(_codes(compile(mutant.text, mutant.path, "exec"), mutant), None)
    found = [each for each in functions if _is_it(each.__code__, mutant)]
    if edited is None or not found:
        raise LookupError(f"{mutant.id}: no function has its code")
    for function in found:
        if function.__code__.co_freevars != edited.co_freevars:
            raise LookupError(f"{mutant.id}: other variables from around it")
        function.__code__ = edited


def _codes(code: CodeType, mutant: Mutant) -> Iterator[CodeType]:
    if _is_it(code, mutant):
        yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant, mutant)


def _is_it(code: CodeType, mutant: Mutant) -> bool:
    function = mutant.function
    return (
        function is not None
        and code.co_firstlineno == function.first_line
        and code.co_qualname == function.name
        and code.co_filename == str(mutant.path)
    )


class Forking:
    """A plugin that tries edits when all tests are collected, instead of running them once.

    Args:
        tasks: what to try.
        cost_s: what tests take without an edit.
        jobs: how many at a time.
        on_verdict: called with each task when its verdict is known.
    """

    def __init__(
        self,
        tasks: list[Task],
        cost_s: dict[str, float],
        jobs: int,
        on_verdict: Callable[[Task], None],
    ) -> None:
        self._tasks = tasks
        self._cost_s = cost_s
        self._jobs = jobs
        self._on_verdict = on_verdict

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all edits; returns that nothing else is to be done."""
        functions = functions_of(CORE)
        gc.collect()
        gc.freeze()  # or else the garbage collector of each fork would copy what they share

        def run(task: Task, into: Path) -> int:
            try:
                replace_code(task.mutant, functions)
            except LookupError:
                return NOT_TRIED
            chosen = Chosen(task, self._cost_s, into)
            session.config.pluginmanager.register(chosen)
            session.items = chosen.choose(session.items)
            try:
                pytest_loop(session)
            except (pytest.Session.Failed, pytest.Session.Interrupted):
                return int(pytest.ExitCode.TESTS_FAILED)
            return int(pytest.ExitCode.OK)

        for task in in_forks(self._tasks, run, self._cost_s, self._jobs):
            self._on_verdict(task)
        return True


def pytest_loop(session: pytest.Session) -> None:
    """Run the tests of a session."""
    for number, item in enumerate(session.items):
        following = session.items[number + 1] if number + 1 < len(session.items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            session._setupstate.teardown_exact(None)
            raise session.Failed(session.shouldfail)


# -- edited modules, in processes that import them anew --------------------------------------------


# The ignored error is one between two classes of the standard library.
class Importing(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Imports one module of the core with an edit."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The module, if it is this one."""
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(fullname, self._mutant.path, loader=self)

    def get_filename(self, fullname: str) -> str:
        """Where the module seems to be."""
        return str(self._mutant.path)

    def get_data(self, path: str) -> bytes:
        """The module's text."""
        return self._mutant.text.encode()


def import_anew(task: Task, into: Path, cost_s: dict[str, float]) -> int:
    """Run a task's tests with the edited module; returns pytest's exit code."""
    sys.meta_path.insert(0, Importing(task.mutant))
    chosen = Chosen(task, cost_s, into)
    return int(pytest.main(arguments(task.tests), plugins=[Quick(), chosen]))


# -- the command -----------------------------------------------------------------------------------


def equivalent() -> dict[str, str]:
    """Returns the edits that change nothing, by their ids, and the reason of each.

    Raises:
        ValueError: a line has no reason, or an id is there twice.
    """
    found: dict[str, str] = {}
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, mark, reason = line.rpartition(" # ")
        name = name.strip()
        if not mark or not name or not reason.strip() or name in found:
            raise ValueError(f"no id and reason, or the same id again: {line}")
        found[name] = reason.strip()
    return found


def reach_of_now() -> Reach:
    """Returns what the tests reach, of which that is measured which has changed.

    That is every file of tests if the core has changed, else those that are new or were edited.
    """
    reach = Reach()
    if REACH.exists():
        reach.load(REACH.read_text(encoding="utf-8"))
    core, files = _hash(sorted(CORE.rglob("*.py"))), {}
    for tested in TESTED:
        for path in {ROOT / tested, *(ROOT / tested).rglob("test_*.py")}:
            name = str(path.relative_to(ROOT))
            if path.is_file() and name not in NOT_TESTED:
                files[name] = _hash([path])
    if core != reach.core:
        reach = Reach()
    changed = {name: now for name, now in files.items() if reach.files.get(name) != now}
    if changed:
        print(f"measuring what {len(changed)} files of tests reach", flush=True)
        KEPT.mkdir(parents=True, exist_ok=True)
        in_a_fork(lambda: _measure(Reach(core=core, files=changed), reach))
        reach = Reach()
        reach.load(REACH.read_text(encoding="utf-8"))
    return reach


def _hash(paths: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def _measure(newer: Reach, reach: Reach) -> None:
    """Measure what some files of tests reach, and write down all that is known then."""
    os.environ.setdefault("COVERAGE_CORE", "ctrace")  # the one that knows contexts on all Pythons
    output = os.open(KEPT / "measuring.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    measuring = Measuring(newer)
    pytest.main([*arguments(newer.files), "--maxfail=1000"], plugins=[measuring])
    if measuring.failed:
        print(f"not used, since they fail: {measuring.failed}", file=sys.stderr)
    reach.update(newer)
    REACH.write_text(reach.dump(), encoding="utf-8")


def in_a_fork(run: Callable[[], None]) -> None:
    """Run a function in a process of its own.

    Raises:
        SystemExit: it has failed.
    """
    pid = os.fork()
    if not pid:
        try:
            run()
            sys.stdout.flush()
            os._exit(0)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(1)


def try_functions(tasks: list[Task], reach: Reach, jobs: int) -> None:
    """Give verdicts to edits inside functions."""
    by_id = {task.mutant.id: task for task in tasks}
    reading, writing = os.pipe()

    def tell(task: Task) -> None:
        os.write(writing, json.dumps([task.mutant.id, task.verdict, task.why]).encode() + b"\n")

    pid = os.fork()
    if not pid:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            forking = Forking(tasks, reach.cost_s, jobs, tell)
            tested = None if tasks[0].tests is None else TESTED
            os._exit(int(pytest.main(arguments(tested), plugins=[Quick(), forking])))
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as lines:
        for line in lines:
            name, verdict, why = json.loads(line)
            by_id[name].verdict, by_id[name].why = verdict, why
            told = "." if verdict == KILLED else f"\nsurvives, to be tried again: {name}\n"
            print(told, end="", flush=True)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("the tests cannot be collected")


def try_modules(tasks: list[Task], reach: Reach, jobs: int) -> None:
    """Give verdicts to edits that take effect when their module is imported."""

    def run(task: Task, into: Path) -> int:
        return import_anew(task, into, reach.cost_s)

    for task in in_forks(tasks, run, reach.cost_s, jobs):
        told = "." if task.verdict == KILLED else f"\nsurvives: {task.mutant.id}\n"
        print(told, end="", flush=True)


def try_all(tasks: list[Task], reach: Reach, jobs: int, *, anew: bool, again: bool) -> None:
    """Give each of them its verdict.

    Args:
        tasks: what to try.
        reach: what tests reach.
        jobs: how many at a time.
        anew: whether modules are imported anew for all.
        again: whether they are for those that survive.
    """
    for task in tasks:
        if task.tests == []:
            task.verdict, task.why = SURVIVED, "no test reaches it"
    open_ones = [task for task in tasks if task.tests != []]
    inside = [task for task in open_ones if not (anew or reach.is_imported(task.mutant))]
    if inside:
        try_functions(inside, reach, jobs)
    open_ones = [task for task in open_ones if task.verdict != KILLED]
    try_modules([task for task in open_ones if again or not task.verdict], reach, jobs)
    print()


def shown(task: Task) -> str:
    """Returns what a person wants to know of an edit that survives."""
    mutant = task.mutant
    path = str(mutant.path.relative_to(ROOT))
    before = mutant.path.read_text(encoding="utf-8").splitlines(keepends=True)
    after = mutant.text.splitlines(keepends=True)
    diff = "".join(difflib.unified_diff(before, after, path, path, n=1))
    quoted = mutant.id.replace("'", "'\"'\"'")
    command = f"python tests/mutating.py --only '{quoted}'"
    return f"SURVIVED ({task.why}): {mutant.id}\n{diff}\n{command}\n"


def main() -> int:
    """Try a sample; returns 1 if one survives that is not known to change nothing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--sample", type=int, metavar="N", help="how many edits; by default all")
    parser.add_argument("--seed", type=int, default=1, help="which ones; by default %(default)s")
    parser.add_argument(
        "--within", metavar="MODULE", help="only edits of this module, or of those in this folder"
    )
    parser.add_argument("--only", nargs="+", metavar="ID", help="these edits, imported anew")
    parser.add_argument("--jobs", type=int, default=2, help="at a time; by default %(default)s")
    parser.add_argument(
        "--near", action="store_true", help="only tests/core, and without measuring what they reach"
    )
    parser.add_argument(
        "--cheaper", type=float, metavar="S", help="for a first look: only tests that take less"
    )
    parser.add_argument("--killed", action="store_true", help="also show what was killed, and how")
    options = parser.parse_args()

    found = mutants()
    if options.within:
        found = within(found, options.within)
        if not found:
            parser.error("there is no edit of such a module")
    if options.only:
        chosen = [mutant for mutant in found if mutant.id in options.only]
        if len(chosen) < len(options.only):
            parser.error("there is no edit with this id")
    else:
        chosen = sample(found, options.sample or len(found), options.seed)
    known = equivalent()
    tried = [mutant for mutant in chosen if options.only or mutant.id not in known]
    reach = Reach() if options.near else reach_of_now()
    if options.cheaper:
        reach.leave_out(options.cheaper)
    tasks = [Task(mutant, None if options.near else reach.of(mutant)) for mutant in tried]
    began_s = time.monotonic()
    try_all(tasks, reach, options.jobs, anew=bool(options.only), again=not options.cheaper)

    survived = [task for task in tasks if task.verdict == SURVIVED]
    for task in sorted(survived, key=lambda task: task.mutant.id):
        print(shown(task))
    if options.killed:
        for task in tasks:
            if task.verdict == KILLED:
                print(f"killed: {task.mutant.id}\n    by {task.why}")
    killed = len(tasks) - len(survived)
    print(
        f"{len(chosen)} of {len(found)} edits, of which {len(chosen) - len(tried)} change nothing; "
        f"{killed} of the other {len(tasks)} are killed "
        f"({100 * killed / max(len(tasks), 1):.1f} %), in {time.monotonic() - began_s:.0f} s"
    )
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
