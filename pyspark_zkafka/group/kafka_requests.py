"""Requests of other threads to the thread of a member in Kafka, and the answers."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, NOT_A_MEMBER
from pyspark_zkafka.errors import GroupError, ZKafkaError
from pyspark_zkafka.group.kafka_state import COMMIT_S, CommitOutcome, PendingCommit
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.threads import thread_failed

Owned = Mapping[TopicPartition, Claim]


class MemberRequests:
    """Commits and rebalances that other threads request.

    Any thread may call `add_rebalance`, `add_commit`, `notify`, `result` and the methods that begin with `require`. The
    other methods are for the member's thread, which takes the requests and answers them. Requests are refused before
    `open`, and from `refuse` on.
    """

    def __init__(self, group: str, clock: Callable[[], float]) -> None:
        self._group = group
        self._clock = clock
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._refusal: Callable[[], ZKafkaError] | None = partial(not_running, group)
        self._failure: Callable[[], ZKafkaError] | None = None
        self._requested: deque[tuple[PendingCommit | None, Future[Any]]] = deque()
        self._is_notified = threading.Event()
        self._commits: dict[int, Future[Collection[TopicPartition]]] = {}
        self._rebalances: list[Future[Owned]] = []

    def open(self) -> None:
        """Accept requests from now on. Called before the member's thread starts."""
        self._refusal = None

    def require_open(self) -> None:
        """Raise the error of refused requests, unless requests are accepted."""
        if (refusal := self._refusal) is not None:
            raise refusal()

    def require_running(self) -> None:
        """Raise THREAD_FAILED after an unexpected error in the member's thread."""
        if self._failure is not None:
            raise self._failure()

    def add_rebalance(self) -> Future[Owned]:
        """Request a rebalance. The answer has the partitions then owned."""
        return self._add(None)

    def add_commit(
        self, offsets: Mapping[TopicPartition, int], incarnation: int, claims: Owned | None, of_group: bool
    ) -> Future[Collection[TopicPartition]]:
        """Request a commit: see `PendingCommit`. The answer has the partitions that were left out."""
        deadline = self._clock() + COMMIT_S
        return self._add(PendingCommit(next(self._numbers), offsets, incarnation, deadline, claims, of_group))

    def _add(self, commit: PendingCommit | None) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            self.require_open()
            self._requested.append((commit, answer))
        self.notify()
        return answer

    def notify(self) -> None:
        """End the wait of the member's thread."""
        self._is_notified.set()

    def result(self, answer: Future[Any], timeout_s: float) -> Any:
        """Wait for an answer. Raises BrokersUnavailable on time-out."""
        try:
            return answer.result(timeout_s)
        except FutureTimeoutError:
            raise BROKERS_UNAVAILABLE(
                f"The member of group {self._group} did not answer within {timeout_s:g} s. Check that the brokers "
                "with __consumer_offsets run and are reachable from here",
            ) from None

    def wait(self, timeout_s: float) -> None:
        """Wait for `notify`, or the time-out."""
        self._is_notified.wait(timeout_s)
        self._is_notified.clear()

    def take(self) -> Iterator[PendingCommit | None]:
        """Yield the new requests in order: a commit, or None for a rebalance."""
        while self._requested:
            commit, answer = self._requested.popleft()
            if commit is None:
                self._rebalances.append(answer)
            else:
                self._commits[commit.number] = answer
            yield commit

    @property
    def has_rebalances(self) -> bool:
        """True if a rebalance was taken, and has no answer yet."""
        return bool(self._rebalances)

    def answer_commit(self, outcome: CommitOutcome) -> None:
        """Give the caller the partitions that were left out, or the error."""
        answer = self._commits.pop(outcome.number)
        if outcome.error is None:
            answer.set_result(set(outcome.lost))
        else:
            answer.set_exception(outcome.error)

    def answer_rebalances(self, owned: Owned, error: ZKafkaError | None) -> None:
        """Give all callers the owned partitions, or the error."""
        answers, self._rebalances = self._rebalances, []
        for answer in answers:
            if error is None:
                answer.set_result(owned)
            else:
                answer.set_exception(error)

    def refuse(self, who: str, cause: BaseException | None) -> None:
        """Raise an error for all requests that have no answer yet, and for new requests.

        The error is THREAD_FAILED with `who` and the `cause`, or NOT_A_MEMBER without a cause.
        """
        self._failure = None if cause is None else partial(thread_failed, who, cause)
        why = self._failure or partial(not_running, self._group)
        with self._lock:
            self._refusal = why
        list(self.take())
        answers: list[Future[Any]] = [*self._rebalances, *self._commits.values()]
        self._rebalances, self._commits = [], {}
        for answer in answers:
            answer.set_exception(why())


def not_running(group: str) -> GroupError:
    """The error for a request to a member that has left, or has not joined."""
    return NOT_A_MEMBER(f"The member of group {group} has left its group, or has not joined yet. Join first")
