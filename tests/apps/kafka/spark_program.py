"""Spark's own Kafka source and sink: a topic as a table, as a stream, and written.

    python spark_program.py PORT JARS FOLDER

It prints one JSON object.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

port, jars, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.warehouse.dir", folder)
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
kafka = {"kafka.bootstrap.servers": f"127.0.0.1:{port}"}
source = kafka | {"subscribe": "read", "startingOffsets": "earliest"}

table = spark.read.format("kafka").options(**source).load()
rows = table.selectExpr("CAST(value AS STRING) AS value", "offset")
found = {"rows": rows.count(), "last": rows.agg({"offset": "max"}).first()[0]}

stream = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger=400).load()
out = str(Path(folder) / "out")
query = (
    stream.selectExpr("offset")
    .writeStream.format("parquet")
    .option("path", out)
    .option("checkpointLocation", str(Path(folder) / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
offsets = [row.offset for row in spark.read.parquet(out).collect()]
found["streamed"] = [len(offsets), len(set(offsets)), max(offsets)]
found["batches"] = len(query.recentProgress)

written = spark.range(100).selectExpr(
    "CAST(id AS STRING) AS key", "CAST(id * id AS STRING) AS value"
)
written.write.format("kafka").options(**kafka, topic="written").save()
spark.stop()
print(json.dumps(found))
