"""Tasks of a write, without a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.plan import WritePlan
from pyspark_zkafka.write.writers import RowWriter, Written, ZKafkaStreamWriter, ZKafkaWriter, count_repeated, count_rows

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}

ROWS = st.dictionaries(st.tuples(st.sampled_from("tu"), st.integers(0, 3)), st.integers(0, 2**40))
MESSAGES = st.lists(st.none() | st.builds(Written, ROWS, st.integers(0, 2**40)))


@pytest.mark.parametrize("kind", [ZKafkaWriter, ZKafkaStreamWriter])
def test_a_task_without_rows(kind: type[RowWriter]) -> None:
    """A task without rows opens no connection."""
    plan = WritePlan("127.0.0.1:1", {"t": Router("t", 1, [0])})
    writer = pickle.loads(pickle.dumps(kind(parse_write(NOWHERE), plan)))
    empty = pa.record_batch([pa.array([], pa.binary())], names=["value"])
    assert writer.write(iter([empty, empty])).rows == {}
    assert writer.write(iter([])).rows == {}


@given(MESSAGES, MESSAGES)
def test_counts_add_up(some: list[Written | None], others: list[Written | None]) -> None:
    """The counts of several tasks add up; a failed task counts as zero."""
    for count in (count_rows, count_repeated):
        assert count(some + others) == count(some) + count(others)
        assert count([*some, None]) == count(some)


def test_counts() -> None:
    """Rows are counted over topics and partitions, separately from rows already in the log."""
    messages: Sequence[WriterCommitMessage | None] = [Written({("t", 0): 3, ("u", 0): 4}), None, Written({}, 5)]
    assert (count_rows(messages), count_repeated(messages)) == (7, 5)
    assert (count_rows([]), count_repeated([])) == (0, 0)
