"""Spark's readers of batches, streams and views. All plan on the driver. Batches and streams are read in tasks."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pyspark_zkafka.conditions import UNSUPPORTED_PYSPARK
from pyspark_zkafka.engines import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark_zkafka.model.planning import Split, coalesce
from pyspark_zkafka.model.pushdown import Comparison, Operator, PushedFilters, pushed_filters
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.worker import (
    TaskObject,
    collector_paused,
    concise_errors,
    exit_on_sigterm,
    ignoring_sigterm,
    is_within_pyspark,
    prepared_worker,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from pyspark_zkafka.errors import ZKafkaError
    from pyspark_zkafka.formats.decoding import BatchDecoder, PinnedFormats
    from pyspark_zkafka.read.frame_plans import FramePlan
    from pyspark_zkafka.read.split_reader import Identity
    from pyspark_zkafka.read.stream_driver import StreamDriver
    from pyspark_zkafka.records.consumer import PartitionConsumer
    from pyspark_zkafka.wire.protocol import Unsupported

A = TypeVar("A")
B = TypeVar("B")

_MOST_SERVERS = 10
_NO_ROW_LIMIT = 2**63 - 1
_OPERATORS: dict[str, Operator] = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "In": "in",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
"""Comparisons by the names of Spark's classes, which Spark 4.0 lacks."""


@dataclass(frozen=True)
class SplitPartition(InputPartition):
    """Spark's input partition: splits to read in this order, and bootstrap servers. Pickle-safe.

    `plan` is set if the frame would have more records if it were planned later. If such a frame is empty now, its only
    partition has no splits.
    """

    splits: tuple[Split, ...]
    bootstrap_servers: str
    plan: FramePlan | None = None


@dataclass(frozen=True)
class ViewPartition(InputPartition):
    """The rows of a view. Pickle-safe."""

    rows: pa.RecordBatch
    plan: FramePlan | None


class ZKafkaReader(TaskObject, DataSourceReader):
    """Reader of a batch. Pickle-safe: stores only options and Spark's exact schema, and connects inside each call."""

    def __init__(self, options: ReadOptions, schema: pa.Schema, formats: PinnedFormats | None = None) -> None:
        self._options = options
        self._schema = schema
        self._formats = formats
        self._pushed: PushedFilters | None = None

    @concise_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits, in the order in which Spark runs them. Blocks for a few round trips."""
        with prepared_worker():
            from pyspark_zkafka.read.batch_planner import plan_batch
            from pyspark_zkafka.read.frame_plans import FramePlan
            from pyspark_zkafka.records.select import uses_native

        uses_native(self._options.connection)  # report a missing native path here, not in each task
        if not is_within_pyspark():
            from pyspark_zkafka.records.native.library import require

            require()  # for `lent`
        made = FramePlan.of(self._options)
        with collector_paused() if is_within_pyspark() else nullcontext():
            found = plan_batch(self._options, self._pushed)
        if not found.splits and made is not None:
            return [SplitPartition((), found.bootstrap_servers, made)]
        return [replace(p, plan=made) for p in split_partitions(self._options, found.splits, found.bootstrap_servers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of each split as Arrow batches, in offset order. A partition without splits has no records."""
        with concise_errors():
            if not isinstance(partition, SplitPartition):
                return
            if partition.plan is not None:
                warn_of_old_plan(partition.plan)
            if partition.splits and is_within_pyspark():
                yield from self._read(partition)
            elif partition.splits:
                from pyspark_zkafka.read.lent_batches import lent

                yield from lent(self._read(partition), self._schema)

    def _read(self, partition: SplitPartition) -> Iterator[pa.RecordBatch]:
        with prepared_worker(for_task=True):
            from pyspark_zkafka.brokers.properties import consumer_properties
            from pyspark_zkafka.engines import in_utc
            from pyspark_zkafka.read.split_reader import ReadPolicy, SplitReader
            from pyspark_zkafka.records.select import open_consumer, open_fallback, open_joint, uses_native

        options, connection = self._options, self._options.connection
        uses_native(connection)  # logs the reason if it does not
        policy = ReadPolicy.of(options)
        servers, largest = partition.bootstrap_servers, max(split.size for split in partition.splits)
        properties = consumer_properties(connection, servers, options.client_group, largest, os.environ)
        projection = in_utc(self._schema)
        decoder = self._decoder(projection)
        schema = projection if decoder is None else decoder.raw

        def start(split: Split, opened: ExitStack) -> SplitReader:
            consumer = opened.enter_context(open_consumer(connection, properties, split, schema, joint))
            high_watermark = partial(_high_watermark, split, options, servers) if connection.read_committed else None
            identity = partial(topic_identity, split, options, servers)

            def fall_back(why: Unsupported, offset: int) -> PartitionConsumer:
                return opened.enter_context(open_fallback(connection, properties, split, schema, why, offset))

            reader = SplitReader(split, consumer, policy, identity, high_watermark=high_watermark, fallback=fall_back)
            reader.start()
            return reader

        # If the brokers have not compared a topic, the task compares it once, after its last split.
        last = {split.partition.topic: split for split in partition.splits}
        uncertain = set()
        with (
            collector_paused() if is_within_pyspark() else nullcontext(),
            open_joint(connection, properties, partition.splits) as joint,
            closing(one_ahead(partition.splits, start)) as readers,
            nullcontext() if decoder is None else decoder.reporting(),
        ):
            for split, reader in readers:
                for batch in reader.batches():
                    yield batch if decoder is None else decoder.decode(batch, split.partition)
                topic = split.partition.topic
                if not reader.is_compared:
                    uncertain.add(topic)
                if split is last[topic] and topic in uncertain:
                    reader.compare()

    def _decoder(self, projection: pa.Schema) -> BatchDecoder | None:
        if self._formats is None or self._formats.columns.keys().isdisjoint(projection.names):
            return None
        with prepared_worker(for_task=True):
            from pyspark_zkafka.formats.decoding import BatchDecoder

            return BatchDecoder(self._formats, projection)


