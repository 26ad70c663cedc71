"""The recipes of docs/statistics.md are run as they stand there."""

import re
from pathlib import Path

from deltalake import DeltaTable

TEXT = (Path(__file__).parent.parent.parent / "docs" / "statistics.md").read_text(encoding="utf-8")


def recipe(title):
    """The code below a title."""
    return re.search(rf"\*\*{title}\*\*.*?```python\n(.*?)```", TEXT, re.DOTALL)[1]


def test_a_delta_table_has_each_message_once(broker, spark, tmp_path):
    """Also those of a micro-batch that Spark repeats, because it has not noted that it was finished."""
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
