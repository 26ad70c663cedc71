"""The original's own example programs, unchanged, against the gateway.

`make test-legacy ORIGINAL=/path/to/its/clone` runs them, if its examples are built there.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from original import gateway

pytestmark = pytest.mark.unmeasured  # the same bytes as in test_session.py

ORIGINAL = os.environ.get("ORIGINAL", "")
SECONDS = (
    3.0  # after which an example that still runs would wait for ever: it needs a few milliseconds
)
RESULT = 'Result is Publish {{ topic: "hello", key: Some("{}"), payload: {} }}'
KEY1, KEY2 = RESULT.format("key1", list(b"message")), RESULT.format("key2", list(b"message1"))


@pytest.fixture
def port() -> Iterator[int]:
    """Of a gateway with a broker of its own, in another thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(gateway()) as running:
        yield running.port


@pytest.fixture
def example(port):
    """Run an example; the results it printed, and whether it came to its end."""
    if not ORIGINAL:
        pytest.skip(
            "there is no ORIGINAL=/path/to/a/clone of the original, with its examples built"
        )

    def run(name: str) -> tuple[list[str], bool]:
        program = Path(ORIGINAL) / "target" / "debug" / "examples" / name
        assert program.exists(), "ORIGINAL has no such file: its examples aren't built there"
        process = subprocess.Popen(
            [program], env=os.environ | {"PORT": str(port)}, stdout=subprocess.PIPE, text=True
        )
        try:
            ended = process.wait(SECONDS) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            ended = False
        return [
            line for line in process.communicate()[0].splitlines() if line.startswith("Result")
        ], ended

    return run


def test_echo(example):
    assert example("echo") == ([RESULT.format("key", list(b"message"))], True)


def test_retention(example):
    assert example("retention") == ([KEY1], True)


def test_compaction(example):
    """It subscribes over one connection while it publishes over another.

    If it is too late, it waits for ever.
    """
    assert example("compaction") in [([KEY1, KEY2], True), ([KEY2], False), ([], False)]
