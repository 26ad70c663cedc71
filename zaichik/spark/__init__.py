"""zaichik and Spark: topics as data frames, and what compaction does to them, in numbers.

    spark = zaichik.spark.session()
    orders = spark.read.format("zaichik").option("topic", "orders").load()

Needs the extra `spark`, and a Java (see `session`). Reading order: `session`, `columns` (from the wire to Arrow),
`source` and `stream` (reading), `writer`, `events` (what statistics are made of), `outcomes` (the policy that ran),
`windows` (what another one would do) and its twin `fold`.
"""

from zaichik.spark.session import register, session

__all__ = ["register", "session"]