class PushdownReader(ZKafkaReader):
    """A batch reader that accepts pushed filters, for Sail, which plans each scan of a frame by itself.

    Spark 4.2 and 4.3 keep only the last pushed plan of a frame. Other queries on the frame would use that plan, and lack
    rows.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the plan. Returns every filter: the engine still evaluates it on the rows."""
        self._pushed = pushed_filters(c for c in map(_comparison, filters) if c is not None)
        return filters


class ZKafkaStreamReader(TaskObject, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a stream. Pickle-safe until its first planning call: it stores only options and Spark's exact schema.

    The planning calls of a query come one after the other, in one process. The first call connects and joins the group.
    `stop` leaves the group.
    """

    def __init__(self, options: StreamOptions, schema: pa.Schema, formats: PinnedFormats | None = None) -> None:
        self._options = options
        self._schema = schema
        self._formats = formats
        self._driver: StreamDriver | None = None

    @concise_errors()
    def initialOffset(self) -> dict[str, Any]:
        """Return the start offset of a new query: `startingOffsets`, by default the group's offsets if there is a group."""
        return self._opened_driver().initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`. The trigger Once requests all records instead."""
        limits = self._options.limits
        if limits.is_unlimited:
            return ReadAllAvailable()
        return ReadMaxRows(_NO_ROW_LIMIT if limits.max_records is None else limits.max_records)

    @concise_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commit the positions in `start`. Returns the end of the next micro-batch, or `start` if there are no records."""
        return self._opened_driver().latest(start, limited=not isinstance(limit, ReadAllAvailable))

    @concise_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the present ends of the logs as the query's end. The limits determine the number of micro-batches."""
        self._opened_driver().fix_bounds()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the logs, for the query's progress."""
        return None if self._driver is None else self._driver.report()

    @concise_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the splits of the micro-batch. They cover the ranges in `end`, whatever has changed since the planning."""
        if start == end:
            return []
        splits, servers = self._opened_driver().splits(end)
        return split_partitions(self._options.read, splits, servers)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of a split as Arrow batches, in offset order."""
        return ZKafkaReader(self._options.read, self._schema, self._formats).read(partition)

    @concise_errors()
    def commit(self, end: dict[str, Any]) -> None:
        """Commit finished positions that `latestOffset` could not commit."""
        self._opened_driver().commit()

    def stop(self) -> None:
        """Leave the group, and close all connections. Blocks for at most some seconds."""
        with ignoring_sigterm():
            if self._driver is not None:
                self._driver.close()
                self._driver = None
                atexit.unregister(self.stop)

    def _opened_driver(self) -> StreamDriver:
        if self._driver is None:
            with prepared_worker():
                from pyspark_zkafka.read.stream_driver import StreamDriver
                from pyspark_zkafka.records.select import uses_native

            uses_native(self._options.read.connection)  # report a missing native path here, not in each task
            exit_on_sigterm()
            self._driver = StreamDriver(self._options)
            atexit.register(self.stop)  # for a SIGTERM before `stop` runs
        return self._driver


class UnlimitedStreamReader(ZKafkaStreamReader):
    """Reader of a stream for Spark 4.0 and 4.1, which pass `latestOffset` neither a start nor a limit.

    Spark requests the next end when a micro-batch is finished. The start is therefore the end of the last micro-batch whose
    partitions Spark has requested. A restarted query first requests the partitions from its last planned end to the same
    end, and then the partitions of that micro-batch if it is not finished. A new query has requested no partitions.
    """

    _last: dict[str, Any] | None = None
    _start: dict[str, Any] | None = None

    @concise_errors()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Commit the positions of the last micro-batch. Returns the end of the next micro-batch, or the last end again."""
        self._start = self.initialOffset() if self._last is None else self._last
        return self._opened_driver().latest(self._start, limited=False)

    @concise_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the splits of the micro-batch; see `ZKafkaStreamReader.partitions`.

        Raises UNSUPPORTED_PYSPARK if a checkpoint's last end comes after a request for the next end: the query looked new.
        """
        if self._last is None and self._start is not None and start == end != self._start:
            raise UNSUPPORTED_PYSPARK(
                "Spark has planned the next micro-batch of this query before it named the last one; set "
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled to false, or use pyspark 4.2 or later"
            )
        self._last = end
        return super().partitions(start, end)

    @concise_errors()
    def commit(self, end: dict[str, Any]) -> None:
        """Commit finished positions. Spark does not request the partitions of a frame that it knows to be empty."""
        self._last = end
        super().commit(end)


class RefusedStream(ZKafkaStreamReader):
    """Stand-in for a stream with refused options. Every planning call raises the error.

    Spark loses an error of `streamReader` itself: it then tries to stop a reader that does not exist, and reports only that
    failure.
    """

    def __init__(self, error: ZKafkaError) -> None:
        self._error = error
        self._driver = None

    @concise_errors()
    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error, in the first call of most queries."""
        raise self._error

    @concise_errors()
    def latestOffset(self, *_: Any) -> dict[str, Any]:
        """Raise the error: the first call of most queries in Spark 4.0 and 4.1, which pass no arguments."""
        raise self._error

    def _opened_driver(self) -> StreamDriver:
        raise self._error


class ViewReader(TaskObject, DataSourceReader):
    """Reader of a view, one of `VIEWS`. Pickle-safe, like `ZKafkaReader`."""

    def __init__(self, view: str, options: ReadOptions, schema: pa.Schema) -> None:
        self._view = view
        self._options = options
        self._schema = schema

    @concise_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition, which contains the rows. Blocks for a few round trips to ZooKeeper or the brokers."""
        with prepared_worker():
            from pyspark_zkafka.model.view_tables import build_view
            from pyspark_zkafka.read.frame_plans import FramePlan
            from pyspark_zkafka.read.view_planner import plan_view

        made = FramePlan.of(self._options)
        return [ViewPartition(build_view(plan_view(self._view, self._options), self._schema), made)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows as one batch."""
        if isinstance(partition, ViewPartition):
            if partition.plan is not None:
                warn_of_old_plan(partition.plan)
            yield partition.rows


def warn_of_old_plan(plan: FramePlan) -> None:
    """Warn if this task belongs to a micro-batch that did not make the plan of the frame."""
    with prepared_worker(for_task=True):
        from pyspark_zkafka.read.frame_plans import PLAN_REUSE, MicroBatch

    PLAN_REUSE.check(plan, MicroBatch.present())


def split_partitions(options: ReadOptions, splits: Iterable[Split], bootstrap_servers: str) -> list[SplitPartition]:
    """Pack splits into Spark's input partitions, in order: one split in each, or several small splits.

    A partition has the leaders of its splits, and the bootstrap servers. If ZooKeeper names many brokers, all partitions
    have the same few brokers instead: Spark pickles each partition, and tasks with equal servers share clients.
    """
    known = bootstrap_servers.split(",")
    are_many = options.connection.bootstrap_servers is None and len(known) > _MOST_SERVERS
    if are_many:
        known = Random(0).sample(known, _MOST_SERVERS)  # most likely from all racks
    joined = cache(lambda leaders: ",".join(dict.fromkeys([*leaders, *known])))
    partitions = []
    for group in coalesce(splits, options.min_records, options.max_records):
        leaders = () if are_many else tuple(endpoint for split in group for endpoint in split.endpoints)
        partitions.append(SplitPartition(group, joined(leaders)))
    return partitions


def one_ahead(items: Iterable[A], start: Callable[[A, ExitStack], B]) -> Generator[tuple[A, B]]:
    """Yield each item with the result of `start`, which is called one item ahead. At most two items are open at once."""
    with ExitStack() as started:
        current: tuple[A, B, ExitStack] | None = None
        for item in items:
            opened = started.enter_context(ExitStack())
            following = item, start(item, opened), opened
            if current is not None:
                yield current[:2]
                current[2].close()
            current = following
        if current is not None:
            yield current[:2]


def _high_watermark(split: Split, options: ReadOptions, servers: str) -> int:
    """Return the end of the log, open transactions included."""
    from pyspark_zkafka.brokers.admin import lease_admin
    from pyspark_zkafka.model.offsets import LATEST

    with lease_admin(servers, options.connection.kafka) as admin:
        return options.retry(time.sleep)(lambda: admin.list_offsets({split.partition: LATEST}))[split.partition]


def topic_identity(split: Split, options: ReadOptions, servers: str) -> Identity:
    """Compare the topic with the planned topic, by its id, or by its znode if the cluster has no ids.

    Several requests confirm a deletion, since a broker that has just started may know no topic. `fetchOffset.numRetries`
    limits the retries of a failed request.
    """
    topic, connection, retry = split.partition.topic, options.connection, options.retry(time.sleep)
    if split.topic_id is not None:
        from pyspark_zkafka.brokers.admin import lease_admin

        with lease_admin(servers, connection.kafka) as admin:
            found = retry.until(lambda ids: topic in ids, lambda: admin.topic_ids([topic]))
        exists, is_same = topic in found, found.get(topic) in (None, split.topic_id)
    elif split.czxid is not None and connection.zookeeper is not None:
        from pyspark_zkafka.zookeeper.snapshots import lease_zookeeper

        with lease_zookeeper(connection.zookeeper) as zookeeper:
            czxid = retry(lambda: zookeeper.czxid(topic))
        exists, is_same = czxid is not None, czxid == split.czxid
    else:
        return "same"
    if not exists:
        return "deleted"
    return "same" if is_same else "created again"


def _comparison(spark_filter: Any) -> Comparison | None:
    operator = _OPERATORS.get(type(spark_filter).__name__)
    if operator is None or len(spark_filter.attribute) != 1:
        return None
    value = tuple(spark_filter.value) if operator == "in" else spark_filter.value
    return Comparison(spark_filter.attribute[0], operator, value)
