"""Statistics of a stream in two runs of its query, more messages between them: a program with a
Java of its own.

    python s3_statistics.py BROKER FOLDER

Where the folder is, Spark's settings say. What it prints is JSON: the sums of the policy that ran,
and those of the windows.
"""

import json
import sys
from datetime import timedelta

from small import SMALL

from zaichik.apps.spark import live
from zaichik.apps.spark.events import from_journal
from zaichik.apps.spark.session import session
from zaichik.client import blocking
from zaichik.client.endpoint import endpoint
from zaichik_protocol import Batch

if __name__ == "__main__":
    broker, folder = sys.argv[1:]
    spark = session("local[2]", config=SMALL)
    options = {"broker": broker, "topic": "$journal/orders", "maxMessagesPerTrigger": "30"}
    for half in range(2):
        with blocking.connect(endpoint(broker)) as client:
            numbers = range(half * 50, half * 50 + 50)
            client.publish_batch(
                "orders", Batch.of([(b"%d" % (n % 7), b"%d" % (n // 10)) for n in numbers])
            )
        stream = spark.readStream.format("zaichik").options(**options).load()
        counting = live.writer(from_journal(stream), folder, [timedelta(hours=1), "forever"])
        counting.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps([row.asDict() for row in live.sums(spark, folder).collect()]))
