"""Records for topics whose contents do not matter to a test."""

from __future__ import annotations

from typing import Any

from tests.support.fill import fill


class FakeCluster:
    """A cluster that keeps the records instead of producing them."""

    def produce(self, topic: str, records: list[dict[str, Any]]) -> dict[int, list[int]]:
        self.records = records
        return {}


def produced(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    cluster = FakeCluster()
    fill(cluster, "t", *arguments, **options)
    return cluster.records


def test_number() -> None:
    """A number of records is written to each partition, numbered after a prefix."""
    assert produced(2, (1, 3), value="a", timestamp=7) == [
        {"value": value, "partition": partition, "timestamp": 7} for partition in (1, 3) for value in (b"a0", b"a1")
    ]


def test_values() -> None:
    """Given values are written to partition 0, and short ones are padded."""
    assert [(r["value"], r["partition"]) for r in produced(["x", b"yyy"], size_bytes=2)] == [(b"x.", 0), (b"yyy", 0)]
