"""``zkafka groups describe`` on an ensemble of values, where no broker leads a partition."""

from __future__ import annotations

from collections.abc import Callable

from pyspark_zkafka.cli.group_describe import describe
from pyspark_zkafka.cli.output import Row
from tests.support.ensemble_client import EnsembleClient


def test_description(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """A description without brokers has offsets and owners of each subscribed partition, and no lag."""
    del client.ensemble.nodes["/brokers/ids/1"]
    rows = run(describe, ["g"])
    assert [(row["partition"], row["current_offset"], row["thread"]) for row in rows] == [(0, 5, "g_a-0"), (1, None, None)]
    assert {(row["log_end_offset"], row["lag"]) for row in rows} == {(None, None)}
