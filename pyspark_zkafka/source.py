"""The data source `zkafka`, as Spark finds it."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["ZKafkaDataSource"]

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class ZKafkaDataSource(DataSource):
    """``spark.read.format("zkafka")`` and ``df.write.format("zkafka")``.

    Options are checked, all at once, when the schema, the reader or the writer is asked for: before any task runs. Imports
    of kazoo and confluent-kafka wait until then, so that finding the source stays cheap and never fails.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The name for ``format``: ``zkafka``."""
        return "zkafka"

    def schema(self) -> str:
        """The columns of Spark's own Kafka source (with headers if asked for), or those of the view."""
        from pyspark_zkafka.options import parse_read
        from pyspark_zkafka.protocol.records import schema_ddl
        from pyspark_zkafka.protocol.view_tables import view_ddl

        options = parse_read(self.options)
        return schema_ddl(options.include_headers) if options.view is None else view_ddl(options.view)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader, of records or of a view, for a projection of the schema."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_zkafka.options import parse_read
        from pyspark_zkafka.protocol.records import require_projection
        from pyspark_zkafka.protocol.view_tables import require_view_projection
        from pyspark_zkafka.reader import PushdownReader, ZKafkaReader
        from pyspark_zkafka.views import ViewReader

        options = parse_read(self.options)
        projection = to_arrow_schema(schema, timezone="UTC")
        if options.view is not None:
            require_view_projection(options.view, projection)
            return ViewReader(options.view, options, projection)
        require_projection(projection)
        reader_class = PushdownReader if _spark_pushes_filters() else ZKafkaReader
        return reader_class(options, projection)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch writer; reads the partitions of the topics, once for all tasks."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_zkafka.errors import OptionError
        from pyspark_zkafka.options import parse_write
        from pyspark_zkafka.protocol.rows import check_columns
        from pyspark_zkafka.writer import ZKafkaWriter, plan_write

        if overwrite:
            raise OptionError(
                "SAVE_MODE",
                'A topic is a log and cannot be overwritten; use .mode("append"), and delete the topic\'s records '
                "first if they are to go",
            )
        options = parse_write(self.options)
        check_columns(to_arrow_schema(schema, timezone="UTC"), options.topic)
        return ZKafkaWriter(options, plan_write(options))


def _spark_pushes_filters() -> bool:
    """Whether the reader is being made by the worker that Spark starts to push filters.

    Spark tells a reader nothing of spark.sql.python.filterPushdown.enabled, and refuses one with pushFilters where that is
    off; but it makes the reader in a module of its own where it is on. If that module is ever renamed, plans are no longer
    narrowed, and nothing else changes.
    """
    spec = sys._getframe(2).f_globals.get("__spec__")
    return spec is not None and spec.name == _PUSHDOWN_WORKER
