"""Digests of random rows, in both implementations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.exactly_once import RowSet
from pyspark_zkafka.model.rows import HashRows, OutgoingBatch, RowDigest
from pyspark_zkafka.model.rows import hash_rows as python
from pyspark_zkafka.records.native.record_encoder import hash_rows as compiled

BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=1, max_size=2).map(lambda b: b * 500)
HEADER = st.fixed_dictionaries(
    {"key": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5), "value": BYTES}
)
ROW = st.fixed_dictionaries(
    {
        "value": BYTES,
        "key": BYTES,
        "partition": st.none() | st.integers(-(2**31), 2**31 - 1),
        "timestamp_ms": st.none() | st.integers(1, 2**63 - 1),
        "headers": st.none() | st.lists(HEADER, max_size=3),
    }
)
Row = dict[str, Any]


def kinds(large: bool) -> dict[str, pa.DataType]:
    binary, text = (pa.large_binary(), pa.large_string()) if large else (pa.binary(), pa.string())
    entry = pa.struct([("key", text), ("value", binary)])
    headers = pa.large_list(entry) if large else pa.list_(entry)
    return {"value": binary, "key": binary, "partition": pa.int32(), "timestamp_ms": pa.int64(), "headers": headers}


def batch(rows: list[Row], columns: frozenset[str], large: bool = False) -> OutgoingBatch:
    """Return a batch of the rows, with some of the columns."""
    arrays = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds(large).items()}
    return OutgoingBatch("orders", **{n: a if n == "value" or n in columns else None for n, a in arrays.items()})


def digest(hash_rows: HashRows, *batches: OutgoingBatch) -> RowSet:
    found = RowDigest(hash_rows)
    for each in batches:
        found.add(each)
    return found.row_set()


COLUMNS = st.frozensets(st.sampled_from(["key", "partition", "timestamp_ms", "headers"]))


@given(st.lists(ROW, max_size=12), COLUMNS, st.integers(0, 12), st.randoms(use_true_random=False))
def test_neither_order_nor_batches_matter(rows: list[Row], columns: frozenset[str], cut: int, random: Any) -> None:
    """The same rows in another order and in other batches have the same digest."""
    others = random.sample(rows, len(rows))
    parts = batch(others[:cut], columns), batch([], columns), batch(others[cut:], columns)
    for hash_rows in (python, compiled):
        assert digest(hash_rows, *parts) == digest(hash_rows, batch(rows, columns))


@given(st.lists(ROW, max_size=12), COLUMNS, st.booleans(), st.integers(0, 12), st.integers(0, 12))
def test_slices(rows: list[Row], columns: frozenset[str], large: bool, start: int, count: int) -> None:
    """A slice has the digest of its own rows in both implementations, with any columns and width of Arrow's offsets."""
    whole = batch(rows, columns, large)
    arrays = (whole.value, whole.key, whole.partition, whole.timestamp_ms, whole.headers)
    sliced = OutgoingBatch("orders", *(None if a is None else a.slice(start, count) for a in arrays))
    expected = digest(python, batch(rows[start : start + count], columns))
    assert expected.rows == len(rows[start : start + count])
    assert digest(python, sliced) == digest(compiled, sliced) == expected
