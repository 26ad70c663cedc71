"""zaichik and Spark: topics as data frames, and what compaction does to them, in numbers.

    spark = zaichik.spark.session()
    orders = spark.read.format("zaichik").option("topic", "orders").load()

Needs the extra `spark`, and a Java (see `session`). Reading order: `session`; `options`, `columns`,
`errors`, `reading`; `table`, `narrowing`, `stream` and `writer` (topics as tables and back), which
`source` gives to Spark; `events` (what statistics are made of), `outcomes` (the policy that ran),
`windows` (what another one would do) and its twin `fold`; `carry`, `forgetting` and `live` (the
same while messages come); `sources` and `collecting` (`zaichik stats --master`). What it is good
for: `docs/use/statistics.md`.
"""

from zaichik.base.extras import getting

try:
    from zaichik.apps.spark.session import register, session
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "pyspark":
        raise
    problem = f"zaichik.spark needs PySpark, which is not installed; get it with {getting('spark')}"
    raise ModuleNotFoundError(problem, name=error.name) from None

__all__ = ["register", "session"]
