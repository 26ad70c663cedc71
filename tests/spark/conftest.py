"""What the tests of Spark share: one session, because it takes ten seconds to start, and a broker."""

import pytest
from embedded import embedded_broker
from small import SMALL, python

from zaichik.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session on two cores. Its log is in pytest's folder, not among the tests' output."""
    folder = tmp_path_factory.mktemp("spark")
    config = SMALL | {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    with pytest.MonkeyPatch.context() as monkeypatch:
        # Spark gives up on a worker that has not started after ten seconds, and one that is measured starts slowly.
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        monkeypatch.setenv("PYSPARK_PYTHON", python(folder))
        spark = session("local[2]", config=config, log=folder / "spark.log")
    yield spark
    spark.stop()


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker
