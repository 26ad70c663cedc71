"""What all tests share: the two backends, what is left out, what stays in one process, and their
order.
"""

import gc
import os
import signal

import costs
import deferred
import pytest
import strangers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdist.scheduler import LoadScopeScheduling

from zaichik.base.build import build, is_compiled

SPARK = "tests/apps/spark/"
LONGEST = (
    SPARK,
    "tests/tutorial/test_reading.py",
    "tests/tutorial/test_exercises.py",
    "tests/tutorial/test_claims.py",
    "tests/learn/test_brokers.py",
    "tests/test_black_box.py",
    "tests/cli/test_learn_command.py",
    "tests/learn/test_mutants.py",
    "tests/cli/test_watch_command.py",
    "tests/apps/web/test_page.py",
)
# Their tests share nothing, and some take a minute: each may run in another process.
APART = ("tests/tutorial/test_reading.py", "tests/simulation/test_planted.py")
LOGINS = (
    "ZAICHIK_CONNECT",
    "ZAICHIK_ACCESS",
    "ZAICHIK_TOKEN",
    "ZAICHIK_TOKEN_FILE",
    "ZAICHIK_PASSWORD_FILE",
)
MOST_PROCESSES = 8  # more would only wait for the one with Spark

# A script that starts the tests with `&` has them ignore Ctrl-C, and `nohup` a terminal that is
# closed. Programs inherit what is ignored, but no handlers, so a handler keeps it from those that
# the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# How long an example takes, or many take to make, says nothing on a busy machine. And a suite that
# failed by chance would fail for somebody who has changed nothing: the examples are the same each
# time, until the test is another one. `make test-long` draws other ones, with
# `--hypothesis-profile=other-examples`.
settings.register_profile(
    "zaichik", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("other-examples", settings.get_profile("zaichik"), derandomize=False)
settings.load_profile("zaichik")

pytest.register_assert_rewrite(
    "beside_model", "beside_queue", "queue_world"
)  # no file of tests, but what it asserts is told as in one


def pytest_addoption(parser):
    parser.addoption(
        "--compiled",
        action="store_true",
        help="fail unless it is the compiled build that is tested",
    )
    parser.addoption(
        "--costs",
        metavar="FILE",
        help="write there what processor time each test takes (to be read with tests/costs.py)",
    )


def pytest_configure(config):
    if config.getoption("--compiled") and not is_compiled():
        raise pytest.UsageError(
            f"this is the {build()} build, not the compiled one: run `make test-compiled`"
        )
    if file := config.getoption("--costs"):
        config.pluginmanager.register(costs.Meter(file))


def pytest_report_header():
    return f"zaichik: {build()}"


@pytest.fixture(scope="session", autouse=True)
def _nobodys_login(tmp_path_factory):
    """Commands, and those in programs that tests start, do not find the login of who runs the
    tests.
    """
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
    """For tests that replace methods and functions, to watch them or to plant a bug: compiled code
    calls its own.
    """
    if is_compiled():
        pytest.skip("compiled code cannot be patched")


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.unmeasured)])
def anyio_backend(request):
    return request.param


class Together(LoadScopeScheduling):
    """A file's tests run in one process, as its fixtures are made once; so do all of Spark's."""

    def _split_scope(self, nodeid):
        if nodeid.startswith(SPARK):
            return SPARK
        if nodeid.startswith(APART):
            return nodeid
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = (
        False  # which begins with the files that have most tests; see below
    )
    return Together(config, log)


def pytest_xdist_auto_num_workers(config):
    """One more than there are processors: tests wait for programs they started, and for time."""
    return min(MOST_PROCESSES, (os.cpu_count() or 1) + 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Nothing of what is collected is garbage. To look for some among it takes a fifth of the time,
    and later, in each test that does look, as long as the rest of that test.
    """
    _draw_once()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before what `-m` does not choose is taken out
def pytest_collection_modifyitems(items):
    """Mark what `make test` leaves out, and what a machine may lack something for. What takes
    longest begins first, or at the end one process would be busy with it and the others with
    nothing.
    """
    for item in items:
        callspec = getattr(item, "callspec", None)
        backend = callspec.params.get("anyio_backend") if callspec else None
        if deferred.reason(item.nodeid, on_trio=backend == "trio"):
            item.add_marker("deferred")
        if strangers.needed(item.nodeid):
            item.add_marker("stranger")
    items.sort(key=lambda item: _place(item.nodeid))


@settings(max_examples=1, database=None)
@given(st.none())
def _draw_once(_nothing):
    """Hypothesis looks who refers to its source of chance when it draws first. On Python 3.14 it
    would not see one that is frozen, and warn of a source that nobody holds.
    """


def pytest_collection_finish():
    """What was collected lives until the end, and is large: a search for garbage would look through
    all of it.
    """
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """What is left when a file of tests is over, such as imported modules, stays until the end as
    well. In a process that has run half of the suite, a search through that takes two seconds.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


def _place(nodeid):
    return next(
        (number for number, path in enumerate(LONGEST) if nodeid.startswith(path)), len(LONGEST)
    )
