"""Spark's reader of a view: the cluster's state instead of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.worker import prepared_worker

if TYPE_CHECKING:
    import pyarrow as pa


class ViewPartition(InputPartition):
    """Spark's input partition: all rows of the view, as they were when Spark planned. Pickle-safe."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__(batch)
        self.batch = batch


class ViewReader(DataSourceReader):
    """Reader of a view, one of `VIEWS`. Pickle-safe, as `ZKafkaReader`."""

    def __init__(self, view: str, options: ReadOptions, schema: pa.Schema) -> None:
        self._view = view
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One partition, which contains the rows. Blocks for a few round trips to ZooKeeper, or to the brokers."""
        with prepared_worker():
            from pyspark_zkafka.model.view_tables import build_view
            from pyspark_zkafka.read.view_planner import plan_view

        return [ViewPartition(build_view(plan_view(self._view, self._options), self._schema))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows, as one batch."""
        return iter((partition.batch,) if isinstance(partition, ViewPartition) else ())
