"""Settings for a Spark with tiny tables: what it does to make large ones fast takes longer than it
saves.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

# Most of the time goes into loading Spark's thousands of classes. So compile them lightly, collect
# garbage on one thread, and believe that they are well-formed: a third less processor time.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}


def configure(folder: Path, settings: Mapping[str, str] = SMALL) -> None:
    """Have programs whose `SPARK_CONF_DIR` is this folder start a Spark with these settings."""
    lines = (f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")


def python(folder: Path) -> str:
    """This Python for Spark's workers, which would import PySpark from a zip, and so compile it,
    every time.

    A worker takes half as long to start, and there are dozens.
    """
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH#*/pyspark.zip:}}" exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return str(script)
