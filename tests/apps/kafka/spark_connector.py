"""Spark's own source and sink for Kafka: files of Maven Central."""

from pathlib import Path

from benchmarks.obtain import downloaded, kafka_jars

# SHA-256 and path on Maven Central.
CONNECTOR = "org/apache/spark/spark-token-provider-kafka-0-10_2.13"
SPARK = (
    (
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
        "org/apache/spark/spark-sql-kafka-0-10_2.13/4.2.0/spark-sql-kafka-0-10_2.13-4.2.0.jar",
    ),
    (
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
        f"{CONNECTOR}/4.2.0/spark-token-provider-kafka-0-10_2.13-4.2.0.jar",
    ),
    (
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
        "org/apache/commons/commons-pool2/2.12.1/commons-pool2-2.12.1.jar",
    ),
)


def connector_jars() -> list[Path]:
    """Returns the files, for `spark.jars`, after downloading those that are missing.

    Raises:
        Unobtainable: one cannot be had.
    """
    clients = [path for path in kafka_jars() if path.name.startswith("kafka-clients")]
    return [*(downloaded(*pair) for pair in SPARK), *clients]
