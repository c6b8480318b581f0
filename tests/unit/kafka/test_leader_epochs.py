"""Search of a log by leader epochs: which reports of refusals end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.kafka.errors import ErrorReports
from pyspark_zkafka.kafka.leader_epochs import first_record

REFUSED = KafkaError(KafkaError._SSL, "ssl://b:1/1: SSL handshake failed: unexpected message")


class Answer:
    """A message of confluent-kafka: a record, or an error of the partition."""

    def __init__(self, offset: int, epoch: int | None, error: int | None = None) -> None:
        self._found = offset, epoch, None if error is None else KafkaError(error)

    def offset(self) -> int:
        return self._found[0]

    def leader_epoch(self) -> int | None:
        return self._found[1]

    def error(self) -> KafkaError | None:
        return self._found[2]


class Slow:
    """A consumer, and the clock that it moves: each poll takes a second and a half."""

    def __init__(self, *answers: Answer | None) -> None:
        self.now = 100.0
        self._answers = list(answers)

    def assign(self, partitions: object) -> None:
        """Take any position."""

    def poll(self, timeout_s: float) -> Answer | None:
        self.now += 1.5
        return self._answers.pop(0) if self._answers else None

    def clock(self) -> float:
        return self.now


Search = Callable[[float], tuple[int, int | None]]


def refused(*answers: Answer | None) -> tuple[Search, ErrorReports]:
    """A search of t-0 from offset 5 on, for so many seconds, that was refused before the answers."""
    consumer: Any = Slow(*answers)
    reports = ErrorReports(consumer.clock)
    reports(REFUSED)
    return lambda timeout_s: first_record(consumer, TopicPartition("t", 0, 5), timeout_s, reports, consumer.clock), reports


@pytest.mark.parametrize(
    ("answer", "found"),
    [(Answer(7, 3), (7, 3)), (Answer(7, None), (7, -1)), (Answer(9, None, KafkaError._PARTITION_EOF), (5, None))],
    ids=["record", "no-epoch", "end"],
)
def test_an_answer_ends_a_refusal(answer: Answer, found: tuple[int, int | None]) -> None:
    """Records and the end of the log are answers: a refusal before them ends neither this question nor the next ones."""
    search, _ = refused(None, answer, None, answer, None, None, answer)
    assert [search(30) for _ in range(3)] == [found] * 3


@pytest.mark.parametrize("noise", [None, Answer(-1, None, KafkaError._TRANSPORT)], ids=["nothing", "error"])
def test_nothing_comes_after_a_refusal(noise: Answer | None) -> None:
    """A refusal that no answer follows for two seconds ends the search."""
    search, _ = refused(noise, noise, noise)
    with pytest.raises(ClusterStateError, match=r"REFUSED_BY_BROKER\] searching t-0 for its first record"):
        search(30)


def test_a_refusal_after_an_answer() -> None:
    """Who is refused between two records is refused."""
    search, reports = refused(Answer(7, 3))
    assert search(30) == (7, 3)
    reports(REFUSED)
    with pytest.raises(ClusterStateError, match="REFUSED_BY_BROKER"):
        search(30)


def test_no_answer_in_time() -> None:
    """Silence is worth another try."""
    search, _ = refused()
    with pytest.raises(BrokersUnavailable, match="no records from offset 5 on"):
        search(1)
