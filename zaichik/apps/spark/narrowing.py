"""Filter push-down: what filters on a topic's columns leave out is not read at all.

Spark hands the filters of a query to a data source only if
`spark.sql.python.filterPushdown.enabled` is true, and refuses a data source that can take them if
it is not. So this reader is used on request only: `pushDown=true`. Spark checks each row once more,
so here it is enough never to leave out too much.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from zaichik.apps.spark.archived import position_in, recorded_of
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import Range, state_of
from zaichik.apps.spark.table import TopicReader
from zaichik.client.messages import StartAt

_Compared = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


class NarrowedReader(TopicReader):
    """Reads what filters on topic, offset and timestamp leave."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        # Offsets or times: what comes before one of them is left out.
        self._firsts: list[StartAt] = []
        self._ends: list[StartAt] = []  # what comes at or after one of them

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's)
        """Note what the filters leave out, and hand all of them back."""
        for one in filters:
            if isinstance(one, EqualTo | In) and one.attribute == ("topic",):
                values = {one.value} if isinstance(one, EqualTo) else set(one.value)
                left = tuple(topic for topic in self.options.topics if topic in values)
                self.options = replace(self.options, topics=left or self.options.topics[:1])
            elif isinstance(one, _Compared) and one.attribute in (("offset",), ("timestamp",)):
                self._note(one)
        return filters

    def _note(self, one: _Compared) -> None:
        value = one.value
        if isinstance(value, datetime):
            value = value if value.tzinfo else value.replace(tzinfo=UTC)
        elif not isinstance(value, int):
            return
        if isinstance(one, EqualTo | GreaterThanOrEqual):
            self._firsts.append(value)
        if isinstance(one, GreaterThan):
            self._firsts += _next(value)
        if isinstance(one, LessThan):
            self._ends.append(value)
        if isinstance(one, EqualTo | LessThanOrEqual):
            self._ends += _next(value)

    def wholes(self, client: AnyClient) -> list[Range]:
        """Those of a `TopicReader`, without what is left out."""
        return [self._narrowed(client, whole) for whole in super().wholes(client)]

    def _narrowed(self, client: AnyClient, whole: Range) -> Range:
        state = state_of(client, whole.topic, whole.epoch)
        start = max([whole.start, *self._offsets(client, state, self._firsts)])
        end = min([whole.end, *self._offsets(client, state, self._ends)])
        return replace(whole, start=min(start, whole.end), end=max(end, min(start, whole.end)))

    def _offsets(
        self, client: AnyClient, state: Mapping[str, Any], places: list[StartAt]
    ) -> Iterator[int]:
        for place in places:
            if isinstance(place, int):
                yield place
                continue
            recorded = recorded_of(client, self.options, state)
            yield position_in(client, state, place, self.options, recorded)


def _next(value: int | datetime) -> list[StartAt]:
    """Returns what comes right after an offset or a time.

    After the last time that Python knows, there is none: then nothing is left out.
    """
    if isinstance(value, int):
        return [value + 1]
    try:
        return [value + timedelta(microseconds=1)]
    except OverflowError:
        return []
