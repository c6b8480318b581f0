"""Formats of keys and values on real brokers and a real schema registry: what frames show, and what writes send."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]

BAD = b"caf\xe9"
REASON = "value: byte 3 is not UTF-8"


@pytest.fixture
def bad_text(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic with three values: text, bytes that are no text, and a tombstone."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"key": b"a", "value": "é".encode()}, {"value": BAD}, {"key": b"c", "value": None}])
    return topic


class TestText:
    """The format string."""

    def test_failing(self, read: Read, bad_text: str) -> None:
        """By default, the first record that is not UTF-8 ends the read with its place and the reason."""
        frame = read({"subscribe": bad_text, "value.format": "string"})
        assert (frame.schema["value"].simpleString(), frame.columns[-1]) == ("value:string", "timestampType")
        expected = rf"MALFORMED_RECORD.*{bad_text}-0 at offset 1 .*value\.format=string; {REASON}"
        with pytest.raises(Exception, match=expected):
            frame.collect()

    def test_permissive(self, read: Read, bad_text: str) -> None:
        """With PERMISSIVE, the frame has the bytes and the reason of such a record."""
        frame = read({"subscribe": bad_text, "value.format": "string", "mode": "permissive"})
        assert frame.columns[-2:] == ["_corrupt_record", "_corrupt_reason"]
        rows = frame.select("key", "value", "_corrupt_record", "_corrupt_reason").collect()
        assert [tuple(row) for row in rows] == [
            (b"a", "é", None, None),
            (None, None, BAD, REASON),
            (b"c", None, None, None),
        ]

    def test_dropping(self, read: Read, bad_text: str) -> None:
        """With DROPMALFORMED, the frame lacks the record; tombstones stay."""
        options = {"subscribe": bad_text, "value.format": "string", "mode": "DROPMALFORMED"}
        frame = read(options, schema="offset bigint, value string")
        assert [tuple(row) for row in frame.collect()] == [(0, "é"), (2, None)]

    def test_a_view_in_sql(self, spark: SparkSession, zookeeper: dict[str, str], bad_text: str) -> None:
        """SQL creates a view with formats."""
        options = {
            **zookeeper,
            "subscribe": bad_text,
            "value.format": "string",
            "key.format": "string",
            "mode": "PERMISSIVE",
        }
        listed = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
        spark.sql(f"CREATE OR REPLACE TEMP VIEW formats USING zkafka OPTIONS ({listed})")
        rows = spark.sql("SELECT key, value FROM formats WHERE _corrupt_reason IS NULL ORDER BY offset").collect()
        assert [tuple(row) for row in rows] == [("a", "é"), ("c", None)]

    def test_a_schema_that_does_not_fit(self, read: Read, bad_text: str) -> None:
        """A declared schema is compared with the format; one error has all problems."""
        declared = "value struct<a int>, key int, _corrupt_reason string"
        with pytest.raises(Exception, match=r"INVALID_SCHEMA.*value cannot be.*key cannot be.*only mode=PERMISSIVE has it"):
            read({"subscribe": bad_text, "value.format": "string"}, schema=declared).collect()

    def test_a_stream_keeps_bad_records(
        self,
        stream: Callable[..., Stream],
        spark: SparkSession,
        zookeeper: dict[str, str],
        bad_text: str,
        new_topic: NewTopic,
    ) -> None:
        """A function for micro-batches sends bad records to a dead-letter topic, and good ones on."""
        dead = new_topic()

        def sort_out(frame: Any, number: int) -> None:
            reasons = "array(named_struct('key', 'reason', 'value', cast(_corrupt_reason as binary))) as headers"
            bad = frame.where("_corrupt_reason is not null").selectExpr("key", "_corrupt_record as value", reasons)
            bad.write.format("zkafka").options(**zookeeper, topic=dead).mode("append").save()

        query = stream(
            {"subscribe": bad_text, "value.format": "string", "mode": "PERMISSIVE", "startingOffsets": "earliest"}
        )
        query.in_batch = sort_out
        query.run()
        assert [row.value for row in query.rows if row._corrupt_reason is None] == ["é", None]
        letters = spark.read.format("zkafka").options(**zookeeper, subscribe=dead, includeHeaders="true").load().collect()
        assert [(row.value, row.headers[0].value) for row in letters] == [(BAD, REASON.encode())]


def test_no_format(read: Read, bad_text: str) -> None:
    """Without a format, nothing changes: bytes by default, and text where the schema declares it."""
    assert [row.value for row in read({"subscribe": bad_text}).collect()] == ["é".encode(), BAD, None]
    with pytest.raises(Exception, match="MALFORMED_UTF8"):
        read({"subscribe": bad_text}, schema="value string").collect()
