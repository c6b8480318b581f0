"""Spark's calls of a batch writer without a connection."""

from __future__ import annotations

import logging
import pickle

import pytest

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.writers import Written, ZKafkaWriter

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
MESSAGES = [Written(7), None, Written(1)]


def writer() -> ZKafkaWriter:
    """Return a writer as Spark sends it to the committing process, without a plan."""
    found: ZKafkaWriter = pickle.loads(pickle.dumps(ZKafkaWriter(parse_write(NOWHERE), None)))
    return found


def test_commit_without_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """A write without commitOffsets only logs its rows in the commit."""
    with caplog.at_level(logging.INFO):
        writer().commit(MESSAGES)
    assert caplog.messages == ["Wrote 8 rows"]


def test_what_a_failed_write_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed write, the log has the number of failed tasks and of rows that stay."""
    writer().abort(MESSAGES)
    assert caplog.messages == ["1 task(s) of the write failed. 8 rows of the other tasks stay in Kafka"]
