"""Bugs that are planted in the running program, and the tests that must notice them there.

Most slips are planted in a file, for a pytest of its own. Where many tests take a moment each, that
is the longest part: these are planted in this process, and the named test is called as it is.
"""

import importlib.util
import inspect
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio
from planting import plant, planted

TESTS = Path(__file__).parent


@dataclass(frozen=True)
class RunningSlip:
    """A wrong line.

    Attributes:
        folder: of the tests that notice it, below `tests`.
        name: what is wrong.
        where: the method or function that has it.
        right: what stands there, an expression or statements; `wrong` stands there instead.
        caught_by: the test that notices it, as module:function.
        arguments: of that test, besides fixtures.
        nth: which one, counted from 1, if what is right is there several times.
    """

    folder: str
    name: str
    where: str
    right: str
    wrong: str
    caught_by: str
    arguments: tuple = ()
    nth: int = 0

    @property
    def test(self) -> str:
        """The file of the test below `tests`, and its name."""
        module, _, function = self.caught_by.partition(":")
        return f"{self.folder}/{module}.py::{function}"

    def planted(self):
        """The file that has the slip, and its text with it."""
        return planted(self.where, self.right, self.wrong, self.nth)

    def plant(self, monkeypatch):
        """Replace the method by the wrong one, which uses all else as it is."""
        plant(monkeypatch, self.where, self.right, self.wrong, self.nth)

    def run_test(self, fixtures):
        """Run the test that should notice it.

        Args:
            fixtures: what it may ask for, by name; what is left are the slip's arguments.
        """
        module, _, function = self.caught_by.partition(":")
        test = getattr(_loaded(self.folder, module), function)
        names = list(inspect.signature(test).parameters)
        wanted = {name: fixtures[name] for name in names if name in fixtures}
        left = [name for name in names if name not in wanted]
        call = {**wanted, **dict(zip(left, self.arguments, strict=True))}
        if not inspect.iscoroutinefunction(test):
            return test(**call)

        async def run():
            # What waits in vain has noticed it, too.
            with anyio.fail_after(5):
                await test(**call)

        return anyio.run(run)


@cache
def _loaded(folder, name):
    """A module of tests in a folder; other folders have modules of the same names."""
    path = TESTS / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{folder.replace('/', '_')}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
