"""What docs/use/archive.md shows of other programs is run as it stands there."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from embedded import embedded_broker

from zaichik.apps.recording.recorder import record
from zaichik.client import blocking

PAGE = (Path(__file__).parents[3] / "docs" / "use" / "archive.md").read_text(encoding="utf-8")


def recipe(program):
    """The code that begins with the import of a program."""
    return re.search(rf"```python\n(import {program}\n.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def archive(tmp_path):
    """Two epochs of the topic orders, of which a part was recorded twice; 25 messages."""
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        broker.create("orders")
        broker.publish("orders", [(b"alice", b"%d" % number) for number in range(10)])
        record(client, "orders", tmp_path)
        (first,) = tmp_path.rglob("*-0-10.parquet")
        epoch = first.name.partition("-")[0]
        (first.parent / f"{epoch}-0-9.parquet").write_bytes(first.read_bytes())
        broker.delete("orders")
        broker.create("orders")
        broker.publish("orders", [(b"bob", b"%d" % number) for number in range(15)])
        record(client, "orders", tmp_path)
    return str(tmp_path)


def test_duckdb_counts_each_message_once(archive, capsys):
    pytest.importorskip("duckdb", reason="the recipe for DuckDB needs it")
    exec(recipe("duckdb"), {"archive": archive})  # noqa: S102 (our own document)
    shown = capsys.readouterr().out
    assert re.search(r"\b25\b", shown)
    assert re.search(r"alice.*9", shown)
    assert re.search(r"bob.*14", shown)


def test_duckdb_finds_the_epochs_of_files_that_have_no_such_column(archive):
    duckdb = pytest.importorskip("duckdb", reason="the recipe for DuckDB needs it")
    query = re.search(r"```sql\n(.*?)```", PAGE, re.DOTALL)[1]
    query = query.replace("recording/", f"{archive}/")
    (first,) = Path(archive).rglob("*-0-10.parquet")
    wanted = duckdb.sql(query).order('epoch, "offset", payload').fetchall()
    pq.write_table(pq.read_table(first).drop_columns(["epoch"]), first)
    assert duckdb.sql(query).order('epoch, "offset", payload').fetchall() == wanted


def test_polars_counts_each_message_once(archive, capsys):
    pytest.importorskip("polars", reason="the recipe for Polars needs it")
    exec(recipe("polars"), {"archive": archive})  # noqa: S102 (our own document)
    assert capsys.readouterr().out == "25\n"
