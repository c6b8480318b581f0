"""The columns of records read by both transports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests.support.both_paths import same
from tests.support.both_paths_reads import TYPES, VALUE, Range, Read, schema

NewTopic = Callable[..., str]
TopicOf = Callable[..., str]
WHEN_MS = 1_700_000_000_123
BEYOND_MS = 2**63 // 1000 + 1
VARIETY: tuple[dict[str, Any], ...] = (
    {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("b", None), ("a", b"")]},
    {"key": None, "value": None},
    {"key": b"", "value": b"", "headers": [("", b"no name"), ("\u00e4\u4e2d\U0001f600", b"\xff\x00")]},
    {"key": b"\xff\x00", "value": b"\x00" * 900_000},
    {"key": b"\x01" * 300_000, "value": "gr\u00fcn".encode(), "headers": [("h", bytes(70_000))]},
    {"key": b"k", "headers": [(f"h{n}", b"%d" % n) for n in range(300)]},
)


def expected_row(topic: str, offset: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a record that was produced at `WHEN_MS` plus its offset, in milliseconds."""
    headers = record.get("headers")
    return {
        "key": record.get("key"),
        "value": record.get("value"),
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": (WHEN_MS + offset) * 1000,
        "timestampType": 0,
        "headers": headers and [{"key": name, "value": value} for name, value in headers],
    }


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows with timestamps in microseconds."""
    place = table.schema.get_field_index("timestamp")
    if place >= 0:
        table = table.set_column(place, "timestamp", table.column(place).cast(pa.int64()))
    return table.to_pylist()


class TestRecords:
    """Rows of all kinds of records."""

    @pytest.fixture
    def topic(self, topic_of: TopicOf) -> str:
        return topic_of([{**record, "timestamp": WHEN_MS + n} for n, record in enumerate(VARIETY)])

    def test_all_columns(self, read: Read, topic: str) -> None:
        """Null, empty, large and binary keys, values and headers come back as they were written."""
        found = rows_of(read(topic, len(VARIETY)))
        assert found == [expected_row(topic, n, record) for n, record in enumerate(VARIETY)]

    def test_projections(self, read: Read, topic: str) -> None:
        """A projection returns the same values as a read of all columns, in any order of columns."""
        whole = rows_of(read(topic, len(VARIETY)))
        names = list(TYPES)
        orders = [names[n:] + names[:n] for n in range(1, 8)] + [names[::-1]] + [[name] for name in names]
        for order in orders:
            expected = [{name: row[name] for name in order} for row in whole]
            assert rows_of(read(topic, len(VARIETY), columns=schema(*order))) == expected

    def test_no_columns(self, read: Read, topic: str) -> None:
        """A read without columns still counts the rows."""
        wanted = Range(topic, len(VARIETY), columns=pa.schema([]))
        assert same(lambda transport: sum(batch.num_rows for batch in read.batches(wanted, transport))) == len(VARIETY)

    def test_texts(self, read: Read, topic_of: TopicOf) -> None:
        """Keys and values declared as strings are read as texts, and null stays distinct from empty."""
        texts = ["", None, "a", "gr\u00fcn \u4e2d \U0001f600 \u0000", "x" * 100_000]
        data = [None if text is None else text.encode() for text in texts]
        topic = topic_of([{"key": value, "value": value} for value in data])
        columns = schema(value=pa.string(), key=pa.string())
        assert read(topic, 5, columns=columns).column("value").to_pylist() == texts

    @pytest.mark.parametrize("column", ["key", "value"])
    @pytest.mark.parametrize("bad", [b"\xff", b"12345678\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
    def test_not_utf8(self, read: Read, topic_of: TopicOf, column: str, bad: bytes) -> None:
        """Text that is not UTF-8 raises an error that names the first such record."""
        topic = topic_of([{column: b"fine"}, {column: bad}, {column: b"\xfe"}])
        found = read(topic, 3, shown=lambda text: text, columns=schema("offset", **{column: pa.string()}))
        assert found.condition == "MALFORMED_UTF8"
        assert f"The {column} of {topic}-0 at offset 1 is not UTF-8; declare {column} as binary" in found.message

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_codecs(self, read: Read, topic_of: TopicOf, codec: str) -> None:
        """Records compressed with each codec are read unchanged."""
        values = [b"%d " % n * 50 for n in range(2000)]
        topic = topic_of([{"value": v} for v in values], producer={"compression.type": codec})
        assert read(topic, 2000, columns=VALUE).column("value").to_pylist() == values

    def test_log_append_time(self, read: Read, topic_of: TopicOf) -> None:
        """With LogAppendTime the timestamp is the broker's, and timestampType is 1."""
        topic = topic_of([{"value": b"v", "timestamp": 5}], {"message.timestamp.type": "LogAppendTime"})
        row = rows_of(read(topic, 1, columns=schema("timestampType", "timestamp")))[0]
        assert row["timestampType"] == 1
        assert abs(row["timestamp"] / 1e6 - time.time()) < 600

    def test_time_beyond_spark(self, read: Read, topic_of: TopicOf) -> None:
        """A timestamp beyond Spark's range raises an error that names its first record, unless the column is not read."""
        far = {"message.timestamp.after.max.ms": str(2**63 - 1)}
        topic = topic_of([{"timestamp": t} for t in (1, BEYOND_MS, 2**62)], far)
        found = read(topic, 3, shown=lambda text: text, columns=schema("timestamp"))
        assert found.condition == "MALFORMED_TIMESTAMP"
        assert f"The timestamp of {topic}-0 at offset 1 is {BEYOND_MS} ms" in found.message
        assert read(topic, 3, columns=schema("timestampType")).column(0).to_pylist() == [0, 0, 0]

    def test_first_bad_column_is_told(self, read: Read, topic_of: TopicOf) -> None:
        """With several unreadable columns the error names the first in the schema, even if another record comes first."""
        topic = topic_of([{"value": b"\xff"}, {"key": b"\xff"}])
        found = read(topic, 2, shown=lambda text: text, columns=schema(key=pa.string(), value=pa.string()))
        assert f"The key of {topic}-0 at offset 1" in found.message

    def test_header_name_that_is_not_utf8(
        self, read: Read, new_topic: NewTopic, header_of_any_name: Callable[[str, bytes], None]
    ) -> None:
        """A header name that is not UTF-8 raises an error that names the record; a read without headers succeeds."""
        topic = new_topic()
        header_of_any_name(topic, b"\xff\xfe")
        found = read(topic, 1, shown=lambda text: text)
        assert found.condition == "MALFORMED_UTF8"
        assert f"of {topic}-0 at offset 0 " in found.message
        assert read(topic, 1, columns=VALUE).to_pylist() == [{"offset": 0, "value": b"v"}]
