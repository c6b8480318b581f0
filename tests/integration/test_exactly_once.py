"""Exactly-once writes that are repeated, renamed, or made where Spark does not pass the micro-batch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.ledger import QueryName
from pyspark_zkafka.tools.ledger import delete_ledger, read_ledgers
from tests.support.numbered_rows import fill_numbered, numbers
from tests.support.slot_tasks import IN_TRANSACTION, SlotJob, SlotQuery, once, open_entry, rows
from tests.support.stream import run_to_end

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster
    from pyspark_zkafka.write.rows import Written

pytestmark = pytest.mark.server

NewTopic = Callable[..., str]


# --- named jobs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jobs:
    """Named batch jobs that write to one topic."""

    cluster: LocalCluster
    topic: str

    def job(self, number: int, **more: str) -> SlotJob:
        """Return a run of a job."""
        options = {"zookeeper.connect": self.cluster.zookeeper_connect, "topic": self.topic, "writerName": self.topic}
        return SlotJob({**options, "batchId": str(number), **more})

    def written(self) -> Counter[int]:
        """Return how often a reader of committed records finds each row."""
        return numbers(self.cluster.bootstrap_servers, self.topic)


@pytest.fixture
def jobs(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Jobs:
    """Jobs without any write."""
    return Jobs(zkafka_cluster, new_topic(partitions=2))


def test_named_job_that_is_run_again(jobs: Jobs) -> None:
    """A repeated run of a named job with the same number writes only missing rows, even after a complete run."""
    jobs.job(7).write(range(5))
    for expected in (5, 10):
        again = jobs.job(7)
        found = [again.write(range(slot * 5, slot * 5 + 5), slot=slot) for slot in (0, 1)]
        assert sum(task.repeated for task in found) == expected
    assert jobs.written() == once(range(10))


def test_named_jobs_in_order(jobs: Jobs) -> None:
    """The next number is a new job; a lower number than the last is refused, since its rows are unknown."""
    jobs.job(7).write(range(5))
    jobs.job(8).write(range(5, 10))
    for slot in (0, 1):
        with pytest.raises(LedgerError, match=r"CHECKPOINT_ROLLED_BACK.*batchId is lower.*another writerName"):
            jobs.job(7).write(range(5), slot=slot)
    assert jobs.written() == once(range(10))


def test_named_job_without_its_ledger(jobs: Jobs) -> None:
    """A job whose ledger was deleted is written again, even by a worker that wrote it before."""
    for _ in range(2):
        jobs.job(7).write(range(5))
        with GroupAdmin(jobs.cluster.bootstrap_servers, {}) as brokers:
            for ledger in read_ledgers(brokers, [f"zkafka-writer.{jobs.topic}"]).values():
                delete_ledger(brokers, ledger, force=True)
    assert jobs.written() == dict.fromkeys(range(5), 2)


def test_name_of_two_writes(jobs: Jobs, new_topic: NewTopic) -> None:
    """A write to another topic under a job's name and number is refused: each write needs its own name."""
    for _ in range(2):  # the second run waits until the first one's entry is complete
        jobs.job(7).write(range(5))
    with pytest.raises(LedgerError, match=rf"LEDGER_MOVED.*zkafka-writer.{jobs.topic} \(topic {jobs.topic}\)"):
        jobs.job(7, topic=new_topic()).write(range(5))


# --- rows that move within a run, and checkpoints that are copied -------------------------------------------------------


