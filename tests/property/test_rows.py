"""Laws of slices of rows, and of the parts per topic."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.rows import outgoing, slices_by_size


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 20), st.integers(1, 60))
def test_slices_cover_all_rows_and_are_bounded(lengths: list[int], most_rows: int, most_bytes: int) -> None:
    """Slices are consecutive and complete, within both limits unless a slice is one large row."""
    slices = list(slices_by_size(np.array(lengths, np.int64), most_rows, most_bytes))
    assert [n for start, stop, _ in slices for n in range(start, stop)] == list(range(len(lengths)))
    for start, stop, size in slices:
        assert 1 <= stop - start <= most_rows
        assert size == sum(lengths[start:stop])
        assert size <= most_bytes or stop - start == 1
    for (start, stop, size), (_, _, _) in pairwise(slices):
        assert stop - start == most_rows or size + lengths[stop] > most_bytes


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.binary(max_size=3)), max_size=30), st.integers(0, 5))
def test_every_row_goes_to_its_topic(rows: list[tuple[str, bytes | None]], skipped: int) -> None:
    """Each topic's part has exactly its rows, in order. Topics are in the order of their first rows."""
    topics, values = [topic for topic, _ in rows], [value for _, value in rows]
    whole = pa.RecordBatch.from_pydict({"topic": pa.array(topics, pa.string()), "value": pa.array(values, pa.binary())})
    parts = {part.topic: part.value.to_pylist() for part in outgoing(whole.slice(skipped), None)}
    expected: dict[str, list[bytes | None]] = {}
    for topic, value in rows[skipped:]:
        expected.setdefault(topic, []).append(value)
    assert parts == expected
    assert list(parts) == list(expected)
