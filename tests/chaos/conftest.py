"""What the chaos tests share."""

from pathlib import Path

import pytest
from served import served


@pytest.fixture
def anyio_backend():
    """One is enough: what is tested here is a process of its own, and it does not see which loop its clients run on."""
    return "asyncio"


@pytest.fixture
def broker():
    """A `zaichik serve`, for this test alone."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("what a process holds is read from Linux's /proc")
    with served() as process:
        yield process
