"""What the tests of recordings in an object store share."""

import pytest
from small_s3 import small_s3


@pytest.fixture
def s3(monkeypatch):
    """A store with a bucket, and credentials that it does not look at."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with small_s3() as store:
        yield store
