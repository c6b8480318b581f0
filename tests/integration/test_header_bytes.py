"""Headers that are not UTF-8: strings in Spark, bytes in Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.tiers import seldom

if TYPE_CHECKING:
    from conftest import Stream
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]
HeaderOfAnyName = Callable[[str, bytes], None]


@pytest.mark.only_on("spark")
@pytest.mark.parametrize("path", [*seldom("librdkafka"), "direct"])
def test_written(spark: SparkSession, zookeeper: dict[str, str], read: Read, new_topic: NewTopic, path: str) -> None:
    """A write refuses a header key that is not UTF-8 and quotes it, before its batch is sent."""
    topic = new_topic()
    headers = "array(named_struct('key', cast(x'6bff' as string), 'value', x'31'))"
    frame = spark.range(0, 2, 1, 1).selectExpr("'v' as value", f"if(id = 0, array(), {headers}) as headers")
    writer = frame.write.format("zkafka").options(**zookeeper, topic=topic, transport=path).mode("append")
    with pytest.raises(Exception, match=r"\[INVALID_HEADERS\] .* has a key that is not UTF-8: b'k\\xff'"):
        writer.save()
    assert read({"subscribe": topic}).collect() == []


@pytest.mark.only_on("spark")
@pytest.mark.parametrize("path", ["librdkafka", "direct"])
def test_values(spark: SparkSession, zookeeper: dict[str, str], read: Read, new_topic: NewTopic, path: str) -> None:
    """A header value declared as string may contain any bytes, which are written unchanged."""
    topic = new_topic()
    headers = "array(named_struct('key', 'k', 'value', cast(x'31ff' as string)))"
    frame = spark.range(0, 2, 1, 1).selectExpr("'v' as value", f"{headers} as headers")
    frame.write.format("zkafka").options(**zookeeper, topic=topic, transport=path).mode("append").save()
    found = read({"subscribe": topic, "includeHeaders": "true"}).collect()
    assert [[(h.key, h.value) for h in row.headers] for row in found] == [[("k", b"1\xff")]] * 2


@pytest.mark.parametrize("path", ["direct", *seldom("librdkafka")])  # both_paths/test_records.py has librdkafka
def test_read(read: Read, new_topic: NewTopic, header_of_any_name: HeaderOfAnyName, path: str) -> None:
    """A read with headers fails with the record's offset if a header name is not UTF-8; without headers it succeeds."""
    topic = new_topic()
    header_of_any_name(topic, b"\xff")
    options = {"subscribe": topic, "transport": path}
    with pytest.raises(Exception, match=rf"\[MALFORMED_UTF8\] The name of a header of {topic}-0 at offset 0 is not UTF-8"):
        read({**options, "includeHeaders": "true"}).collect()
    assert [row.value for row in read(options).collect()] == [b"v"]


@pytest.mark.only_on("spark")
@pytest.mark.spark(4, 2)
@pytest.mark.parametrize("path", ["direct", *seldom("librdkafka")])
def test_stream_with_a_limit_of_bytes(
    stream: Callable[..., Stream], new_topic: NewTopic, header_of_any_name: HeaderOfAnyName, path: str
) -> None:
    """maxBytesPerTrigger counts records whose header names are not UTF-8, with compiled code also these headers."""
    topic = new_topic()
    for _ in range(4):
        header_of_any_name(topic, b"\xff")
    limit = "6" if path == "direct" else "2"  # a value, a name and its value, of one byte each
    found = stream({"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": limit, "transport": path})
    found.run()
    assert [[row.offset for row in batch] for batch in found.batches] == [[0, 1], [2, 3]]
