"""Errors of the direct transport beside those of every transport."""

from __future__ import annotations

from confluent_kafka import KafkaError

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kafka.errors import from_kafka
from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["UnsupportedRecords", "corrupt_batch"]


class UnsupportedRecords(Exception):
    """Records that only librdkafka can read; the text says why.

    The reader goes on with librdkafka, at the position reached.
    """


def corrupt_batch(partition: TopicPartition, base_offset: int, flaw: str) -> ZKafkaError:
    """The error for a record batch whose bytes are damaged: librdkafka's own for it, with the place and the flaw."""
    text = f"record batch at offset {base_offset}: {flaw}"
    return from_kafka(KafkaError(KafkaError._BAD_MSG, text), f"reading {partition}")