@pytest.fixture
def moving(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> SlotQuery:
    """A streaming query whose slots 0 and 1 have written micro-batch 0 in this process."""
    made = SlotQuery({"kafka.bootstrap.servers": zkafka_cluster.bootstrap_servers, "topic": new_topic(partitions=2)})
    for slot in (0, 1):
        made.write(0, rows([slot]), slot)
    return made


def test_retry_without_rows(moving: SlotQuery) -> None:
    """A task that committed rows, and has none when Spark tries it again, stops the moving."""
    moving.write(1, rows([2]))
    with pytest.raises(LedgerError, match=r"ROWS_DIFFER.*Slot 0 of batch 1 was written before, with 1 rows.*Now it has 0"):
        moving.write(1, [], attempt=1)


def test_repeated_stage_without_rows(moving: SlotQuery) -> None:
    """Where a task cannot know of an earlier attempt, the driver finds its entry before the micro-batch is complete.

    Spark numbers attempts anew when it repeats a stage, and the first attempt does not know of its copy.
    """
    moving.write(1, rows([2]))
    moving.commit(1, moving.write(1, rows([3]), slot=1), moving.write(1, [], slot=2))
    found = moving.write(1, [])
    with pytest.raises(LedgerError, match=r"ROWS_DIFFER.*Slot 0 of batch 1 was written before, with 1 rows.*Now it has 0"):
        moving.commit(1, found)


def test_many_slots_without_rows(moving: SlotQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads all groups of slots without rows at once.

    It waits some time for an entry in an open transaction, which may be a killed task's, and then reads without it.
    """
    written = moving.write(1, rows([2]))
    empty = [moving.write(1, [], slot) for slot in range(1, 40)]
    waits: list[bool] = []
    read = GroupAdmin.committed_metadata

    def note(admin: GroupAdmin, *asked: Any, stable: bool) -> Any:
        waits.append(stable)
        return read(admin, *asked, stable=stable)

    monkeypatch.setattr(GroupAdmin, "committed_metadata", note)
    monkeypatch.setattr("pyspark_zkafka.write.plan._COMPLETION_S", 1.0)
    moving.commit(1, written, *empty)
    assert waits == [True]
    with open_entry(moving.options, QueryName("zkafka", moving.query), slot=9, width=2):
        waits.clear()
        moving.commit(1, written, *empty)
        assert waits == [True, False]
        moving.write(1, [], slot=9, attempt=1)
    moving.write(1, rows([9]), slot=9)
    with pytest.raises(LedgerError, match=r"ROWS_DIFFER.*Slot 9 of batch 1 was written before, with 1 rows"):
        moving.commit(1, written, *empty)


def test_copied_checkpoint(moving: SlotQuery, zkafka_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run finds that a copy of its checkpoint has written rows, and stops before it writes them again."""
    monkeypatch.setattr("pyspark_zkafka.write.exactly_once._seen", Remembered())
    moving.write(0, rows([0]), slot=0)
    with monkeypatch.context() as another_process:
        another_process.setattr("pyspark_zkafka.write.exactly_once._seen", Remembered())
        for slot in (0, 1):
            moving.write(0, rows([slot]), slot, run="of the copy")
        moving.write(0, rows([2]), slot=2, run="of the copy")
    with pytest.raises(LedgerError, match=r"CHECKPOINT_SHARED.*batch 0 for slot 0 from another run"):
        moving.write(1, rows([2]))
    assert moving.options.topic is not None
    assert numbers(zkafka_cluster.bootstrap_servers, moving.options.topic) == once(range(3))


# --- inputs, threads and options -----------------------------------------------------------------------------------------


def test_input_that_fails(spark: SparkSession, jobs: Jobs) -> None:
    """A task whose input fails between two Arrow batches commits nothing, and the repeated job writes each row once."""

    def write(most: int) -> None:
        def some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            left = most
            for batch in batches:
                left -= batch.num_rows
                if left < 0:
                    raise ValueError("the input fails")
                yield batch

        frame = spark.range(0, 40_000, 1, 1).selectExpr("CAST(id AS string) AS value").mapInArrow(some, "value string")
        options = {"zookeeper.connect": jobs.cluster.zookeeper_connect, "topic": jobs.topic, "writerName": jobs.topic}
        exactly_once = {"deliveryGuarantee": "exactly-once", "batchId": "7"}
        frame.write.format("zkafka").mode("append").options(**options, **exactly_once).save()

    with pytest.raises(Exception, match="the input fails"):
        write(30_000)
    write(40_000)
    assert jobs.written() == once(range(40_000))


@pytest.mark.long
def test_two_runs_of_a_job(jobs: Jobs) -> None:
    """Of two concurrent runs of a job with different layouts, one finds the other's rows and commits nothing."""
    late = jobs.job(7, **{"kafka.transaction.timeout.ms": "30000", "kafka.delivery.timeout.ms": "30000"})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(range(1000 * IN_TRANSACTION))
        jobs.job(7).write(range(1000 * IN_TRANSACTION), slot=1)

    with pytest.raises(LedgerError, match=r"LAYOUT_CHANGED.*Slot 0 of batch 7.*slot\(s\) 1.*run the job again"):
        late.write_batches(batches())
    assert jobs.written() == once(range(1000 * IN_TRANSACTION))


def test_topic_created_again(jobs: Jobs, new_topic: NewTopic) -> None:
    """A job's rows are written again after their topic was recreated, although the job's ledger has survived."""
    more = {"ledgerTopic": new_topic(partitions=2)}
    for expected in (0, 5):
        assert jobs.job(7, **more).write(range(5)).repeated == expected
    jobs.cluster.delete_topic(jobs.topic)
    jobs.cluster.create_topic(jobs.topic, partitions=2)
    for expected in (0, 5):
        assert jobs.job(7, **more).write(range(5)).repeated == expected
    assert jobs.written() == once(range(5))


# --- renamed queries ---------------------------------------------------------------------------------------------------


@pytest.fixture
def query(zookeeper: dict[str, str], new_topic: NewTopic) -> SlotQuery:
    """A streaming query without any write."""
    return SlotQuery({**zookeeper, "topic": new_topic(partitions=2)})


@pytest.mark.parametrize("option", ["transactionalIdPrefix", "writerName", "ledgerTopic", "topic"])
def test_renamed_in_a_micro_batch(
    zkafka_cluster: LocalCluster, query: SlotQuery, zookeeper: dict[str, str], new_topic: NewTopic, option: str
) -> None:
    """A query renamed during an interrupted micro-batch fails; renamed back, it completes the batch and may be renamed."""
    other = new_topic()
    topic = query.options.topic or ""
    renamed = SlotQuery({**zookeeper, "topic": topic, option: other}, query.query)
    query.write(0, rows(range(5)), slot=0)
    query.write(0, rows(range(5)), slot=0, run="run-1b")  # waits until the first run's entry is complete
    for slot in (0, 1):
        with pytest.raises(LedgerError, match="LEDGER_MOVED"):
            renamed.write(0, rows(range(5)), slot=slot, run="run-2")
    assert query.write(0, rows(range(5)), slot=0, run="run-3").repeated == 5
    query.write(0, rows(range(5, 10)), slot=1, run="run-3")
    renamed.write(1, rows(range(10, 15)), slot=0, run="run-4")
    written = numbers(zkafka_cluster.bootstrap_servers, topic)
    written += numbers(zkafka_cluster.bootstrap_servers, other)
    assert written == once(range(15))


def test_short_timeout(zkafka_cluster: LocalCluster, query: SlotQuery, zookeeper: dict[str, str]) -> None:
    """A task with a short transaction time-out waits for the other slot's task."""
    short = {"kafka.transaction.timeout.ms": "8000", "kafka.delivery.timeout.ms": "8000"}
    impatient = SlotQuery({**zookeeper, "topic": query.options.topic or "", **short}, query.query)
    impatient.write(0, rows(range(5)), slot=0)
    found: list[Written] = []

    def write() -> None:
        found.append(impatient.write(0, rows(range(5, 10)), slot=1, run="run-2"))

    waiting = threading.Thread(target=write)
    waiting.start()
    waiting.join(1)
    assert waiting.is_alive()
    assert impatient.write(0, rows(range(5)), slot=0, run="run-2").repeated == 5
    waiting.join(30)
    assert found
    assert numbers(zkafka_cluster.bootstrap_servers, query.options.topic or "") == once(range(10))


def test_group_of_a_huge_width(zkafka_cluster: LocalCluster, query: SlotQuery) -> None:
    """A foreign group named like a ledger group with billions of partitions is reported by name at once."""
    hostile = f"zkafka-{query.query}.slots-9999999999-0"
    with Consumer({"bootstrap.servers": zkafka_cluster.bootstrap_servers, "group.id": hostile}) as consumer:
        consumer.commit(offsets=[TopicPartition(query.options.topic or "", 0, 1)], asynchronous=False)
    with pytest.raises(LedgerError, match=rf"UNREADABLE_LEDGER.*Group {hostile}"):
        query.write(0, rows(range(5)), slot=1)


# --- foreachBatch ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """A query that copies 100 numbered rows in one micro-batch by foreachBatch."""

    spark: SparkSession
    cluster: LocalCluster
    source: str
    sink: str
    checkpoint: Path

    def run(self, function: Callable[[DataFrame, int], None]) -> None:
        """Run the query once, to the end of the source."""
        reader = self.spark.readStream.format("zkafka").option("zookeeper.connect", self.cluster.zookeeper_connect)
        frame = reader.options(subscribe=self.source, startingOffsets="earliest").load().select("key", "value")
        writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(self.checkpoint))
        run_to_end(writer.trigger(availableNow=True).start, timeout_s=120)

    def write(self, frame: DataFrame, **options: Any) -> None:
        """Write a frame exactly once."""
        writer = frame.write.format("zkafka").option("zookeeper.connect", self.cluster.zookeeper_connect)
        once = {"topic": self.sink, "deliveryGuarantee": "exactly-once", **options}
        writer.options(**once).mode("append").save()

    def written(self) -> Counter[int]:
        """Return how often a reader of committed records finds each row."""
        return numbers(self.cluster.bootstrap_servers, self.sink)


@pytest.fixture
def copy(spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path) -> Copy:
    """A query that has not run yet."""
    made = Copy(spark, zkafka_cluster, new_topic(partitions=2), new_topic(partitions=2), tmp_path)
    fill_numbered(zkafka_cluster, made.source, range(100), 2)
    return made


def in_a_thread(spark: SparkSession, call: Callable[[], None]) -> None:
    """Call a function in a new thread with an active session; raises its error."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            spark.createDataFrame([], "id int")  # Spark finds Python data sources through the thread's active session
            call()
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@pytest.mark.long
def test_threads_in_foreach_batch(copy: Copy) -> None:
    """In a thread of foreachBatch, an unnamed write is refused; a named and numbered write is recognised when repeated."""

    def unnamed(frame: DataFrame, number: int) -> None:
        in_a_thread(copy.spark, lambda: copy.write(frame))

    def named(frame: DataFrame, number: int) -> None:
        in_a_thread(copy.spark, lambda: copy.write(frame, writerName=copy.sink, batchId=number))

    def named_and_fails(frame: DataFrame, number: int) -> None:
        named(frame, number)
        raise RuntimeError("injected")

    with pytest.raises(StreamingQueryException, match=r"\[UNNAMED_WRITE\].*Set writerName"):
        copy.run(unnamed)
    assert not copy.written()
    with pytest.raises(StreamingQueryException, match="injected"):
        copy.run(named_and_fails)
    copy.run(named)
    assert copy.written() == once(range(100))


@pytest.mark.long
def test_named_in_a_micro_batch(copy: Copy) -> None:
    """A write may not get its name and number during an interrupted micro-batch, but may before the next one."""

    def unnamed_and_fails(frame: DataFrame, number: int) -> None:
        copy.write(frame)
        raise RuntimeError("injected")

    def named(frame: DataFrame, number: int) -> None:
        in_a_thread(copy.spark, lambda: copy.write(frame, writerName=f"{copy.sink}-audit", batchId=number))

    with pytest.raises(StreamingQueryException, match="injected"):
        copy.run(unnamed_and_fails)
    with pytest.raises(StreamingQueryException, match=r"LEDGER_MOVED.*may have done so before batchId was set"):
        copy.run(named)
    copy.run(lambda frame, number: copy.write(frame))
    fill_numbered(copy.cluster, copy.source, range(100, 200), 2)
    copy.run(named)
    assert copy.written() == once(range(200))


@pytest.mark.long
def test_number_that_is_left_out(copy: Copy) -> None:
    """A named write that loses its batchId during an interrupted micro-batch is refused until it is restored."""

    def numbered(frame: DataFrame, number: int) -> None:
        copy.write(frame, writerName=copy.sink, batchId=number)

    def numbered_and_fails(frame: DataFrame, number: int) -> None:
        numbered(frame, number)
        raise RuntimeError("injected")

    with pytest.raises(StreamingQueryException, match="injected"):
        copy.run(numbered_and_fails)
    with pytest.raises(StreamingQueryException, match=r"LEDGER_MOVED.*may have done so before batchId was set or left out"):
        copy.run(lambda frame, number: copy.write(frame, writerName=copy.sink))
    copy.run(numbered)
    assert copy.written() == once(range(100))


@pytest.mark.long
def test_remedy_of_written_twice(copy: Copy) -> None:
    """The second of two unnamed writes to one topic is refused; with its own name, both write their rows once.

    Naming the first one, too, is refused: its rows are recorded under the name of the topic.
    """
    short = {"kafka.transaction.timeout.ms": 4000, "kafka.delivery.timeout.ms": 4000}

    def function(*names: str | None) -> Callable[[DataFrame, int], None]:
        def write_all(frame: DataFrame, number: int) -> None:
            for shift, name in enumerate(names):
                named = {} if name is None else {"writerName": name}
                value = f"cast(cast(cast(value AS string) AS int) + {100 * shift} AS string)"
                copy.write(frame.selectExpr("key", f"{value} AS value"), **named, **short)

        return write_all

    with pytest.raises(StreamingQueryException, match=r"WRITTEN_TWICE.*set a writerName of its own for it"):
        copy.run(function(None, None))
    with pytest.raises(StreamingQueryException, match="LEDGER_MOVED"):
        copy.run(function("first", "second"))
    copy.run(function(None, "second"))
    assert copy.written() == once(range(200))


def test_unnamed_batch_job(copy: Copy) -> None:
    """An unnamed batch job is refused; with a name and a number it writes its rows once, however often it runs."""
    frame = copy.spark.range(100).selectExpr("cast(id AS string) AS value")
    with pytest.raises(Exception, match=r"\[UNNAMED_WRITE\].*batchId"):
        copy.write(frame)
    for _ in range(2):
        copy.write(frame, writerName=copy.sink, batchId=7)
    assert copy.written() == once(range(100))
