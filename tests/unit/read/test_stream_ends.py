"""Ends of logs from successive responses of leaders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pyspark_zkafka.errors import DataLoss, NoLeader, ZKafkaError, ZooKeeperRefused
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.read.stream_ends import StreamEnds
from pyspark_zkafka.read.stream_planner import PartitionProgress, StreamState
from pyspark_zkafka.read.stream_session import StreamWarnings
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.wire.offset_messages import EpochEndOffset

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NO_LEADER = NoLeader("NO_LEADER", "t-1 has no leader")


class Leaders:
    """A session with given responses to successive requests for ends."""

    cluster = property(lambda self: self)

    def __init__(self, *answers: Mapping[TopicPartition, int | ZKafkaError], high: int = 0) -> None:
        self.slept: list[float] = []
        self.retry = Retry(3, 1.0, self.slept.append)
        self._answers = list(answers)
        self._high = high
        self.snapshots = 0

    def log_ends(self, partitions: Collection[TopicPartition], epochs: dict[TopicPartition, int]) -> Any:
        answer = {tp: found for tp, found in self._answers.pop(0).items() if tp in partitions}
        epochs.update(dict.fromkeys(answer, 3))
        return _ends(answer), {tp: found for tp, found in answer.items() if isinstance(found, ZKafkaError)}

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, self._high), {}

    def snapshot(self, *, anew: bool) -> None:
        self.snapshots += 1

    def truncated(self, positions: object, epochs: object) -> Any:
        raise AssertionError("no leader was elected")


def _ends(answer: Mapping[TopicPartition, int | ZKafkaError]) -> dict[TopicPartition, int]:
    return {tp: found for tp, found in answer.items() if isinstance(found, int)}


def fetch(
    session: Any, *, bounds: dict[TopicPartition, int] | None = None, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Fetch the ends for a stream at offset 5 of two partitions."""
    reports = StreamWarnings(fail_on_data_loss=True, clock=lambda: 0.0)
    ends = StreamEnds(session, reports, read_committed=read_committed)
    return ends.fetch([A, B], StreamState({A: PartitionProgress(5), B: PartitionProgress(5)}, bounds=bounds))[0]


def test_a_silent_leader() -> None:
    """A partition whose leader does not answer is left out, and the cluster is read again."""
    session = Leaders({A: 9, B: NO_LEADER})
    assert fetch(session) == {A: 9}
    assert session.snapshots == 1


def test_causes_that_change(caplog: pytest.LogCaptureFixture) -> None:
    """Partitions whose leaders do not answer are logged in one line, once a minute, whatever the causes."""
    now = 0.0
    ends = StreamEnds(
        Leaders(*({tp: NoLeader("NO_LEADER", f"cause {n} of {tp}") for tp in (B, A)} for n in range(4))),  # type: ignore[arg-type]
        StreamWarnings(fail_on_data_loss=True, clock=lambda: now),
        read_committed=False,
    )
    for seconds in (0.0, 1.0, 59.0, 61.0):
        now = seconds
        assert ends.fetch([A, B], StreamState({A: PartitionProgress(5), B: PartitionProgress(5)}))[0] == {}
    assert caplog.messages == [f"Waiting for the leader of t-0, t-1: [NO_LEADER] cause {n} of t-0" for n in (0, 3)]


def test_a_permanent_error_ends_the_query() -> None:
    """An error that is not retriable ends the query."""
    with pytest.raises(ZooKeeperRefused):
        fetch(Leaders({A: 9, B: ZooKeeperRefused("REFUSED", "no")}))


def test_a_new_leader_that_reports_less() -> None:
    """An end before the position is requested again, up to the number of retries."""
    elected = Leaders({A: 9, B: 4}, {B: 6})
    assert fetch(elected) == {A: 9, B: 6}
    assert len(elected.slept) == 1
    truncated = Leaders({A: 9, B: 4}, *[{B: 4}] * 20)
    assert fetch(truncated) == {A: 9, B: 4}
    assert len(truncated.slept) == 3


def test_open_transactions() -> None:
    """A last stable offset before the position is no loss if only open transactions lie between."""
    assert fetch(Leaders({A: 9, B: 4}, high=7), read_committed=True) == {A: 9, B: 5}


def test_low_end_of_a_new_leader() -> None:
    """An end before a fixed end is requested again, since a new leader may report too low an end."""
    session = Leaders({A: 7, B: 9}, {A: 9})
    assert fetch(session, bounds={A: 9, B: 9}) == {A: 9, B: 9}


def test_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an election, a log that was truncated below the position is data loss; one that cannot be validated waits."""
    checked: list[object] = []
    answers: list[Any] = [({}, {B}), ({B: EpochEndOffset(0, 2, 3)}, set())]
    session = Leaders({A: 9, B: 9}, {A: 9, B: 9})

    def truncated(positions: object, epochs: Mapping[TopicPartition, int]) -> Any:
        checked.append((positions, epochs[B]))
        return answers.pop(0)

    monkeypatch.setattr(session, "truncated", truncated)
    reports = StreamWarnings(fail_on_data_loss=True, clock=lambda: 0.0)
    ends = StreamEnds(session, reports, read_committed=False)  # type: ignore[arg-type]
    assigned = {A: PartitionProgress(5, leader_epoch=3), B: PartitionProgress(5, leader_epoch=2)}
    assert ends.fetch([A, B], StreamState(assigned)) == ({A: 9}, {A: 3})
    with pytest.raises(
        DataLoss, match=r"OFFSET_WENT_BACK.* t-1: the log was truncated below offset 5.* epoch 2 ends at offset 3"
    ):
        ends.fetch([A, B], StreamState(assigned))
    assert checked == [({B: (5, 2)}, 3)] * 2
