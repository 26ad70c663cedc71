"""What the tests of Spark share: a broker, and one session, which takes ten seconds to start."""

import logging
import os
import sys
from pathlib import Path

import pytest
from embedded import embedded_broker
from small import SMALL, configure, python

from zaichik.apps.spark.session import find_java, session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session on two cores. Its log is in pytest's folder, not among the tests' output."""
    # Else it writes into the logs of later tests.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    folder = tmp_path_factory.mktemp("spark")
    config = SMALL | {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    with pytest.MonkeyPatch.context() as monkeypatch:
        # Spark gives up on a worker that has not started after ten seconds, and one that is
        # measured starts slowly.
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        monkeypatch.setenv("PYSPARK_PYTHON", python(folder))
        spark = session("local[2]", config=config, log=folder / "spark.log")
    yield spark
    spark.stop()


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        yield broker


@pytest.fixture
def unactivated(monkeypatch, tmp_path):
    """The environment of a program whose virtual environment is not activated: `python3` is another
    one's.
    """
    for name in (
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYSPARK_PYTHON",
        "PYSPARK_DRIVER_PYTHON",
        "COVERAGE_PROCESS_CONFIG",
    ):
        monkeypatch.delenv(name, raising=False)
    folders = [f"{sys.base_prefix}/bin", "/usr/bin", "/bin"]
    assert str(Path(sys.executable).parent) not in folders, "tests run in a virtual environment"
    path, java = os.pathsep.join(folders), str(find_java().home)
    configure(tmp_path)
    small = {"SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    return os.environ | {"PATH": path, "JAVA_HOME": java} | small
