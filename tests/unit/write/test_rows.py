"""Rows of a task, with a fake producer."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import DeliveryFailed, InvalidRow
from pyspark_zkafka.model.partitioners import Router, hash_keys
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.plan import WritePlan
from pyspark_zkafka.write.rows import RowSender, Written, first_turn


class FakeProducer:
    """A `CountingProducer` whose brokers acknowledge all rows except `lost` ones, and have topics of two partitions."""

    def __init__(self, lost: int = 0) -> None:
        self.sent: list[tuple[str, list[bytes], list[int]]] = []
        self.asked: list[str] = []
        self._lost = lost

    def send(self, rows: OutgoingBatch, partitions: Any) -> None:
        self.sent.append((rows.topic, rows.value.to_pylist(), partitions.tolist()))

    def partitions_of(self, topic: str) -> tuple[int, tuple[int, ...]]:
        self.asked.append(topic)
        return 2, (0, 1)

    def flush(self) -> None: ...

    @property
    def acknowledged(self) -> int:
        return sum(len(values) for _, values, _ in self.sent) - self._lost


def batch(*rows: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    """Return rows with a value, and columns of the given types."""
    schema = pa.schema([("value", pa.binary()), *types.items()])
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def sender(producer: Any, turn: int = 0, observe: Any = None, **options: str) -> RowSender:
    """Return a sender that knows topic ``t`` with four partitions, three of them with a leader."""
    plan = WritePlan("b:1", {"t": Router("t", 4, [0, 1, 3])})
    given = parse_write({"kafka.bootstrap.servers": "b:1", **options})
    return RowSender(given, plan, producer, turn, hash_keys, observe)


VALUES = [{"value": b"%d" % n} for n in range(4)]


def test_turns_go_on() -> None:
    """Rows without a key alternate between partitions with a leader, from the first turn on, across batches."""
    producer = FakeProducer()
    task = sender(producer, turn=1, topic="t")
    task.send(batch(*VALUES[:2]))
    task.send(batch(*VALUES[2:]))
    assert producer.sent == [("t", [b"0", b"1"], [1, 3]), ("t", [b"2", b"3"], [0, 1])]
    assert task.finish() == Written(4)
    assert producer.asked == []


def test_topics_of_rows() -> None:
    """Rows go to the topics they name, each with its own turns; an unknown topic is looked up once."""
    producer = FakeProducer()
    task = sender(producer)
    rows = [{"value": b"a", "topic": "t"}, {"value": b"b", "topic": "u"}, {"value": b"c", "topic": "t"}]
    for _ in range(2):
        task.send(batch(*rows, topic=pa.string()))
    assert task.finish() == Written(6)
    assert [sent[::2] for sent in producer.sent] == [("t", [0, 1]), ("u", [0]), ("t", [3, 0]), ("u", [1])]
    assert producer.asked == ["u"]


def test_nothing_is_sent_of_a_batch_with_an_invalid_row() -> None:
    """An invalid row is found before any row of its batch is sent, even to another topic."""
    producer = FakeProducer()
    rows = [{"value": b"a", "topic": "t", "partition": 3}, {"value": b"b", "topic": "u", "partition": 2}]
    with pytest.raises(InvalidRow, match="PARTITION_OUT_OF_RANGE"):
        sender(producer).send(batch(*rows, topic=pa.string(), partition=pa.int32()))
    assert producer.sent == []


def test_observer() -> None:
    """The observer gets all rows before they are sent."""
    producer = FakeProducer()
    seen: list[tuple[list[bytes], int]] = []
    task = sender(producer, observe=lambda part: seen.append((part.value.to_pylist(), len(producer.sent))), topic="t")
    task.send(batch(*VALUES[:2]))
    task.send(batch(*VALUES[2:]))
    assert seen == [([b"0", b"1"], 0), ([b"2", b"3"], 1)]


def test_no_rows() -> None:
    """A batch without rows is not counted."""
    task = sender(FakeProducer(), topic="t")
    task.send(batch())
    assert task.finish() == Written()


def test_miscounted_rows() -> None:
    """Rows that were neither acknowledged nor refused raise an error with both counts."""
    task = sender(FakeProducer(lost=1), topic="t")
    task.send(batch(*VALUES))
    with pytest.raises(DeliveryFailed, match=r"DELIVERY_MISCOUNTED\] 4 rows were sent and 3 acknowledged"):
        task.finish()


@dataclass
class Context:
    """The part of Spark's TaskContext that turns depend on."""

    partition: int
    batch: str | None

    def partitionId(self) -> int:  # noqa: N802
        return self.partition

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        assert key == "streaming.sql.batchId"
        return self.batch


@pytest.mark.parametrize(
    ("context", "turn"), [(None, 0), (Context(3, None), 3), (Context(3, "0"), 3), (Context(3, "7"), 10)]
)
def test_first_turn(context: Any, turn: int) -> None:
    """The first turn differs by task and micro-batch; outside a task it is 0."""
    assert first_turn(context) == turn


def test_pickle() -> None:
    """The counts survive pickling, since Spark sends them from the task to the driver."""
    written = Written(5, repeated=2)
    assert pickle.loads(pickle.dumps(written)) == written
