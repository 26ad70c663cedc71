"""`zaichik stats --master`: the same statistics, counted by Spark."""

import os
import re
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zaichik.apps.spark import session
from zaichik.apps.spark.collecting import collect
from zaichik.apps.spark.sources import check, events
from zaichik.apps.statistics.chain import Window
from zaichik.apps.statistics.sources import HeldTopic, Topic, check_all
from zaichik.apps.statistics.truth import Statistics
from zaichik.cli import screen
from zaichik.cli.failure import Failure
from zaichik.client.errors import ZaichikError
from zaichik.client.logins import VARIABLE


def counted_by_spark(
    topics: Sequence[Topic], windows: Sequence[Window], master: str
) -> list[Statistics]:
    """Returns the statistics.

    An error inside Spark becomes one sentence; Java's log has the rest.
    """
    check(topics)
    _pass_login(topics)
    descriptor, name = tempfile.mkstemp(prefix="zaichik-spark-", suffix=".log")
    os.close(descriptor)
    log = Path(name)
    try:
        with (
            screen.on_stderr().status("starting Spark, which takes some seconds") as status,
            _session(master, log) as spark,
            _damage_named(topics),
        ):
            status.update("counting")
            counted = collect(events(spark, topics), topics, windows)
    except (PySparkException, Py4JJavaError) as error:
        raise Failure(f"{_sentence(str(error), log)} (Spark's log: {log})") from error
    except (ZaichikError, KeyboardInterrupt):  # the log has nothing to add
        log.unlink()
        raise
    log.unlink()
    return counted


def _pass_login(topics: Sequence[Topic]) -> None:
    """Have workers on this machine log in as the command does: they inherit its environment.

    No option has a secret.
    """
    broker = next((topic.broker for topic in topics if isinstance(topic, HeldTopic)), None)
    if broker and broker.credentials:
        os.environ[VARIABLE] = broker.line


@contextmanager
def _session(master: str, log: Path) -> Iterator[SparkSession]:
    """Returns a session that ends with the block, unless it was running before."""
    was_running = SparkSession.getActiveSession() is not None
    with _uninterrupted():
        spark = session(master, log=log)
    try:
        yield spark
    finally:
        if not was_running:
            spark.stop()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Defers Ctrl-C to the end of the block: PySpark, interrupted early, leaves Java running."""
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


@contextmanager
def _damage_named(topics: Sequence[Topic]) -> Iterator[None]:
    """If Spark fails on a damaged file, raises an error that names it; Spark's does not."""
    try:
        yield
    except (PySparkException, Py4JJavaError):
        for topic in topics:
            check_all(topic)
        raise


def _sentence(text: str, log: Path) -> str:
    """Returns the sentence for an exception from Spark: our own, or else the innermost one's."""
    if "[JAVA_GATEWAY_EXITED]" in text:  # Java ended while it was starting: only the log says why
        reason = re.search(
            r"^Exception in thread \S+ [\w.]+: (.+)$", log.read_text(errors="replace"), re.MULTILINE
        )
        return reason[1] if reason else "Java ended while Spark was starting"
    ours = re.findall(r"(?:^|: )zaichik\.[\w.]+: (.+)$", text, re.MULTILINE)
    # py4j puts the outermost behind a bare colon.
    causes = re.findall(r"^(?:Caused by)?: (.+)$", text, re.MULTILINE)
    return next((found[-1] for found in (ours, causes) if found), text.strip().partition("\n")[0])
