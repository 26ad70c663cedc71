"""A topic and its recording in S3, read by a Spark with a Java of its own: a program.

    python archived_s3.py BROKER ARCHIVE FOLDER

What it prints is JSON: the rows and distinct offsets of the table, and those of a stream.
"""

import json
import sys

from small import SMALL

from zaichik.apps.spark.session import session

if __name__ == "__main__":
    broker, archive, folder = sys.argv[1:]
    spark = session("local[2]", config=SMALL)
    options = {"broker": broker, "archive": archive, "maxMessagesPerTrigger": "40"}
    table = spark.read.format("zaichik").options(**options).load("t")
    stream = spark.readStream.format("zaichik").options(**options).load("t")
    writing = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/c")
    writing.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
    counts = []
    for rows in (table, spark.read.parquet(f"{folder}/out")):
        offsets = [row["offset"] for row in rows.select("offset").collect()]
        counts.append([len(offsets), len(set(offsets))])
    print(json.dumps(counts))
