"""The writers, streaming and batch, without a cluster."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.protocol.partitioners import Router
from pyspark_zkafka.write.batch_writer import ZKafkaWriter
from pyspark_zkafka.write.plan import WritePlan
from pyspark_zkafka.write.rows import Written
from pyspark_zkafka.write.stream_writer import ZKafkaStreamWriter
from pyspark_zkafka.write.task import RowWriter, count_rows

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


@pytest.mark.parametrize("kind", [ZKafkaWriter, ZKafkaStreamWriter])
def test_a_task_without_rows(kind: type[RowWriter]) -> None:
    """A task that has no rows opens no connection."""
    plan = WritePlan("127.0.0.1:1", {"t": Router("t", 1, [0])})
    writer = pickle.loads(pickle.dumps(kind(parse_write(NOWHERE), plan)))
    empty = pa.record_batch([pa.array([], pa.binary())], names=["value"])
    assert writer.write(iter([empty, empty])).rows == {}
    assert writer.write(iter([])).rows == {}


def test_what_a_failed_micro_batch_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """The log says how many rows stay."""
    messages = [Written({("t", 0): 3, ("t", 1): 4}), None, Written({("t", 0): 1})]
    ZKafkaStreamWriter(parse_write(NOWHERE), None).abort(messages, 12)
    assert count_rows(messages) == 8
    assert "micro-batch 12: 1 task(s) failed or were stopped" in caplog.text
    assert "8 rows of the others are written" in caplog.text
