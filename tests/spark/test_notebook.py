"""A notebook in a kernel of its own, started where no virtual environment is activated: the recipe of the document."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from small import SMALL
from test_recipes import TEXT, recipe

from zaichik.spark.session import find_java

pytestmark = pytest.mark.unmeasured  # nothing that other tests do not run

GUARD = 300  # seconds after which what hangs has failed
OTHER_SESSION = f"""
from pyspark.sql import SparkSession

import zaichik.spark

other = SparkSession.builder.master("local[1]").config(map={SMALL!r}).getOrCreate()
zaichik.spark.register(other)
"""


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """As on a machine whose `python3` is another: this one's own, of which the virtual environment was made."""
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    folders = [f"{sys.base_prefix}/bin", "/usr/bin", "/bin"]
    assert str(Path(sys.executable).parent) not in folders, "tests run in a virtual environment"
    return os.environ | {
        "PATH": os.pathsep.join(folders),
        "JAVA_HOME": str(find_java().home),
        "IPYTHONDIR": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_a_notebook_shows_what_the_document_says(broker, environment, tmp_path):
    """And before that, in a session whose workers have another Python, one sentence."""
    broker.create("orders")
    broker.publish("orders", [(b"alice", b"%d apples" % number) for number in (1, 1, 1, 2, 2, 2, 3, 3, 3)])
    wrong = new_code_cell(OTHER_SESSION, metadata={"tags": ["raises-exception"]})
    stopped = new_code_cell(f"other.stop()\nbroker = {broker.address!r}")
    book = new_notebook(cells=[wrong, stopped, new_code_cell(recipe("A notebook"))])
    client = NotebookClient(book, timeout=GUARD, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute(env=environment)
    nbformat.validate(book)
    refused = next(output for output in wrong.outputs if output.output_type == "error")
    assert refused.ename == "WrongPython"
    assert f"set PYSPARK_PYTHON to {sys.executable}" in refused.evalue
    shown = next(output for output in book.cells[-1].outputs if output.output_type == "execute_result")
    said = TEXT[TEXT.index("**A notebook**") :].partition("```text\n")[2].partition("```")[0]
    assert shown.data["text/plain"].split() == said.split()
