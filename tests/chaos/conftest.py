"""What the chaos tests share."""

from pathlib import Path

import pytest
from served import served


@pytest.fixture(params=[pytest.param("asyncio", marks=pytest.mark.unmeasured)])
def anyio_backend(request):
    """One is enough: what is tested here is a process of its own, and it does not see which loop
    its clients run on.

    It is not measured, as it runs nothing that the tests of the broker do not run, and is to run at
    its own speed.
    """
    return request.param


@pytest.fixture
def broker():
    """A `zaichik serve`, for this test alone."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("what a process holds is read from Linux's /proc")
    with served() as process:
        yield process
