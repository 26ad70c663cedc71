"""An option to draw the golden texts anew."""

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/apps/views/golden anew"
    )


@pytest.fixture
def update_golden(request):
    return request.config.getoption("--update-golden", default=False)
