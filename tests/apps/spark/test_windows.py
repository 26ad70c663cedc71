"""What-if by Spark: the walk, the fold and a slow oracle agree on every number."""

import random
from datetime import timedelta

import oracle
import pytest
from oracle import by_policy, random_topics

from zaichik.apps.spark import fold, windows
from zaichik.apps.spark.events import EVENTS
from zaichik.apps.statistics.chain import length_us


@pytest.fixture(scope="module")
def topics():
    return random_topics(60)


@pytest.fixture(scope="module")
def events(spark, topics):
    rows = [
        (
            topic,
            5,
            number,
            event.accepted_us,
            event.key,
            event.hash,
            event.size,
            0,
            None,
            None,
            None,
        )
        for topic, history in topics.items()
        for number, event in enumerate(history)
    ]
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, EVENTS).cache()


LENGTHS_OF_SPARK = [timedelta(microseconds=3), timedelta(microseconds=10), "forever"]


@pytest.mark.parametrize("what_if", [windows.what_if, fold.what_if], ids=["walk", "fold"])
def test_spark_gives_the_oracles_numbers(events, topics, what_if):
    """COM-1: the walk with a shuffle, and its twin in SQL."""
    assert by_policy(what_if(events, LENGTHS_OF_SPARK)) == {
        (topic, *policy): oracle.what_if(history, *policy)
        for topic, history in topics.items()
        for policy in oracle.policies(map(length_us, LENGTHS_OF_SPARK))
    }


def test_without_a_shuffle_where_a_partition_has_all_of_its_keys(events):
    here = windows.what_if(events.coalesce(1), LENGTHS_OF_SPARK, ["first"], partitioned=True)
    shuffled = windows.what_if(events, LENGTHS_OF_SPARK, ["first"])
    shuffles = [
        "RepartitionByExpression" in one._jdf.queryExecution().logical().toString()
        for one in (here, shuffled)
    ]
    assert shuffles == [False, True]
    assert by_policy(here) == by_policy(shuffled)
