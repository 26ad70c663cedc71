"""What a wheel must do once it is installed: say what it is, be what it says, carry a message, and
show the demo.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .archives import EXTENSIONS
from .environment import COMMAND_SECONDS, Environment, Failed, run
from .project import Project

KEY, PAYLOAD = "alice", "two apples"
WHERE = """
import importlib, json, sys
files = {name: importlib.import_module(name).__file__ for name in sys.argv[1:]}
print(json.dumps([sys.prefix, files]))
"""


def check_version(environment: Environment, project: Project, *, compiled: bool) -> None:
    """The command and `python -m zaichik` say which version and which build they are."""
    expected = f"{project.name} {project.version} ({'compiled' if compiled else 'pure Python'})"
    for command in (["zaichik"], ["python", "-m", "zaichik"]):
        said = environment.run(*command, "--version").strip()
        if said != expected:
            raise Failed(f"{' '.join(command)} --version says {said!r} instead of {expected!r}")


def check_tool(command: Path, project: Project) -> None:
    """A command that a tool has installed says which version it is."""
    said = run(command, "--version", cwd=command.parent, seconds=COMMAND_SECONDS).strip()
    if not said.startswith(f"{project.name} {project.version} "):
        raise Failed(f"{command} --version says {said!r}, and the version is {project.version}")


def check_modules(environment: Environment, project: Project, *, compiled: bool) -> None:
    """The hot modules are loaded from the environment, and as what they should be."""
    prefix, places = json.loads(environment.run("python", "-c", WHERE, *project.hot_modules()))
    for name, place in places.items():
        if not Path(place).is_relative_to(prefix):
            raise Failed(f"{name} was loaded from {place}, which is outside of the environment")
        if place.endswith(EXTENSIONS) != compiled:
            raise Failed(
                f"{name} was loaded from {place}, but should be "
                f"{'compiled' if compiled else 'Python'}"
            )


def check_round_trip(environment: Environment) -> None:
    """A broker takes a message, and another program gets it."""
    with _broker(environment) as port:
        broker = ("--connect", f"127.0.0.1:{port}")
        environment.run("zaichik", "create", "orders", "--retention", "1h", *broker)
        environment.run("zaichik", "publish", "orders", PAYLOAD, "--key", KEY, *broker)
        line = environment.run("zaichik", "subscribe", "orders", "--count", "1", "--json", *broker)
        message = json.loads(line)
    if (message["key"], message["payload"]) != (KEY, PAYLOAD):
        raise Failed(f"published was {KEY}: {PAYLOAD}, and this came back: {line.strip()}")


def check_demo(environment: Environment, *options: str) -> None:
    """The demo runs to its end."""
    if not environment.run("zaichik", "demo", "--no-stats", *options).strip():
        raise Failed("zaichik demo printed nothing")


@contextmanager
def _broker(environment: Environment) -> Iterator[str]:
    """Serves at a free port, which is the value. It must end well."""
    broker = environment.start("zaichik", "serve", "--port", "0", "--json", "--log-level", "error")
    try:
        assert broker.stdout is not None
        first = broker.stdout.readline()  # empty, if it has ended
        if not first:
            raise Failed(
                f"zaichik serve ended with exit code {broker.wait(COMMAND_SECONDS)} before it "
                "served"
            )
        yield str(json.loads(first)["port"])
        broker.send_signal(signal.SIGTERM)
        if code := broker.wait(COMMAND_SECONDS):
            raise Failed(f"zaichik serve ended with exit code {code}")
    finally:
        broker.kill()
        broker.communicate()
