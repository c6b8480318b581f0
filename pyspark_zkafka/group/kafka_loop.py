"""The work of the thread of a member in Kafka: requests of other threads, events of the client, and commits."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol

from pyspark_zkafka.brokers.group_consumer import CommitAnswer, GroupEvent, PartitionsAssigned, Revoked
from pyspark_zkafka.group.kafka_ownership import Ownership
from pyspark_zkafka.group.kafka_requests import MemberRequests
from pyspark_zkafka.group.kafka_state import QueueStep
from pyspark_zkafka.group.kafka_supervisor import ClientSupervisor
from pyspark_zkafka.retries import Timing
from pyspark_zkafka.threads import start_thread

_TICK_S = 0.02
_ANSWER_TICK_S = 0.002
_CLOSE_S = 4.0


class MemberLoop:
    """The iterations of a member's thread, which owns the client.

    In each iteration the thread takes requests, polls, commits and answers. A revocation blocks within the poll, until the
    running micro-batch has ended, or for the hold. Meanwhile the thread keeps serving requests: it commits the micro-batch
    with the member's generation or epoch, for partitions that the member still owns.

    One thread calls all methods but `open`, which comes before.
    """

    def __init__(
        self,
        ownership: Ownership,
        requests: MemberRequests,
        supervisor: ClientSupervisor,
        timing: Timing,
        finish_s: float,
    ) -> None:
        self.ownership = ownership
        self.requests = requests
        self.supervisor = supervisor
        self._timing = timing
        self._finish_s = finish_s

    def open(self) -> None:
        """Connect, and accept requests. Raises ZKafkaError if librdkafka refuses the properties."""
        self.supervisor.open(self.handle)
        self.ownership.state = replace(self.ownership.state, seen_at=self._timing.clock())
        self.requests.open()

    def run(self) -> None:
        """Iterate until the member leaves, and leave the group."""
        own, supervisor = self.ownership, self.supervisor
        while not own.is_leaving:
            self._wait()
            self.begin_iteration()
            self.end_iteration()
        # librdkafka leaves only after a pending join: closing earlier would make the group wait for the session to end.
        deadline = self._timing.clock() + self._finish_s
        while not own.state.is_assigned and own.error is None and supervisor.topics and self._timing.clock() < deadline:
            self._timing.sleep(_TICK_S)
            supervisor.client.poll()
        self.end()

    def begin_iteration(self) -> None:
        """Take requests, and poll. Blocks while a revocation waits."""
        self._take_requests()
        self.supervisor.subscribe()
        self.ownership.note_error(self.supervisor.client.poll())

    def end_iteration(self) -> None:
        """Act on the results of the poll, and answer requests.

        The check of the admission may block for some seconds, and comes last: no request waits for it.
        """
        own = self.ownership
        self.supervisor.check_client()
        self._send_commits()
        if self.requests.has_rebalances:
            owned, error = own.owned(), own.error
            own.reading = frozenset(owned)
            self.requests.answer_rebalances(owned, None if error is None or error.retriable else error)
        self.supervisor.check_admission()

    def end(self, cause: BaseException | None = None) -> None:
        """Refuse all requests, and leave the group. Blocks for long without a coordinator.

        `cause` is an unexpected error in the thread, which may have left the state half changed.
        """
        self.ownership.leave()
        self.requests.refuse(f"{self.ownership.name} has left group {self.ownership.group}", cause)
        self.ownership.changed.set()
        self.supervisor.client.close()

    def handle(self, event: GroupEvent) -> None:
        """Handle an event of the client, within its `poll`. Blocks while a revocation waits."""
        own = self.ownership
        match event:
            case PartitionsAssigned(partitions):
                # librdkafka reports an assignment right after the revocation of the same rebalance, before the client is
                # replaced.
                if not own.state.must_replace_client:
                    own.assign(partitions, self.supervisor.client.member_id)
            case Revoked(partitions):
                own.begin_revocation(partitions)
                while own.is_holding:
                    self._wait()
                    self.serve_while_holding()
                own.end_revocation()
            case CommitAnswer():
                self._follow(own.state.commits.answer(event, self._timing.clock()))
            case _:
                own.lose()

    def serve_while_holding(self) -> None:
        """Take requests and commit while a revocation waits."""
        self._take_requests()
        self._send_commits()
        if self.ownership.state.commits.waiting:
            self.supervisor.client.poll_within()

    def _wait(self) -> None:
        """Wait for a request, or until the next poll: soon, if a commit awaits its answer."""
        self.requests.wait(_ANSWER_TICK_S if self.ownership.state.commits.under_way else _TICK_S)

    def _take_requests(self) -> None:
        """Queue commits. A call of `rebalance` means that no partition is being read, and ends a waiting revocation."""
        own = self.ownership
        for commit in self.requests.take():
            if commit is None:
                own.reading = frozenset()
            else:
                own.state = replace(own.state, commits=own.state.commits.add(commit))
        own.start_iteration()

    def _send_commits(self) -> None:
        state = self.ownership.state
        self._follow(state.commits.advance(state, self._timing.clock()))

    def _follow(self, step: QueueStep) -> None:
        """Replace the queue of commits, answer commits that have ended, and send the next one."""
        own = self.ownership
        own.state = replace(own.state, commits=step.queue)
        if step.is_fenced:
            own.lose()
        for outcome in step.outcomes:
            self.requests.answer_commit(outcome)
        if step.send is not None:
            self.supervisor.client.commit(step.send)


class LoopRunner(Protocol):
    """Runs a loop. Other threads wait for the loop only by these methods."""

    def start(self) -> None:
        """Start the loop, which is open."""

    def stop(self) -> None:
        """Wait until the loop has ended, for at most some seconds. The member is leaving."""

    def result(self, answer: Future[Any], timeout_s: float) -> Any:
        """Wait for the answer to a request. Raises BrokersUnavailable on time-out."""

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time-out."""


class LoopThread:
    """Runs a loop in a thread of its own. An unexpected error ends the loop."""

    def __init__(self, loop: MemberLoop) -> None:
        self._loop = loop
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self.thread = start_thread(self._loop.run, f"zkafka-member-{self._loop.ownership.group}", self._loop.end)

    def stop(self) -> None:
        """Wait for the end of the thread, for at most four seconds."""
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(_CLOSE_S)

    def result(self, answer: Future[Any], timeout_s: float) -> Any:
        """Wait for the answer to a request. Raises BrokersUnavailable on time-out."""
        return self._loop.requests.result(answer, timeout_s)

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time-out."""
        changed = self._loop.ownership.changed
        changed.wait(timeout_s)
        changed.clear()
