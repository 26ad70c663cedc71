"""What users of Spark see of the errors that happen to everybody: a sentence, and near the top."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest
from pyspark.errors import PySparkException

from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client.errors import ConnectFailed

GUARD = 300  # seconds after which what hangs has failed
NOWHERE = "127.0.0.1:1"
PROGRAM = """
import sys
import zaichik.spark

spark = zaichik.spark.session("local[1]")
table = spark.read.format("zaichik").option("broker", sys.argv[1])
print(table.load("t").count())
table.load("other").count()
"""
CASES = {
    "no broker": ({"broker": NOWHERE}, "no broker answers at 127.0.0.1:1"),
    "no topic": ({"topic": "other"}, "there is no topic 'other'; see: zaichik topics"),
    "restarted": ({"epoch": "1"}, "t is another topic than the one that was read before"),
    "gone": ({"start": "2"}, "2 messages of t are gone (offsets 2 to 3)"),
    "no option": ({"strat": "2"}, "there is no option strat"),
}


@pytest.fixture
def options(broker):
    """Of a topic that has the offsets 4 to 7."""
    broker.create("t", capacity=4)
    for _ in range(2):
        broker.publish("t", [(None, b"%d" % number) for number in range(4)])
    return {"broker": broker.address, "topic": "t"}


def said(failing):
    """The text of the error, which is what a program shows last."""
    with pytest.raises(PySparkException) as caught:
        failing()
    return str(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_a_table_says_it_in_the_first_line(options, spark, case):
    given, sentence = CASES[case]
    text = said(spark.read.format("zaichik").options(**options | given).load().count)
    assert sentence in text.splitlines()[0]
    assert "Traceback" not in text


@pytest.mark.parametrize("case", ["no broker", "no topic", "restarted", "gone"])
def test_a_stream_says_it_in_the_first_line(options, spark, case, tmp_path):
    given, sentence = CASES[case]
    stream = spark.readStream.format("zaichik").options(**options | given).load()
    writer = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )
    text = said(writer.start().awaitTermination)
    assert sentence in text.splitlines()[0]
    assert "Traceback" not in text


def test_a_task_says_it_in_the_second_line(options, spark):
    table = spark.createDataFrame([("x",)], "payload string")
    writer = table.write.format("zaichik").mode("append").options(broker=NOWHERE)
    text = said(lambda: writer.save("t"))
    assert "no broker answers at 127.0.0.1:1" in text.splitlines()[1]


def test_functions_of_ones_own_keep_their_traceback(options, spark):
    """Also in the same query, and after an error of ours."""

    def divided(batches):
        for batch in batches:
            yield batch.slice(0, 1 // 0)

    said(spark.read.format("zaichik").options(**options | {"strat": "2"}).load().count)
    text = said(
        spark.read.format("zaichik").options(**options).load().mapInArrow(divided, MESSAGES).count
    )
    assert "in divided" in text
    assert "ZeroDivisionError" in text


@pytest.mark.parametrize(
    ("program", "hidden"), [("pyspark.daemon", "1"), ("notebook.app", None), (None, None)]
)
def test_nothing_is_hidden_in_ones_own_process(monkeypatch, program, hidden):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that it is restored
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", program and ModuleSpec(program, None))
    with pytest.raises(ConnectFailed):
        ZaichikSource({"broker": NOWHERE, "topic": "t"}).reader(MESSAGES).partitions()
    assert os.environ.get("SPARK_HIDE_TRACEBACK") == hidden


@pytest.mark.cluster
def test_a_program_ends_with_the_sentence(options, unactivated):
    """On the terminal: below the lines that lead to it.

    The program runs where no virtual environment is activated.
    """
    command = [sys.executable, "-c", PROGRAM, options["broker"]]
    done = subprocess.run(command, env=unactivated, capture_output=True, text=True, timeout=GUARD)
    assert (done.returncode, done.stdout) == (1, "4\n")
    assert any(
        "there is no topic 'other'; see: zaichik topics" in line
        for line in done.stderr.splitlines()[-3:]
    )
    assert done.stderr.count("Traceback") == 1, "the program's own"
