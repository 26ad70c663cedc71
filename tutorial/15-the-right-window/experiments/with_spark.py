"""The same three counts, asked of Spark."""

import sys

import pandas as pd
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

WINDOWS = (1_000, 10_000, 60_000, 600_000)

builder = SparkSession.builder.master("local[1]")
builder.config("spark.ui.showConsoleProgress", "false")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
events = spark.read.csv(sys.argv[1], schema="at long, key string, p string")
total = events.count()

for window in WINDOWS:
    bucket = f.floor(f.col("at") / window)
    buckets = total - events.select("key", bucket).distinct().count()

    before = f.lag("at").over(Window.partitionBy("key").orderBy("at"))
    gaps = events.select((f.col("at") - before).alias("gap"))

    def walk(rows: pd.DataFrame) -> pd.DataFrame:
        """Of one key: how many a window drops."""
        end, dropped = 0, 0
        for at in sorted(rows["at"]):
            if at < end:
                dropped += 1
            else:
                end = at + window  # noqa: B023 (it's called in this round)
        return pd.DataFrame({"dropped": [dropped]})

    walked = events.groupBy("key").applyInPandas(walk, "dropped long")
    counts = (
        buckets,
        gaps.where(f.col("gap") < window).count(),
        walked.agg(f.sum("dropped")).first()[0],
    )
    print(f"{window // 1000:4} s  " + "  ".join(f"{n:6}" for n in counts))
