"""Spark's calls of a batch writer that need no connection."""

from __future__ import annotations

import logging
import pickle

import pytest

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.writers import Written, ZKafkaWriter

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
MESSAGES = [Written({("t", 0): 3, ("t", 1): 4}), None, Written({("t", 0): 1})]


def writer() -> ZKafkaWriter:
    """A writer as Spark sends it to the process that commits, which asks no server for a plan that it does not need."""
    found: ZKafkaWriter = pickle.loads(pickle.dumps(ZKafkaWriter(parse_write(NOWHERE), None)))
    return found


def test_commit_without_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """A write without commitOffsets only logs its rows when all tasks have succeeded."""
    with caplog.at_level(logging.INFO):
        writer().commit(MESSAGES)
    assert caplog.messages == ["Wrote 8 rows"]


def test_what_a_failed_write_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """The log says how many tasks failed, and how many rows stay."""
    writer().abort(MESSAGES)
    assert caplog.messages == ["1 task(s) of the write failed. 8 rows of the other tasks stay in Kafka"]
