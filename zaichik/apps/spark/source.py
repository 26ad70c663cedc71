"""`format("zaichik")`: the class that Spark is given.

It makes the readers and writers that do the work.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from zaichik.apps.spark.columns import CHANGES, MESSAGES
from zaichik.apps.spark.current import CurrentReader
from zaichik.apps.spark.errors import without_traceback
from zaichik.apps.spark.following import FollowingStreamReader
from zaichik.apps.spark.narrowing import NarrowedReader
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.stream import TopicStreamReader
from zaichik.apps.spark.table import TopicReader
from zaichik.apps.spark.writer import CannotWrite, TopicStreamWriter, TopicWriter


class ZaichikSource(DataSource):
    """The class that Spark instantiates for `format("zaichik")`; its options: `options`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "zaichik"

    def schema(self) -> StructType:
        """The columns, unless the user names others."""
        if self.options.get("table") == "changes":
            return CHANGES
        return MESSAGES

    @without_traceback()
    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = Options.of(self.options)
        if options.table == "latest":
            return CurrentReader(options, schema)
        if options.push_down:
            return NarrowedReader(options, schema)
        return TopicReader(options, schema)

    @without_traceback()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        """For `spark.readStream`."""
        options = Options.of(self.options, follows=True)
        if options.pattern:
            return FollowingStreamReader(options, schema)
        return TopicStreamReader(options, schema)

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 (Spark's)
        """For `df.write`."""
        if overwrite:
            raise CannotWrite('what a topic has cannot be overwritten; .mode("append") adds to it')
        return TopicWriter(Options.of(self.options, needs_topic=False), schema)

    @without_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 (Spark's)
        """For `df.writeStream`."""
        if overwrite:
            raise CannotWrite(
                'what a topic has cannot be overwritten; .outputMode("append") adds to it'
            )
        return TopicStreamWriter(Options.of(self.options, needs_topic=False), schema)
