"""Tasks of exactly-once writes without Spark: in this process, or in processes that a test stops and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_zkafka.model.ledger import QueryName, key_of
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.rows import Written

if TYPE_CHECKING:
    from pyspark_zkafka.options.values import WriteOptions

__all__ = ["IN_TRANSACTION", "SlotContext", "SlotJob", "SlotQuery", "TaskProcess", "once", "open_entry", "rows"]

_PROGRAM = Path(__file__).resolve().parent.parent / "faults" / "drivers" / "exactly_once_task.py"

IN_TRANSACTION = 12
"""The number of batches of `rows` after which a `SlotQuery` or `SlotJob` has rows in the log: it queues a third of them."""

_SMALL_BUFFER = {"kafka.buffer.memory": str(4 * 1024 * 1024)}


@dataclass(frozen=True)
class SlotContext:
    """The part of Spark's TaskContext that an exactly-once write uses."""

    slot: int
    batch: int
    query: str
    run: str
    attempt: int = 0

    def partitionId(self) -> int:  # noqa: N802
        """Return the slot."""
        return self.slot

    def attemptNumber(self) -> int:  # noqa: N802
        """Return how often Spark has tried the task before."""
        return self.attempt

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        """Return a property of the job."""
        of_query = {"sql.streaming.queryId": self.query, "spark.jobGroup.id": self.run}
        return {**of_query, "streaming.sql.batchId": str(self.batch)}.get(key)


def rows(found: Iterable[int], size_bytes: int = 1000) -> Iterator[pa.RecordBatch]:
    """Yield batches of 1,000 numbered values each."""
    values = [b"%d:" % number + b"." * size_bytes for number in found]
    for begin in range(0, len(values), 1000):
        yield pa.record_batch([pa.array(values[begin : begin + 1000], pa.binary())], names=["value"])


class SlotQuery:
    """A streaming query that writes exactly once; each call of `write` is a task, run in this process."""

    def __init__(self, options: Mapping[str, str], query: str | None = None) -> None:
        self.options = parse_write({"deliveryGuarantee": "exactly-once", **_SMALL_BUFFER, **options})
        self.query = query or str(uuid.uuid4())

    def write(
        self, batch: int, batches: Iterable[pa.RecordBatch], slot: int = 0, run: str = "run-1", attempt: int = 0
    ) -> Written:
        """Write the rows of a slot in a micro-batch."""
        from pyspark_zkafka.write.exactly_once import write_rows_once

        plan = plan_write(self.options, is_stream=True)
        context = SlotContext(slot, batch, self.query, run, attempt)
        return write_rows_once(self.options, plan, iter(batches), context)  # type: ignore[arg-type]

    def commit(self, batch: int, *messages: Written) -> None:
        """Complete a micro-batch, as the driver does when all tasks have succeeded."""
        from pyspark_zkafka.write.writers import ZKafkaStreamWriter

        ZKafkaStreamWriter(self.options, None).commit(messages, batch)

    def transactional_id(self, slot: int = 0) -> str:
        """Return the transactional.id of a slot."""
        assert self.options.once is not None
        return f"{self.options.once.prefix}-{self.query}-{slot}"


@dataclass(frozen=True)
class _JobContext:
    slot: int

    def partitionId(self) -> int:  # noqa: N802
        return self.slot

    def attemptNumber(self) -> int:  # noqa: N802
        return 0

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        return None


class SlotJob:
    """A batch job that writes exactly once, planned in the constructor; each call of `write` is a task in this process."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = parse_write({"deliveryGuarantee": "exactly-once", **_SMALL_BUFFER, **options})
        self.plan = plan_write(self.options)

    def write(self, found: Iterable[int], slot: int = 0) -> Written:
        """Write numbered rows as a slot."""
        return self.write_batches(rows(found), slot)

    def write_batches(self, batches: Iterable[pa.RecordBatch], slot: int = 0) -> Written:
        """Write the rows of a slot."""
        from pyspark_zkafka.write.exactly_once import write_rows_once

        return write_rows_once(self.options, self.plan, iter(batches), _JobContext(slot))  # type: ignore[arg-type]

    def commit(self) -> None:
        """Commit the job's offsets, as the driver does after all tasks have succeeded."""
        from pyspark_zkafka.write.writers import ZKafkaWriter

        ZKafkaWriter(self.options, self.plan).commit([])


@contextmanager
def open_entry(options: WriteOptions, name: QueryName, slot: int, width: int) -> Iterator[None]:
    """Leave an entry in an uncommitted transaction, as a killed run may; the ``with`` block must fence it."""
    import pytest  # here, as task processes import this module as well

    from pyspark_zkafka.errors import TransactionFailed
    from pyspark_zkafka.records.direct.sender import DirectSender
    from pyspark_zkafka.records.transactions import TransactionalProducer, transactional_properties

    topic, key = options.ledger_topic, key_of(name, slot, width)
    servers = plan_write(options, is_stream=True).bootstrap_servers
    properties = transactional_properties(options.connection, servers, name.transactional_id(slot))
    with TransactionalProducer(properties, DirectSender) as producer:
        producer.start(properties["transactional.id"])
        producer.begin()
        producer._add_offset(GroupOffset(key.group, topic, key.partition, 0, "not committed"))
        yield
        with pytest.raises(TransactionFailed, match="FENCED"):
            producer.abort()


class TaskProcess:
    """A process that runs tasks of a query one after another, as a worker of Spark does."""

    def __init__(self, options: Mapping[str, str], query: str) -> None:
        command = [sys.executable, str(_PROGRAM), json.dumps({"options": dict(options), "query": query})]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, batch: int, found: range, pause_after: int | None = None, **more: Any) -> None:
        """Start a task that writes numbered rows, and pauses after this many of its batches."""
        task = {"batch": batch, "rows": [found.start, found.stop], "pause_after": pause_after, **more}
        self._say(json.dumps(task))

    def go_on(self) -> None:
        """End the pause."""
        self._say("")

    def answer(self) -> dict[str, Any]:
        """Return the process's next answer: ``paused``, a task's ``rows`` and ``repeated``, or its ``error``."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait(10)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def write(self, batch: int, found: range, **more: Any) -> dict[str, Any]:
        """Run a task to its end."""
        self.begin(batch, found, **more)
        return self.answer()

    def halt(self) -> None:
        """Send SIGSTOP, and wait until the process has stopped."""
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Send SIGCONT."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """Kill the process if it runs."""
        if self._process.poll() is None:
            self.kill()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


def once(found: Iterable[int]) -> Counter[int]:
    """Count each number once, for comparison with `tests.support.numbered_rows.numbers`."""
    return Counter(found)
