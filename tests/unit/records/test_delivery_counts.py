"""Counts of records on librdkafka's mock cluster, while it also reports other events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.records.librdkafka_sender import MessageSender
from pyspark_zkafka.records.producer import CountingProducer, QueueLimits, producer_properties

# librdkafka logs each request, and its log lines wait in the same queue as delivery reports.
TALKATIVE = {
    **producer_properties(parse_connection({"kafka.bootstrap.servers": "mock"}), "mock"),
    "test.mock.num.brokers": 1,
    "debug": "protocol",
    "linger.ms": 60_000,
}


def rows(count: int) -> OutgoingBatch:
    return OutgoingBatch("t", pa.array([b"v"] * count), None, None, None, None)


def partitions(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32) % 4


def test_lines_of_the_log_are_no_records() -> None:
    """All records of a flush stay acknowledged after later events of the client."""
    with CountingProducer(TALKATIVE, MessageSender) as producer, producer.counting():
        producer.send(rows(100), partitions(100))
        producer.flush()
        producer.partitions_of("t")
        assert producer.acknowledged == 100


def test_lines_of_the_log_are_not_queued() -> None:
    """Only records count as queued."""
    with MessageSender(TALKATIVE, QueueLimits()) as sender:
        sender.leaders("t", 10)
        assert sender.queued == 0


def test_records_that_fail_beside_lines_of_the_log() -> None:
    """Records that were given up count as failed and not as acknowledged, among lines of the log."""
    with MessageSender(TALKATIVE, QueueLimits()) as sender:
        sender.begin()
        sender.leaders("t", 10)
        sender.add(rows(100), partitions(100))
        assert sender.advance(1)
        assert sender.queued == 100
        sender.purge(in_flight=True)
        sender.leaders("t", 10)
        sender.flush(10)
        sender.leaders("t", 10)
        assert sender.acknowledged == 0
        assert sender.queued == 0
        assert sender.failure is not None
