"""The data source `zkafka`: Spark's entry point, and factory of readers and writers."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_zkafka.worker.collector import freeze_imports

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["ZKafkaDataSource"]

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_COMMIT_WORKER = "pyspark.sql.worker.python_streaming_sink_runner"


class ZKafkaDataSource(DataSource):
    """``format("zkafka")`` of ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

    Options are checked, all at once, when Spark requests the schema, the reader or the writer: before any task runs. kazoo
    and confluent-kafka are imported only then, so that looking up the source stays cheap and never fails.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The name for ``format``: ``zkafka``."""
        return "zkafka"

    def schema(self) -> str:
        """The columns of Spark's own Kafka source (with headers if requested), or those of the view."""
        from pyspark_zkafka.options.stream import parse_either
        from pyspark_zkafka.protocol.records import schema_ddl
        from pyspark_zkafka.protocol.view_tables import view_ddl

        options = parse_either(self.options)
        return schema_ddl(options.include_headers) if options.view is None else view_ddl(options.view)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader, of records or of a view, for a projection of the schema."""
        freeze_imports()
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_zkafka.batch.reader import PushdownReader, ZKafkaReader
        from pyspark_zkafka.options.batch import parse_read
        from pyspark_zkafka.protocol.records import require_projection
        from pyspark_zkafka.protocol.view_tables import require_view_projection
        from pyspark_zkafka.views.reader import ViewReader

        freeze_imports()
        options = parse_read(self.options)
        projection = to_arrow_schema(schema, timezone="UTC")
        if options.view is not None:
            require_view_projection(options.view, projection)
            return ViewReader(options.view, options, projection)
        require_projection(projection)
        reader_class = PushdownReader if _spark_pushes_filters() else ZKafkaReader
        return reader_class(options, projection)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming reader for a projection of the schema; opens no connection before Spark plans with it."""
        freeze_imports()
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_zkafka.options.stream import parse_stream
        from pyspark_zkafka.protocol.records import require_projection
        from pyspark_zkafka.stream.reader import ZKafkaStreamReader

        options = parse_stream(self.options)
        projection = to_arrow_schema(schema, timezone="UTC")
        require_projection(projection)
        return ZKafkaStreamReader(options, projection)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch writer; reads the partitions of the topics, once for all tasks."""
        freeze_imports()
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_zkafka.errors import OptionError
        from pyspark_zkafka.options.batch import parse_write
        from pyspark_zkafka.protocol.rows import check_columns
        from pyspark_zkafka.write.batch_writer import ZKafkaWriter
        from pyspark_zkafka.write.task import plan_write

        if overwrite:
            raise OptionError(
                "SAVE_MODE",
                'A topic is a log and cannot be overwritten; use .mode("append"), and delete the topic\'s records '
                "first if they are to be replaced",
            )
        options = parse_write(self.options)
        check_columns(to_arrow_schema(schema, timezone="UTC"), options.topic)
        freeze_imports()
        return ZKafkaWriter(options, plan_write(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer of one micro-batch.

        Spark requests one to write it, which needs a plan, and another to commit or abort it, from a separate module. If
        that module is ever renamed, the second one is planned, too, and nothing else changes.
        """
        freeze_imports()
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_zkafka.protocol.rows import check_columns
        from pyspark_zkafka.write.stream_writer import ZKafkaStreamWriter, parse_stream_write
        from pyspark_zkafka.write.task import plan_write

        options = parse_stream_write(self.options, overwrite=overwrite)
        check_columns(to_arrow_schema(schema, timezone="UTC"), options.topic)
        freeze_imports()
        return ZKafkaStreamWriter(options, None if _made_by(_COMMIT_WORKER) else plan_write(options))


def _spark_pushes_filters() -> bool:
    """True if the caller is the worker that Spark starts to push filters.

    Spark does not pass spark.sql.python.filterPushdown.enabled to a reader, and refuses one with pushFilters where that is
    off; but it creates the reader from a separate module where it is on. If that module is ever renamed, plans are no
    longer narrowed, and nothing else changes.
    """
    return _made_by(_PUSHDOWN_WORKER)


def _made_by(worker: str) -> bool:
    """True if the given module of a Spark worker is on the call stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        spec = frame.f_globals.get("__spec__")
        if spec is not None and spec.name == worker:
            return True
        frame = frame.f_back
    return False
