"""What all tests share: the two backends, the tests that stay in one process, and those measured for coverage.

Being measured makes Python two and a half times as slow, and a program takes a tenth of a second more to start. So
coverage looks away where tests run again what others have run: on the second backend, in programs that do what has been
done in this process, on brokers that are not this project's, on bugs that were planted; where they run what chance
brings, which may be something else next time; and where every process of tests does the same, which is collecting them.
The limits are as they were, and must be reached without all that.
"""

import gc
import os
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from unittest import mock

import pytest
from xdist.scheduler import LoadScopeScheduling

from zaichik.build import build, is_compiled

MEASURING = "COVERAGE_PROCESS_CONFIG"  # tells programs that are started to measure themselves
UNMEASURED = ("unmeasured", "hypothesis")  # hypothesis marks its tests by itself
SPARK = "tests/spark/"
LONGEST = (
    SPARK,
    "tests/simulation/",
    "tests/test_benchmarks.py",
    "tests/demo/test_departures.py",
    "tests/tutorial/test_reading.py",
    "tests/tutorial/test_exercises.py",
    "tests/tutorial/test_claims.py",
)
LOGINS = ("ZAICHIK_CONNECT", "ZAICHIK_ACCESS", "ZAICHIK_TOKEN", "ZAICHIK_TOKEN_FILE", "ZAICHIK_PASSWORD_FILE")
FIRST = "gw0"  # of the processes that run tests
MOST_PROCESSES = 8  # more would only wait for the one with Spark

# A script that starts the tests with `&` has them ignore Ctrl-C; what they start must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("beside_model")  # no file of tests, but what it asserts is told as in one


def pytest_addoption(parser):
    parser.addoption("--compiled", action="store_true", help="fail unless it is the compiled build that is tested")


def pytest_configure(config):
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        _look_away()  # for good: other processes run the tests
    if config.getoption("--compiled") and not is_compiled():
        raise pytest.UsageError(f"this is the {build()} build, not the compiled one: run `make test-compiled`")


def pytest_report_header():
    return f"zaichik: {build()}"


@pytest.fixture(scope="session", autouse=True)
def _nobodys_login(tmp_path_factory):
    """Commands, and those in programs that tests start, do not find the login of who runs the tests."""
    with pytest.MonkeyPatch.context() as environment:
        for name in LOGINS:
            environment.delenv(name, raising=False)
        environment.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where a test may keep a login of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def secret_file(tmp_path):
    """Write a file with a secret, which only its owner can read unless its mode says otherwise."""

    def make(text, mode=0o600):
        path = tmp_path / "secret"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return make


@pytest.fixture
def patchable():
    """For tests that replace methods and functions, to watch them or to plant a bug: compiled code calls its own."""
    if is_compiled():
        pytest.skip("compiled code cannot be patched")


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.unmeasured)])
def anyio_backend(request):
    return request.param


class Together(LoadScopeScheduling):
    """A file's tests run in one process, because its fixtures are made once; so do all of Spark's."""

    def _split_scope(self, nodeid):
        return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # which begins with the files that have most tests; see below
    return Together(config, log)


def pytest_xdist_auto_num_workers(config):
    """Two more than there are processors: tests wait for programs they have started, and for time."""
    return min(MOST_PROCESSES, (os.cpu_count() or 1) + 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays to the end: half a million objects that no garbage collection need look at."""
    gc.disable()
    try:
        with _away() if os.environ.get("PYTEST_XDIST_WORKER", FIRST) != FIRST else nullcontext():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()  # hypothesis looks for what refers to what, if it is imported only for its part of the summary


def pytest_collection_modifyitems(items):
    """What takes longest begins first, or at the end one process would be busy with it and the others with nothing."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid):
    return next((number for number, path in enumerate(LONGEST) if nodeid.startswith(path)), len(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let coverage look away from some tests, and from the programs they start.

    It watches by a trace function; from Python 3.14 on it has a cheaper way, and there it goes on.
    """
    if MEASURING not in os.environ or not any(map(item.get_closest_marker, UNMEASURED)):
        return (yield)
    with _away(), mock.patch.dict(os.environ):
        del os.environ[MEASURING]
        return (yield)


@contextmanager
def _away():
    """Let coverage look away from what this process runs."""
    tracers = sys.gettrace(), threading.gettrace()
    _look_away()
    try:
        yield
    finally:
        sys.settrace(tracers[0])
        threading.settrace(tracers[1])


def _look_away():
    sys.settrace(None)
    threading.settrace(None)
