"""The data source `zkafka`: Spark's entry point, and a factory of readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_zkafka.worker import concise_errors, is_called_by, is_within_pyspark, prepared_worker

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from pyspark_zkafka.formats.decoding import PinnedFormats
    from pyspark_zkafka.options.values import ReadOptions, WriteOptions

_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
_COMMIT_WORKER = "pyspark.sql.worker.python_streaming_sink_runner"


class ZKafkaDataSource(DataSource):
    """``format("zkafka")`` of ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

    All options are checked when Spark requests the schema, the reader or the writer, before any task runs. kazoo and
    confluent-kafka are imported only then, because Spark looks the source up in every application.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format``: ``zkafka``."""
        return "zkafka"

    _pinned: PinnedFormats | None = None

    @concise_errors()
    def __init__(self, options: dict[str, str]) -> None:
        """Refuse a Spark that is too old."""
        from pyspark_zkafka.engines import require_pyspark

        require_pyspark()
        super().__init__(options)

    @concise_errors()
    def schema(self) -> StructType | pa.Schema:
        """Return the columns of Spark's own Kafka source (with headers if requested), or the view's columns.

        With formats, finds the schemas of the decoded columns. Spark pickles this object afterwards, so that readers use
        the same schemas even if the registry has later ones.
        """
        from pyspark_zkafka.engines import engine_schema
        from pyspark_zkafka.model.records import frame_schema
        from pyspark_zkafka.model.view_tables import VIEWS
        from pyspark_zkafka.options.stream import parse_either

        options = parse_either(self.options)
        if options.view is not None:
            return engine_schema(VIEWS[options.view].schema)
        pinned = self._pin(options)
        if pinned is None:
            return engine_schema(frame_schema(options.include_headers))
        from pyspark_zkafka.formats.decoding import decoded_schema

        return engine_schema(decoded_schema(pinned, options.include_headers))

    def _pin(self, options: ReadOptions, declared: Collection[str] | None = None) -> PinnedFormats | None:
        """Find the schemas of the decoded columns, unless `schema` has found them already. Return None without formats."""
        if self._pinned is None and options.formats is not None:
            from pyspark_zkafka.formats.decoding import pin_formats

            self._pinned = pin_formats(options, declared)
        return self._pinned

    @concise_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a batch reader of records or of a view, for a projection of the schema."""
        with prepared_worker():
            from pyspark_zkafka.engines import arrow_schema, in_utc
            from pyspark_zkafka.model.records import require_projection
            from pyspark_zkafka.model.view_tables import require_view_projection
            from pyspark_zkafka.options.batch import parse_read
            from pyspark_zkafka.read.readers import PushdownReader, ViewReader, ZKafkaReader

            options = parse_read(self.options)
            wanted = arrow_schema(schema)
            projection = in_utc(wanted)
        if options.view is not None:
            require_view_projection(options.view, projection)
            return ViewReader(options.view, options, wanted)
        pinned = self._pin(options, projection.names)
        require_projection(projection, *_decoded(pinned, projection))
        reader_class = ZKafkaReader if is_within_pyspark() else PushdownReader
        return reader_class(options, wanted, pinned)

    @concise_errors()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a streaming reader for a projection of the schema. The reader connects when Spark first plans with it."""
        with prepared_worker():
            from pyspark_zkafka.engines import HAS_READ_LIMITS, arrow_schema, require_read_limits, require_spark
            from pyspark_zkafka.errors import ZKafkaError
            from pyspark_zkafka.model.records import require_projection
            from pyspark_zkafka.options.stream import parse_stream
            from pyspark_zkafka.read.readers import RefusedStream, UnlimitedStreamReader, ZKafkaStreamReader

        try:
            require_spark(schema, "Streams", "read a batch with spark.read, or run the stream on Spark")
            options = parse_stream(self.options)
            require_read_limits(self.options)
            projection = arrow_schema(schema)
            pinned = self._pin(options.read, projection.names)
            require_projection(projection, *_decoded(pinned, projection))
        except ZKafkaError as error:
            if not is_called_by(_PLANNER):
                raise
            return RefusedStream(error)
        reader_class = ZKafkaStreamReader if HAS_READ_LIMITS else UnlimitedStreamReader
        return reader_class(options, projection, pinned)

    @concise_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make a batch writer. Reads the partitions of the topics once for all tasks."""
        with prepared_worker():
            from pyspark_zkafka.write.plan import plan_write
            from pyspark_zkafka.write.writers import ZKafkaWriter

            options, frame = self._write_options(schema, overwrite=overwrite, is_stream=False)
        return ZKafkaWriter(options, plan_write(options, frame))

    @concise_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make a writer of one micro-batch.

        Spark requests one writer to write the micro-batch, and a second writer, from a separate module, to commit or abort
        it. Only the first writer needs a plan. If Spark renames that module, the second writer is planned unnecessarily.
        """
        with prepared_worker():
            from pyspark_zkafka.write.plan import plan_write
            from pyspark_zkafka.write.writers import ZKafkaStreamWriter

            options, frame = self._write_options(schema, overwrite=overwrite, is_stream=True)
        if is_called_by(_COMMIT_WORKER):
            return ZKafkaStreamWriter(options, None)
        return ZKafkaStreamWriter(options, plan_write(options, frame, is_stream=True))

    def _write_options(self, schema: StructType, *, overwrite: bool, is_stream: bool) -> tuple[WriteOptions, pa.Schema]:
        from pyspark_zkafka.engines import arrow_schema, in_utc, require_spark
        from pyspark_zkafka.model.rows import check_columns
        from pyspark_zkafka.options.batch import parse_append

        if is_stream:
            require_spark(schema, "Streams", "write a batch with df.write, or run the stream on Spark")
        options = parse_append(self.options, overwrite=overwrite, is_stream=is_stream)
        if options.once is not None:
            require_spark(
                schema, "Exactly-once writes", "write with deliveryGuarantee=at-least-once, or run the write on Spark"
            )
        frame = in_utc(arrow_schema(schema))
        check_columns(frame, options.topic, [] if options.formats is None else [c.column for c in options.formats.columns])
        return options, frame


def _decoded(pinned: PinnedFormats | None, declared: pa.Schema) -> tuple[dict[str, pa.DataType | None], bool]:
    """Return two arguments of `require_projection`: decoded columns' types, and whether corrupt columns are allowed."""
    return ({}, False) if pinned is None else (pinned.projected(declared), pinned.has_corrupt_columns)
