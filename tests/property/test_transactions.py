"""Division of operations into transactions that ZooKeeper accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.zookeeper.transactions import Create, Operation, SetData, pieces, request_bytes

PARTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400)), max_size=30)


def operations_of(part: tuple[str, int]) -> list[Operation]:
    """Return the creation of a parent, which other parts may share, and two writes."""
    parent, size = part
    path = f"/{parent}/{size}"
    return [Create(f"/{parent}", None), Create(path, bytes(size)), SetData(path, bytes(size))]


@given(PARTS, st.integers(0, 3000))
def test_pieces(parts: list[tuple[str, int]], max_bytes: int) -> None:
    """Division keeps all parts once, in order; no piece is empty, and no piece of several parts is too large."""
    found = list(pieces(parts, operations_of, "/kafka", max_bytes))
    assert [part for piece in found for part in piece] == parts
    for piece in found:
        needed = {operation for part in piece for operation in operations_of(part)}
        assert len(piece) == 1 or 0 < request_bytes(needed, "/kafka") <= max_bytes


@given(PARTS)
def test_one_piece(parts: list[tuple[str, int]]) -> None:
    """Parts that fit form one transaction; a shared parent counts once."""
    needed = {operation for part in parts for operation in operations_of(part)}
    assert len(list(pieces(parts, operations_of, "", request_bytes(needed)))) == bool(parts)
