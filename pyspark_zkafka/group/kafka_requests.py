"""Requests of other threads to the one that owns the client of a member in Kafka, and their answers."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from pyspark_zkafka.errors import GroupError, ZKafkaError
from pyspark_zkafka.group.kafka_commits import Commit, Outcome
from pyspark_zkafka.protocol.model import Claim, TopicPartition

__all__ = ["Requests", "Taken", "not_running"]

Owned = Mapping[TopicPartition, Claim]
T = TypeVar("T")


class Taken(NamedTuple):
    """Requests that the member's thread has taken: commits, and whether anybody wants to rebalance."""

    commits: tuple[Commit, ...]
    is_rebalancing: bool


class Requests:
    """A queue of requests; other threads add to it, and wait for the answers, which the member's thread gives."""

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque()
        self._rebalances: deque[Future[Owned]] = deque()
        self.numbers = itertools.count()
        self._lost: dict[int, Future[set[TopicPartition]]] = {}
        self._served: list[Future[Owned]] = []
        self._is_new = threading.Event()

    # --- for other threads

    def rebalance(self) -> Future[Owned]:
        """Request a rebalance; the partitions that are owned after it."""
        owned: Future[Owned] = Future()
        self._rebalances.append(owned)
        self.wake()
        return owned

    def commit(self, commit: Commit) -> Future[set[TopicPartition]]:
        """Request a commit, with the next of `numbers`; the partitions that it leaves out."""
        lost: Future[set[TopicPartition]] = Future()
        self._lost[commit.number] = lost
        self._commits.append(commit)
        self.wake()
        return lost

    def wake(self) -> None:
        """End the wait of the member's thread."""
        self._is_new.set()

    # --- for the member's thread

    def wait(self, timeout_s: float) -> None:
        """Wait until there is a request, or the time is over."""
        self._is_new.wait(timeout_s)
        self._is_new.clear()

    def take(self) -> Taken:
        """The requests that are new."""
        commits = tuple(_drain(self._commits))
        rebalances = _drain(self._rebalances)
        self._served += rebalances
        return Taken(commits, bool(rebalances))

    @property
    def is_rebalancing(self) -> bool:
        """True if a rebalance was taken, and is not answered."""
        return bool(self._served)

    def answer_rebalances(self, owned: Owned, error: ZKafkaError | None) -> None:
        """Answer the rebalances that were taken, with the partitions that are owned, or an error."""
        answers, self._served = self._served, []
        for answer in answers:
            if error is None:
                answer.set_result(owned)
            else:
                answer.set_exception(error)

    def answer_commits(self, outcomes: Collection[Outcome]) -> None:
        """Answer commits that have ended."""
        for outcome in outcomes:
            answer = self._lost.pop(outcome.number)
            if outcome.error is None:
                answer.set_result(set(outcome.lost))
            else:
                answer.set_exception(outcome.error)

    def refuse(self, error: ZKafkaError) -> None:
        """Answer all that is left with an error."""
        self.take()
        self.answer_rebalances({}, error)
        self.answer_commits([Outcome(number, error=error) for number in list(self._lost)])


def not_running(group: str) -> GroupError:
    """The error for a request to a member that is none."""
    return GroupError("NOT_A_MEMBER", f"The member of group {group} has left it, or has not joined yet; join first")


def _drain(requests: deque[T]) -> list[T]:
    """All requests so far, in order."""
    taken = []
    while requests:
        taken.append(requests.popleft())
    return taken
