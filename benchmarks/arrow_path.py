"""A Python data source without Kafka, which shows how fast Spark moves Arrow batches of the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from benchmarks.cluster import Topic
from benchmarks.shapes import SHAPES
from pyspark_zkafka.engines import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark_zkafka.worker import TaskObject, prepared_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH = 10_000
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(_HEADER),
}
_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_WITH_HEADERS = f"{_COLUMNS}, headers array<struct<key: string, value: binary>>"


def read(spark: SparkSession, topic: Topic, *, value_only: bool) -> DataFrame:
    """Return as many generated records as the topic has, of its shape."""
    spark.dataSource.register(MadeUp)
    columns, options = described(topic, "value binary" if value_only else "")
    return spark.read.format("made_up").schema(columns).options(**options).load()


def stream(spark: SparkSession, topic: Topic, per_trigger: int) -> DataFrame:
    """Return the records as a stream, with this many per micro-batch."""
    spark.dataSource.register(MadeUp)
    columns, batches = _columns(topic), max(1, -(-sum(topic.ends) // per_trigger))
    reader = spark.readStream.format("made_up").schema(columns)
    return reader.options(**_options(topic, columns), batches=str(batches)).load()


def repeat(frame: DataFrame, folder: Path, partitions: int) -> DataFrame:
    """Return a frame of as many rows as this one, which repeats its first rows."""
    frame.sparkSession.dataSource.register(Repeated)
    records, sample = frame.count(), stored_sample(frame, folder)
    ends = ",".join([str(records // partitions)] * partitions)
    return frame.sparkSession.read.format("repeated").schema(frame.schema).options(sample=str(sample), ends=ends).load()


def stored_sample(frame: DataFrame, folder: Path) -> Path:
    """Write a frame's first rows to a file for `Repeated`, with the types that Sail derives from the columns."""
    sample = folder / "sample.arrow"
    table = frame.limit(_BATCH).toArrow()
    table = table.cast(pa.schema([column.with_type(_type_on_sail(column.type)) for column in table.schema]))
    with pa.ipc.new_file(sample, table.schema) as file:
        file.write_table(table)
    return sample


def _type_on_sail(type: pa.DataType) -> pa.DataType:
    """Return the type with Arrow's own name for the elements of a list, and with UTC."""
    if pa.types.is_list(type):
        return pa.list_(type.value_type)
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(type) else type


def described(topic: Topic, columns: str = "") -> tuple[str, dict[str, str]]:
    """Return the columns and options of `MadeUp` for as many records as the topic has, of its shape."""
    columns = columns or _columns(topic)
    return columns, _options(topic, columns)


def write(frame: DataFrame) -> None:
    """Take all rows as Arrow batches and discard them."""
    frame.sparkSession.dataSource.register(MadeUp)
    frame.write.format("made_up").mode("append").save()


def _columns(topic: Topic) -> str:
    return _WITH_HEADERS if topic.has_headers else _COLUMNS


def _options(topic: Topic, columns: str) -> dict[str, str]:
    return {"shape": topic.shape, "ends": ",".join(map(str, topic.ends)), "columns": columns}


class MadeUp(DataSource):
    """Generates batches to read, and discards written ones."""

    @classmethod
    def name(cls) -> str:
        return "made_up"

    def schema(self) -> str:
        return str(self.options["columns"])

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(self.options["shape"], self._ends(), schema.names)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _StreamReader(self.options["shape"], self._ends(), schema.names, int(self.options["batches"]))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer()

    def _ends(self) -> list[int]:
        return [int(end) for end in self.options["ends"].split(",")]


class Repeated(DataSource):
    """Reads the rows of a file as often as needed."""

    @classmethod
    def name(cls) -> str:
        return "repeated"

    def reader(self, schema: Any) -> DataSourceReader:
        return _RepeatingReader(self.options["sample"], [int(end) for end in self.options["ends"].split(",")])


class _RepeatingReader(TaskObject, DataSourceReader):
    def __init__(self, sample: str, ends: Sequence[int]) -> None:
        self._sample = sample
        self._ends = ends

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(end) for end in self._ends]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with prepared_worker(for_task=True):
            batch = _rows_of(self._sample)
        yield from _slices(batch, partition.value)


class _Reader(TaskObject, DataSourceReader):
    def __init__(self, shape: str, ends: Sequence[int], columns: Sequence[str]) -> None:
        self._shape = shape
        self._ends = ends
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(end) for end in self._ends]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._shape, self._columns, partition.value)


class _StreamReader(TaskObject, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream with a fixed number of micro-batches, each with its share of every partition, planned without requests."""

    def __init__(self, shape: str, ends: Sequence[int], columns: Sequence[str], batches: int) -> None:
        self._shape = shape
        self._ends = ends
        self._columns = columns
        self._count = batches

    def initialOffset(self) -> dict[str, int]:
        return {"batches": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"batches": min(start["batches"] + 1, self._count)}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        begin, until = start["batches"], end["batches"]
        return [InputPartition(e * until // self._count - e * begin // self._count) for e in self._ends]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._shape, self._columns, partition.value)


def _batches(shape: str, columns: Sequence[str], records: int) -> Iterator[pa.RecordBatch]:
    with prepared_worker(for_task=True):
        batch = _made_up(shape, tuple(columns))
    yield from _slices(batch, records)


def _slices(batch: pa.RecordBatch, records: int) -> Iterator[pa.RecordBatch]:
    for begin in range(0, records, _BATCH):
        yield batch.slice(0, min(records - begin, _BATCH))


@lru_cache(maxsize=4)
def _rows_of(sample: str) -> pa.RecordBatch:
    with pa.ipc.open_file(sample) as file:
        return file.read_all().combine_chunks().to_batches()[0]


class _Writer(TaskObject, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


@lru_cache(maxsize=4)
def _made_up(shape: str, columns: tuple[str, ...]) -> pa.RecordBatch:
    pool = SHAPES[shape].pool()
    values: dict[str, Any] = {
        "key": [record.key for record in pool],
        "value": [record.value for record in pool],
        "topic": [shape] * len(pool),
        "partition": [0] * len(pool),
        "offset": range(len(pool)),
        "timestamp": [1_700_000_000_000_000] * len(pool),
        "timestampType": [0] * len(pool),
        "headers": [[{"key": name, "value": value} for name, value in record.headers or ()] for record in pool],
    }
    return pa.RecordBatch.from_pydict({name: pa.array(values[name], _TYPES[name]) for name in columns})
