"""What docs/use/statistics.md says of three queries is what they say.

The third says what the broker says.
"""

import re
from pathlib import Path

import oracle
import pytest
from oracle import Event

from zaichik.apps.demo.departures import read_departures

TEXT = (Path(__file__).parents[3] / "docs" / "use" / "statistics.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
ANSWERS = [int(answer.replace(",", "")) for answer in re.findall(r"It says ([\d,]+)", TEXT)]


@pytest.fixture(scope="module")
def january():
    return [
        Event(one.scheduled_us, one.tail and one.tail.encode(), 0, 0)
        for one in read_departures(days=31)
    ]


def test_the_three_queries_say_what_the_document_says(spark, january):
    rows = [(number, event.accepted_us, event.key) for number, event in enumerate(january)]
    spark.createDataFrame(
        rows, "position long, accepted_us long, key binary"
    ).createOrReplaceTempView("events")
    assert [spark.sql(query).collect()[0][0] for query in QUERIES] == ANSWERS


def test_the_third_is_what_the_broker_stores(january):
    topic, _ = oracle.of_broker([event for event in january if event.key], 6 * 3_600_000_000)
    assert topic.retained.ring.next_offset == ANSWERS[2]
