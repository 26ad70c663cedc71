"""What the tests of Spark share: one session, because it takes ten seconds to start, and a broker."""

import pytest
from embedded import embedded_broker

from zaichik.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session on two cores. Its log is in pytest's folder, not among the tests' output."""
    folder = tmp_path_factory.mktemp("spark")
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # The tables are tiny: what Spark and Java do to make large ones fast takes longer than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    spark = session("local[2]", config=config, log=folder / "spark.log")
    yield spark
    spark.stop()


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker
