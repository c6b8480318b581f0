"""Reads of groups where brokers are not needed, or not there."""

from __future__ import annotations

from typing import NoReturn

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.operations.group_reads import read_logs
from pyspark_zkafka.operations.group_state import LogBounds
from pyspark_zkafka.protocol.model import ClusterSnapshot, PartitionState, Topic, TopicPartition

T0 = TopicPartition("t", 0)


def no_brokers() -> NoReturn:
    """Fail as where no broker is registered."""
    raise ClusterStateError("NO_BROKERS", "No live broker is registered")


def test_logs_without_brokers() -> None:
    """If no broker is registered, the bounds of logs are unknown, which is noted, and no broker is looked up."""
    snapshot = ClusterSnapshot({}, {"t": Topic("t", {0: (1,)})}, {T0: PartitionState(1, 0, (1,), czxid=7)})
    logs = read_logs(no_brokers, snapshot)
    assert logs.bounds == {T0: LogBounds(czxid=7)}
    assert logs.problems == ("No broker leads t-0",)
