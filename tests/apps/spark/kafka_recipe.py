"""Runs a recipe of docs/use/statistics.md that needs Spark's connector for Kafka, as a program.

    python kafka_recipe.py JARS FOLDER BROKER KAFKA TITLE

It is run twice; between both, Spark forgets that it has finished its last micro-batch.
"""

import sys
from pathlib import Path

from small import SMALL
from test_recipes import recipe

from zaichik.apps.spark.session import session

jars, folder, broker, kafka, title = sys.argv[1:]
checkpoint = Path(folder) / "checkpoint"
config = SMALL | {"spark.jars": jars, "spark.sql.warehouse.dir": folder}
# Else each record's class is looked for in vain.
config["spark.sql.codegen.wholeStage"] = "true"
spark = session("local[2]", config=config, log=Path(folder) / "spark.log")
names = {"spark": spark, "broker": broker, "kafka": kafka, "checkpoint": str(checkpoint)}
exec(recipe(title), dict(names))  # noqa: S102 (our own document)
for note in (checkpoint / "commits").iterdir():
    note.unlink()
exec(recipe(title), dict(names))  # noqa: S102 (our own document)
spark.stop()
