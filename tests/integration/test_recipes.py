"""The recipes of docs/recipes.md, on topics with known contents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.documentation import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long


def change(op: str, before: str | None, after: str | None) -> str:
    """Return Debezium's envelope of a change of row 7."""
    row = lambda name: None if name is None else {"id": 7, "name": name}  # noqa: E731
    return json.dumps({"before": row(before), "after": row(after), "op": op, "ts_ms": 1795228865441})


def test_recipes(spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """The recipe of latest values leaves out deleted keys, and Debezium's changes become the rows of the table."""
    orders, customers = new_topic(partitions=2), new_topic(partitions=2)
    values = [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", None), (None, "9"), ("c", "2"), ("c", "3")]
    zkafka_cluster.produce(orders, [{"key": key, "value": value, "partition": key == "c"} for key, value in values])
    changes = [
        ("7", change("c", None, "Ada")),
        ("8", change("r", None, "Alan")),
        ("7", change("u", "Ada", "Ada L.")),
        ("8", change("d", "Alan", None)),
        ("8", None),
    ]
    zkafka_cluster.produce(customers, [{"key": key, "value": value, "partition": key == "8"} for key, value in changes])
    names: dict[str, Any] = {"spark": spark}
    for block in blocks(ROOT / "docs" / "recipes.md"):
        if block.language == "python":
            text = block.text.replace("broker1:9092", zkafka_cluster.bootstrap_servers)
            exec(text.replace('"orders"', f'"{orders}"').replace('"customers"', f'"{customers}"'), names)
            if "latest" in names and "before_changes" not in names:
                names["before_changes"] = {tuple(row) for row in names["latest"].collect()}
    assert names["before_changes"] == {("a", "2"), ("c", "3")}
    assert [tuple(row) for row in names["customers"].collect()] == [(7, "Ada L.")]
    found = spark.sql("SELECT op, before.name, after.name AS now, changed_at FROM changes WHERE key = '8'").collect()
    assert {(row.op, row.name, row.now) for row in found} == {("r", None, "Alan"), ("d", "Alan", None)}
    assert {row.changed_at.year for row in found} == {2026}
