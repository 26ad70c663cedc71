"""A notebook in a kernel of its own, started where no virtual environment is activated: the recipe
of the document.
"""

import sys

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from test_recipes import TEXT, recipe

pytestmark = pytest.mark.cluster  # processes of their own, which takes long

GUARD = 300  # seconds after which what hangs has failed
OTHER_SESSION = """
from pyspark.sql import SparkSession

import zaichik.spark

other = SparkSession.builder.master("local[1]").getOrCreate()
zaichik.spark.register(other)
"""


def test_a_notebook_shows_what_the_document_says(broker, unactivated, monkeypatch, tmp_path):
    """And before that, in a session whose workers have another Python, one sentence."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    broker.create("orders")
    broker.publish(
        "orders", [(b"alice", b"%d apples" % number) for number in (1, 1, 1, 2, 2, 2, 3, 3, 3)]
    )
    wrong = new_code_cell(OTHER_SESSION, metadata={"tags": ["raises-exception"]})
    stopped = new_code_cell(f"other.stop()\nbroker = {broker.address!r}")
    book = new_notebook(cells=[wrong, stopped, new_code_cell(recipe("A notebook"))])
    client = NotebookClient(
        book, timeout=GUARD, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute(env=unactivated | {"IPYTHONDIR": str(tmp_path)})
    nbformat.validate(book)
    refused = next(output for output in wrong.outputs if output.output_type == "error")
    assert refused.ename == "WrongPython"
    assert f"set PYSPARK_PYTHON to {sys.executable}" in refused.evalue
    shown = next(
        output for output in book.cells[-1].outputs if output.output_type == "execute_result"
    )
    said = TEXT[TEXT.index("**A notebook**") :].partition("```text\n")[2].partition("```")[0]
    assert shown.data["text/plain"].split() == said.split()
