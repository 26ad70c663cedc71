"""Statistics where Spark's default file system is an object store: S3, here one of this machine's
memory (`moto`).

Hadoop's `s3a://` comes in no Python package. Spark fetches it from Maven Central, of the version
that it has the rest of, and keeps it in the home directory: 700 MB, of which nearly all is Amazon's
own client.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
import s3_statistics
from small import JAVA
from test_recipes import TEXT

from zaichik.apps.spark.session import find_java

pytestmark = pytest.mark.cluster

GUARD = 600  # seconds after which what hangs has failed
BUCKET = "zaichik"
FETCH = """
from zaichik.apps.spark.session import session

print(session("local[1]").sparkContext.getConf().get("spark.jars"))
"""


def run(environment, *command):
    """A Python program's end."""
    return subprocess.run(
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """For programs: a Java, and a folder with the settings that `configure` writes."""
    folder = tmp_path_factory.mktemp("settings")
    ours = {
        "JAVA_HOME": str(find_java().home),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return os.environ | ours


def configure(environment, **settings):
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf").write_text("".join(lines))


@pytest.fixture(scope="module")
def jars(environment):
    """Hadoop's client of S3 and what it needs."""
    (hadoop,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = hadoop.stem.rpartition("-")[2]
    package = f"org.apache.hadoop:hadoop-aws:{version}"
    assert package in TEXT, "the document names the version that fits"
    configure(environment, **{"spark.jars.packages": package})
    done = run(environment, "-c", FETCH)
    if "[unresolved dependency:" in done.stderr or "[download failed:" in done.stderr:
        pytest.skip(f"hadoop-aws {version} cannot be fetched from Maven Central")
    assert done.returncode == 0, done.stderr
    return [jar.removeprefix("file://") for jar in done.stdout.split()[-1].split(",")]


@pytest.fixture(scope="module")
def store():
    """An S3 with an empty bucket: a client, and its address."""
    # Not above: each process of the suite would import them, and this file's tests run in none.
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    keys = {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "region_name": "us-east-1",
    }
    client = boto3.client("s3", endpoint_url=address, **keys)
    client.create_bucket(Bucket=BUCKET)
    yield client, address
    client.close()
    server.stop()


@pytest.fixture
def names(store, jars, environment, tmp_path):
    """Have Spark's default file system be the store; what lies in it, when called."""
    client, address = store
    configure(
        environment,
        **{
            "spark.driver.extraClassPath": os.pathsep.join(jars),
            "spark.driver.extraJavaOptions": JAVA,
            "spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri(),
            "spark.hadoop.fs.defaultFS": f"s3a://{BUCKET}",
            "spark.hadoop.fs.s3a.endpoint": address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "test",
            "spark.hadoop.fs.s3a.secret.key": "test",
        },
    )
    return lambda: [
        item["Key"] for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    ]


def test_statistics_of_a_stream_are_kept_in_the_store(broker, environment, names, tmp_path):
    """And go on from there in a second query: the numbers are the broker's."""
    broker.create("orders", compaction_window=600, journal=2**20)
    folder = tmp_path / "live"  # without a scheme
    done = run(environment, s3_statistics.__file__, broker.address, str(folder))
    assert done.returncode == 0, done.stderr
    found = {
        (row["window_us"], row["winner"]): row for row in json.loads(done.stdout.splitlines()[-1])
    }
    (counters,) = broker.topics("orders")
    for row in (found[0, "first"], found[3600 * 10**6, "first"]):
        assert (
            [row["messages"], row["kept"]]
            == [counters["published"], counters["stored"]]
            == [100, 7]
        )
    assert len(found) == 5
    where = str(folder).removeprefix("/")
    assert {f"{where}/policies.json", f"{where}/state/3/sums.json"} <= set(names())
    assert not folder.exists()


def test_recordings_on_this_machine_are_found_all_the_same(broker, environment, names, tmp_path):
    broker.create("orders", compaction_window=600, journal=2**20)
    broker.publish("orders", [(b"%d" % (n % 7), b"x") for n in range(50)])
    folder = tmp_path / "recording"
    recorded = run(
        environment,
        "-m",
        "zaichik",
        "record",
        "$journal/orders",
        "--into",
        folder,
        "--connect",
        broker.address,
    )
    assert recorded.returncode == 0, recorded.stderr
    words = ["-m", "zaichik", "stats", str(folder), "--windows", "1h", "--json"]
    alone, by_spark = run(environment, *words), run(environment, *words, "--master", "local[2]")
    assert (by_spark.returncode, by_spark.stderr) == (0, "")
    assert json.loads(by_spark.stdout) == json.loads(alone.stdout)
