"""Spark's calls of a streaming writer without a connection."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.writers import Written, ZKafkaStreamWriter

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


def test_what_a_failed_micro_batch_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed micro-batch, the log says how many rows stay."""
    messages = [Written(7), None, Written(1)]
    ZKafkaStreamWriter(parse_write(NOWHERE), None).abort(messages, 12)
    assert "Micro-batch 12: 1 task(s) failed or were stopped" in caplog.text
    assert "8 rows of the other tasks stay in Kafka" in caplog.text


def test_what_a_failed_exactly_once_micro_batch_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed exactly-once micro-batch, the log says which rows are committed and not written again."""
    options = parse_write({**NOWHERE, "deliveryGuarantee": "exactly-once"})
    ZKafkaStreamWriter(options, None).abort([Written(3), None, None], 12)
    (text,) = caplog.messages
    assert text.startswith("Micro-batch 12: 2 task(s) failed or were stopped, and their transactions are aborted, unless")
    assert text.endswith("3 rows of the other tasks are committed. A repeated micro-batch writes no committed rows again")


@pytest.mark.parametrize(
    ("repeated", "text"),
    [(0, "Micro-batch 12: wrote 3 rows"), (5, "Micro-batch 12: wrote 3 rows. 5 rows were in the log already")],
)
def test_commit(caplog: pytest.LogCaptureFixture, repeated: int, text: str) -> None:
    """The log has the rows of a micro-batch, and those written by an earlier attempt."""
    with caplog.at_level(logging.DEBUG, "pyspark_zkafka"):
        ZKafkaStreamWriter(parse_write(NOWHERE), None).commit([Written(3, repeated)], 12)
    assert caplog.messages == [text]
