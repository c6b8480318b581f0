"""Sticky balance of partitions among threads; the worked examples are in test_assignors.py."""

from __future__ import annotations

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.sticky_assignor import balance
from tests.support.cases import each

PARTITIONS = [TopicPartition("t", n) for n in range(5)]


@each(
    ("owners", "expected"),
    [
        ("-----", "aaabb"),
        ("bbbbb", "bbbaa"),
        ("ababa", "ababa"),
        ("babab", "babab"),
        ("xaaxx", "aaabb"),
        ("aaaab", "aaabb"),
    ],
)
def test_balance(owners: str, expected: str) -> None:
    """Threads keep their first partitions up to their quota; the others go to the threads that have too few."""
    found = balance(["a", "b"], PARTITIONS, dict(zip(PARTITIONS, owners, strict=True)))
    assert "".join(found[tp] for tp in PARTITIONS) == expected


def test_more_threads_than_partitions() -> None:
    """The first threads get a partition each, unless a later one owns it."""
    assert list(balance(["a", "b", "c"], PARTITIONS[:2], {}).values()) == ["a", "b"]
    found = balance(["a", "b", "c"], PARTITIONS[:2], {PARTITIONS[0]: "c"})
    assert found == {PARTITIONS[0]: "c", PARTITIONS[1]: "a"}
