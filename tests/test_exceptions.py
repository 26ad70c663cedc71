"""Exceptions survive the way between processes, and being copied."""

import copy
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import anyio
import pytest

import zaichik
import zaichik.blocking
import zaichik_protocol
from zaichik import BrokerError, CannotOpen
from zaichik.apps.mqtt.packets import ReasonCode
from zaichik.base.build import is_compiled
from zaichik_protocol import Error, ErrorCode, Ping, ProtocolError, Refused

# A value for each type that an exception is made of. It differs from every default.
VALUES: dict[Any, Any] = {
    str: "what is wrong",
    int: 7,
    bool: True,
    ErrorCode: ErrorCode.TOPIC_FULL,
    ReasonCode: ReasonCode.QUOTA_EXCEEDED,
    Error: Error(1, ErrorCode.TOPIC_FULL, Ping.TYPE, "value", 1500, "text", retryable=True),
}

A_LATER_CODE = 999


def modules() -> Iterator[ModuleType]:
    for package in (zaichik, zaichik_protocol):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield import_module(found.name)


@cache
def exceptions() -> list[type[BaseException]]:
    """Returns every exception of the project, those of the public modules first."""
    found: dict[type[BaseException], None] = {}
    for module in (zaichik, zaichik.blocking, zaichik_protocol, *modules()):
        for name in dir(module):
            value = getattr(module, name)
            is_exception = inspect.isclass(value) and issubclass(value, BaseException)
            if is_exception and value.__module__.startswith("zaichik"):
                found[value] = None
    return list(found)


def made(kind: type[BaseException]) -> BaseException:
    """Returns an exception of that type, with a value for each parameter that has a known type."""
    if issubclass(kind, BrokerError):
        codes = [code for code, its in BrokerError._types.items() if its is kind]
        codes.append(A_LATER_CODE)
        return BrokerError.of(replace(VALUES[Error], code=codes[0]))
    known = {Exception.__init__, OSError.__init__, SystemExit.__init__, ValueError.__init__}
    if kind.__init__ in known:
        return kind("what is wrong")
    hints = get_type_hints(kind.__init__)
    positional, named = [], {}
    for parameter in inspect.signature(kind).parameters.values():
        value = VALUES.get(hints.get(parameter.name))
        if value is None:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return kind(*positional, **named)


def pickled(error: BaseException) -> BaseException:
    return pickle.loads(pickle.dumps(error))


def same(one: BaseException, other: BaseException) -> bool:
    return (
        type(one) is type(other)
        and (str(one), one.args) == (str(other), other.args)
        and vars(one) == vars(other)
    )


def survives(error: BaseException, again: Callable[[BaseException], BaseException]) -> bool:
    try:
        return same(error, again(error))
    except Exception:
        return False


def test_the_walk_finds_what_is_public_and_what_a_module_keeps_to_itself():
    found = {kind.__name__ for kind in exceptions()}
    assert found > {"CannotOpen", "Damaged", "ProtocolError", "TlsFailed", "CannotRead", "BadFrame"}


@pytest.mark.skipif(is_compiled(), reason="compiled code does not say what its parameters are")
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_every_exception_can_be_copied_and_pickled(again):
    changed = []
    for kind in exceptions():
        error = made(kind)
        error.add_note("said by the program")
        if not survives(error, again):
            changed.append(kind)
    assert not changed


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize(
    "error",
    [
        BrokerError.of(replace(VALUES[Error], code=A_LATER_CODE)),
        Refused(ErrorCode.TOPIC_FULL, "full", "topic"),
        ProtocolError(ErrorCode.MALFORMED, "cut", request_id=1, request_type=2),
        CannotOpen("not a folder", 74),
        zaichik.ConnectionLost("it stops", "STOPPING"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_its_attributes_come_with_it(again, error):
    error.add_note("said by the program")
    assert same(error, again(error))


@pytest.mark.unmeasured
def test_it_comes_out_of_another_process(tmp_path):
    """One that cannot be pickled would break the whole pool."""
    file = tmp_path / "file"
    file.touch()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        error = pool.submit(run_broker, file).exception()
    assert isinstance(error, CannotOpen)
    assert str(file) in str(error)


def run_broker(data: Path) -> None:
    async def main() -> None:
        async with zaichik.running_broker(data=data):
            pass

    anyio.run(main)
