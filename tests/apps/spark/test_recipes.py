"""The recipes of docs/use/statistics.md are run as they stand there."""

import re
import shutil
from pathlib import Path

from deltalake import DeltaTable

TEXT = (Path(__file__).parents[3] / "docs" / "use" / "statistics.md").read_text(encoding="utf-8")


def recipe(title):
    """The code below a title."""
    return re.search(rf"\*\*{title}\*\*.*?```python\n(.*?)```", TEXT, re.DOTALL)[1]


def test_a_delta_table_has_each_message_once(broker, spark, tmp_path):
    """Also those of a micro-batch that Spark repeats, because it has not noted that it was
    finished.
    """
    broker.create("orders")
    names = {
        "spark": spark,
        "broker": broker.address,
        "table": str(tmp_path / "table"),
        "checkpoint": str(tmp_path / "c"),
    }
    for number in range(2):
        broker.publish("orders", [("k", b"%d" % number), (None, b"x")])
        exec(recipe("A Delta table"), dict(names))  # noqa: S102 (our own document)
        for note in (tmp_path / "c" / "commits").iterdir():
            note.unlink()
    rows = DeltaTable(names["table"]).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["offset"], row["key"], row["payload"]) for row in rows] == [
        (0, b"k", b"0"), (1, None, b"x"), (2, b"k", b"1"), (3, None, b"x"),
    ]  # fmt: skip


def test_a_delta_table_has_both_histories_if_the_checkpoint_is_new(broker, spark, tmp_path):
    """A new checkpoint numbers its micro-batches from 0 again: they are those of another query."""
    names = {"spark": spark, "broker": broker.address, "table": str(tmp_path / "table")}
    for history, micro_batches in ((b"first", 3), (b"second", 2)):
        broker.create("orders")
        names["checkpoint"] = str(tmp_path / f"checkpoint-{history.decode()}")
        for number in range(micro_batches):
            broker.publish("orders", [(history, b"%d" % number)])
            exec(recipe("A Delta table"), dict(names))  # noqa: S102 (our own document)
        broker.delete("orders")
    rows = DeltaTable(names["table"]).to_pyarrow_table().to_pylist()
    assert sorted((row["key"], row["payload"]) for row in rows) == [
        (b"first", b"0"), (b"first", b"1"), (b"first", b"2"), (b"second", b"0"), (b"second", b"1"),
    ]  # fmt: skip


def test_a_copied_checkpoint_is_the_same_query_to_a_delta_table(broker, spark, tmp_path):
    """What the document warns of: a micro-batch whose number the table knows is passed over."""
    broker.create("orders")
    names = {"spark": spark, "broker": broker.address, "table": str(tmp_path / "table")}

    def run(checkpoint):
        exec(recipe("A Delta table"), names | {"checkpoint": str(tmp_path / checkpoint)})  # noqa: S102 (our own document)

    broker.publish("orders", [(None, b"0")])
    run("one")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    broker.publish("orders", [(None, b"1")])
    run("one")
    broker.publish("orders", [(None, b"2")])
    run("copy")  # its second micro-batch has both
    rows = DeltaTable(names["table"]).to_pyarrow_table().to_pylist()
    assert sorted(row["payload"] for row in rows) == [b"0", b"1"]
