"""Output of Kafka's tools for groups."""

from __future__ import annotations

import pytest

from pyspark_zkafka.testing.kafka_tools import parse_description, parse_groups, parse_verdict

NOTE = "Note: This will only show information about consumers that use ZooKeeper (not those using the Java consumer API).\n"
TABLE = """
TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        CONSUMER-ID
orders                         0          5               7               2          g_a-0
orders                         1          -               -               -          -
"""


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        ("Rebalance operation successful !\n", True),
        ("\nRebalance operation failed !\n", False),
        ("No partitions are owned\n", None),
        ("Rebalance operation successful !\nRebalance operation failed !\n", None),
    ],
)
def test_verdicts(output: str, verdict: bool | None) -> None:
    """Only an output with exactly one verdict has one."""
    assert parse_verdict(output) is verdict


def test_groups() -> None:
    """The tool's note is no group."""
    assert parse_groups(f"{NOTE}\nshop\nbilling\n") == ["billing", "shop"]


def test_description() -> None:
    """Rows follow the header, whatever comes before it."""
    rows = parse_description(NOTE + TABLE)
    assert rows is not None
    assert [(row["TOPIC"], row["PARTITION"], row["LAG"], row["CONSUMER-ID"]) for row in rows] == [
        ("orders", "0", "2", "g_a-0"),
        ("orders", "1", "-", "-"),
    ]
    assert parse_description(TABLE.splitlines()[1]) == []
    assert parse_description(NOTE) is None
