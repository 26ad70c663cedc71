"""gRPC's library runs on asyncio only, and what it catches it logs."""

import logging

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_goes_wrong_unseen(caplog):
    """What our code or the library's logs as an error would be seen by nobody."""
    yield
    errors = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.levelno >= logging.ERROR
    ]
    assert errors == []
