"""A program that logs in at a broker, and prints all that Spark shows of it: for a test that looks
for the token there.

    python secretive.py ADDRESS TOKEN-FILE FOLDER

It reads, writes, streams and fails, with the token in the workers' environment and in a file.
Spark's event log and the logs of its Java are in the folder.
"""

import json
import sys
from pathlib import Path
from urllib.request import urlopen

from small import SMALL

from zaichik.apps.spark.session import session


def pages(url: str) -> list[str]:
    """Returns what the UI says, as JSON and as pages."""
    api = f"{url}/api/v1/applications"
    found = [get(api)]
    one = f"{api}/{json.loads(found[0])[0]['id']}"
    parts = (
        "environment",
        "jobs",
        "stages?details=true",
        "sql?details=true&planDescription=true",
        "allexecutors",
    )
    found += [get(f"{one}/{part}") for part in parts]
    numbers = [query["id"] for query in json.loads(get(f"{one}/sql"))]
    places = ("jobs/", "stages/", "environment/", "executors/", "SQL/")
    return found + [
        get(f"{url}/{place}") for place in (*places, *(f"SQL/execution/?id={n}" for n in numbers))
    ]


def get(url: str) -> str:
    """Returns what is there."""
    with urlopen(url) as answer:  # noqa: S310 (it is Spark's own)
        return answer.read().decode()


if __name__ == "__main__":
    address, file, folder = sys.argv[1:]
    settings = {
        "spark.executorEnv.ZAICHIK_TOKEN": Path(file).read_text(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    (Path(folder) / "events").mkdir()
    spark = session("local[2]", config=SMALL | settings, log=Path(folder) / "java.log")
    for login in ({}, {"tokenFile": file}):
        options = {"broker": address} | login
        table = spark.read.format("zaichik").options(**options).load("t")
        table.explain(mode="extended")
        print("rows:", sorted(bytes(row.payload) for row in table.select("payload").collect()))
        table.select("key", "payload").write.format("zaichik").options(**options).mode(
            "append"
        ).save("copy")
        stream = spark.readStream.format("zaichik").options(**options).load("copy")
        query = stream.writeStream.format("noop").option(
            "checkpointLocation", f"{folder}/checkpoint{len(login)}"
        )
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        running.explain(extended=True)
        print(running.lastProgress, running.status)
        try:
            spark.read.format("zaichik").options(**options).load("missing").collect()
        except Exception as error:
            print(repr(error), error)
    try:
        spark.read.format("zaichik").option("broker", address).option("tokenFile", "/nowhere").load(
            "t"
        ).collect()
    except Exception as error:
        print(repr(error), error)
    print("pages:", *pages(spark.sparkContext.uiWebUrl))
    spark.stop()
