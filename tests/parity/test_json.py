"""Our JSON decoder and encoder, compared with Spark's from_json and to_json."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_zkafka.formats.json import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = (
    "bo boolean, ti tinyint, i int, l bigint, d double, s string, b binary, da date, t timestamp, de decimal(10,2), "
    "a array<int>, m map<string,int>, st struct<x:int,y:string>"
)
DOCUMENTS = [
    '{"bo": true, "ti": -128, "i": 2147483647, "l": -9223372036854775808, "d": 1.5, "s": "\\u00e4", "b": "AQI="}',
    '{"da": "2026-02-28", "t": "2026-02-28T10:00:00.123456+02:00", "de": 12345678.905, "a": [1, null], "m": {"k": 1}}',
    '{"st": {"x": 1, "z": [1]}, "unknown": {"a": [1, 2]}, "s": null}',
    '{"d": 5, "s": 5, "t": "2026-02-28T10:00:00Z", "de": "1.5", "st": {"y": {"a": [1, true]}}}',
    '{"d": "NaN", "t": "2026-02-28T10:00:00.123Z", "de": 7, "a": [], "m": {}, "st": {}}',
    '{"d": "-Infinity", "t": "2026-02-28", "i": null, "S": "another name"}',
    "{}",
    '{"s": [1, {"a": null}], "d": 1e3}',
    '{"i": 5, "unknown": 1e400}',
    '{"i": 6, "unknown": "\\ud83d"}',
    '{"de": "1,234.5"}',
    '{"da": "2026-02-28T10:00:00", "d": "+INF"}',
    '{"da": " 2026-2-8 x ", "d": "-INF"}',
    '{"da": "2026-1-12"}',
    '{"da": "2026-02"}',
    '{"da": "2026"}',
]
MALFORMED = [
    '{"i": "5"}', '{"i": 1.5}', '{"i": 1.0}', '{"i": 2147483648}', '{"ti": 256}', '{"l": 9223372036854775808}', '{"bo": 1}',
    '{"bo": "true"}', '{"i": true}', '{"d": "x"}', '{"da": "x"}', '{"t": "x"}', '{"de": "x"}', '{"a": {"x": 1}}',
    '{"m": [1]}', '{"de": "1_0"}', '{"de": " 1"}', '{"st": [1]}', '{"st": {"x": "y"}}', '{"i": 1', "x",
    '{"da": "2026-02-30"}', '{"da": "2026-002-01"}', '{"da": "2026-02-01x"}', '{"d": "INF"}',
]  # fmt: skip


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session in UTC."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with comparable numbers and without the column of malformed documents."""
    return {name: repr(value) if isinstance(value, float) else value for name, value in row.items() if name != "bad"}


def test_from_json(session: SparkSession) -> None:
    """Well-formed documents have the same values as with from_json, and both find the same documents malformed."""
    from pyspark.sql.functions import from_json

    given = [*DOCUMENTS, *MALFORMED]
    frame = session.createDataFrame(list(enumerate(given)), "n int, v string").coalesce(1)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    table = frame.select("n", from_json("v", f"{DDL}, bad string", options).alias("v")).orderBy("n").toArrow()
    theirs = table.column("v").combine_chunks().to_pylist()
    schema = parse(DDL)
    decoded = schema.decoder(None, schema.type).decode(pa.array([text.encode() for text in given]))
    bad = [text for text, row in zip(given, theirs, strict=True) if row["bad"] is not None]
    assert [given[row] for row in decoded.malformed] == bad == MALFORMED
    good = slice(len(DOCUMENTS))
    assert list(map(plain, decoded.column.to_pylist()[good])) == list(map(plain, theirs[good]))
    assert decoded.column.type == pa.struct([f for f in table.schema.field("v").type if f.name != "bad"])


def test_to_json(session: SparkSession) -> None:
    """Rows encode to the same bytes as with to_json if their times have milliseconds."""
    from pyspark.sql.functions import to_json

    time = dt.datetime(2026, 2, 28, 10, 0, 0, 120_000, dt.timezone.utc)
    second = time.replace(microsecond=0)
    maps, struct = {"k": 1, "l": None}, (None, "y")
    rows = [
        (True, -1, 5, 2**62, 1.5, 'ä"\n', b"\1\2", time.date(), time, Decimal("1.50"), [1, None], maps, struct),
        (None, None, None, None, float("nan"), None, None, None, second, Decimal(0), [], {}, (1, None)),
        (None,) * 13,
    ]
    kind = DDL.replace(" ", ":").replace(",:", ",")
    frame = session.createDataFrame(list(enumerate(rows)), f"n int, v struct<{kind}>")
    table = frame.coalesce(1).select("v", to_json("v").alias("text"), "n").orderBy("n").toArrow().combine_chunks()
    column = table.column("v").chunk(0)
    encoded = parse(DDL).encoder(column.type).encode(column).to_pylist()
    assert [document.decode() for document in encoded] == table.column("text").to_pylist()
