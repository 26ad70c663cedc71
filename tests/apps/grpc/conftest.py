"""gRPC's library runs on asyncio only."""

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"
