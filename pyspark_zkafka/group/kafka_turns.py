"""Turns of the thread that owns the client of a member in Kafka: each serves requests, polls, commits, and ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping

from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.group.kafka_admission import Admission, FinalityCheck
from pyspark_zkafka.group.kafka_commits import CommitQueue
from pyspark_zkafka.group.kafka_rebalance import hold_s
from pyspark_zkafka.group.kafka_requests import Requests, not_running
from pyspark_zkafka.group.kafka_state import MemberState
from pyspark_zkafka.group.kafka_topics import TopicLookup
from pyspark_zkafka.group.member import Timing
from pyspark_zkafka.kafka.group_client import CommitAnswer, GroupClient, GroupEvents
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import Claim, TopicPartition
from pyspark_zkafka.protocol.planning import Subscription

__all__ = ["TICK_S", "MemberTurns"]

_log = logging.getLogger(__name__)

TICK_S = 0.02
_FINISH_S = 2.0
_SHOWN = 8


class MemberTurns:
    """A member's client, its state, and the requests of other threads; `GroupEvents` of the client.

    One thread calls `open`, then `turn` again and again, and `end`; others add to `requests`, set what is being read, and
    look. While a revocation waits for the running micro-batch, for `hold_ms` at the most,
    `revoked` goes on to serve requests and to commit; `begin_revocation`, `turn_within` and `end_revocation` are its parts.

    `changed` is set when the ownership may have changed.
    """

    def __init__(
        self,
        options: GroupOptions,
        subscription: Subscription,
        connect: Callable[[GroupEvents], GroupClient],
        is_final: FinalityCheck | None,
        timing: Timing,
    ) -> None:
        self.consumer = options.kafka.instance_id or ""
        self.requests = Requests()
        self.changed = threading.Event()
        self.closing = False
        self.state = MemberState()
        self.reading: frozenset[TopicPartition] = frozenset()
        self.topics: tuple[str, ...] = ()
        self.error: ZKafkaError | None = None
        self.hold_s = hold_s(options.hold_ms, options.kafka.max_poll_interval_ms)
        self._group = options.name
        self._is_consumer_protocol = options.kafka.protocol == "consumer"
        self._lookup = TopicLookup(subscription)
        self._is_final = is_final
        self._timing = timing
        self._connect = connect
        self._client = connect(self)
        self._commits = CommitQueue(options.name)
        self._admission = Admission()
        self._final_at = -1
        self._has_stray_commit = False
        self._warned: set[str] = set()

    def owned(self) -> Mapping[TopicPartition, Claim]:
        """The partitions that the member owns; empty while it may have been expelled without knowing it yet."""
        return self.state.owned(self._timing.clock())

    @property
    def is_settled(self) -> bool:
        """True if the present assignment is final, and no revocation is pending."""
        state = self.state
        is_final = state.is_assigned and self._final_at == state.rebalances
        return is_final and not state.is_doubtful(self._timing.clock())

    def note_final(self, rebalances: int) -> None:
        """Note that the assignment after so many rebalances is final."""
        self._final_at = rebalances

    def warn(self, text: str) -> None:
        """Log a warning, each text once."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s: %s", self._name, text)

    def open(self) -> None:
        """Create the client; raises ZKafkaError if librdkafka refuses the properties."""
        self._client.open()
        now = self._timing.clock()
        self.state, self._admission = MemberState(seen_at=now), self._admission.postpone(now)

    def turn(self) -> None:
        """Serve, poll, commit; blocks for as long as a revocation waits, and for requests about topics and admission."""
        self.begin_turn()
        self.end_turn()

    def begin_turn(self) -> None:
        """Serve the requests, and poll."""
        self._serve_requests()
        self._subscribe()
        self._note_error(self._client.poll())

    def end_turn(self) -> None:
        """Act on what the poll has found, and answer."""
        self._replace_client()
        self._send_commits()
        self._check_admission()
        self._finish_rebalances()

    def finish_joining(self) -> None:
        """Go on for a moment if a rebalance is under way: a request to leave it waits behind the one to join.

        The group would wait for a member that is gone until its session expires.
        """
        deadline = self._timing.clock() + _FINISH_S
        while not self.state.is_assigned and self.error is None and self.topics and self._timing.clock() < deadline:
            self._timing.sleep(TICK_S)
            self._client.poll()

    def end(self) -> None:
        """Leave the group, own nothing, and answer all requests; blocks for long without a coordinator."""
        self.closing = True
        self._client.close()
        self.state = self.state.expel()
        self.requests.refuse(not_running(self._group))

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Add what the coordinator has assigned, unless to a client that is about to be replaced; see `GroupEvents`.

        librdkafka reports an assignment right after a revocation of the same rebalance.
        """
        if self._has_stray_commit:
            return
        self.consumer = self._client.member_id or self.consumer
        if partitions:
            _log.info("%s is assigned %s", self._name, listing(sorted(partitions), _SHOWN))
        self.error = None
        self._change(self.state.assign(partitions, self.consumer))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions when the running micro-batch is done, or after the hold; see `GroupEvents`."""
        self.begin_revocation(partitions)
        while self.is_holding:
            self.requests.wait(TICK_S)
            self.turn_within()
        self.end_revocation()

    def begin_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Note which partitions are to be released, and until when they may be kept."""
        self.state = self.state.revoke(partitions, self._timing.clock() + self.hold_s)

    @property
    def is_holding(self) -> bool:
        """True while the revocation waits for what is read, or for the answer to a commit."""
        busy = self.reading | self._commits.under_way
        return self.state.is_holding(busy, self._timing.clock()) and not self.closing

    def turn_within(self) -> None:
        """Serve and commit while a revocation waits."""
        self._serve_requests()
        self._send_commits()
        if self._commits.waiting:
            self._client.poll_within()

    def end_revocation(self) -> None:
        """Release the partitions."""
        overdue, hold = self.state.overdue(self.reading), self.state.hold
        revoking = frozenset[TopicPartition]() if hold is None else hold.revoking
        if overdue and not self.closing:
            _log.warning(
                "%s released %s after rebalance.hold.ms, while a micro-batch is reading: records may be read twice",
                self._name,
                listing(sorted(overdue), _SHOWN),
            )
        if revoking:
            _log.info("%s released %s", self._name, listing(sorted(revoking), _SHOWN))
        # With KIP-848, no assignment follows where nothing is added.
        self._change(self.state.release(is_assigned=self._is_consumer_protocol and self.state.is_member))
        if (self._commits.unanswered or revoking & self._commits.under_way) and not self.closing:
            self._give_up("released partitions of which a commit is unanswered")

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Give up everything; see `GroupEvents`."""
        self._give_up(f"was expelled from group {self._group}")

    def _give_up(self, reason: str) -> None:
        """Own nothing any more; a client that may still send a commit is replaced at the end of this turn."""
        owned = self.state.assignment.owned
        if owned:
            _log.warning(
                "%s %s, and joins again; others may own %s already: records may be read twice",
                self._name,
                reason,
                listing(sorted(owned), _SHOWN),
            )
        self._has_stray_commit = self._has_stray_commit or self._commits.has_stray
        self._commits = self._commits.expel()
        self._change(self.state.expel())

    def answered(self, answer: CommitAnswer) -> None:
        """Take the answer to the commit that was sent last; see `GroupEvents`."""
        step = self._commits.answer(answer, self._timing.clock())
        self._commits = step.queue
        if step.is_fenced:
            self.lost(())
        self.requests.answer_commits(step.outcomes)

    def _serve_requests(self) -> None:
        """Take commits; where anybody wants to rebalance, read nothing, so that a revocation that waits is done."""
        taken = self.requests.take()
        for commit in taken.commits:
            self._commits = self._commits.add(commit)
        if taken.is_rebalancing:
            self.reading = frozenset()
        self.state, stopped_s = self.state.see(self._timing.clock())
        if stopped_s:
            _log.warning("%s did not run for %.1f s; it looks whether it is still a member", self._name, stopped_s)

    def _finish_rebalances(self) -> None:
        if self.requests.is_rebalancing:
            owned, error = self.owned(), self.error
            self.reading = frozenset(owned)
            self.requests.answer_rebalances(owned, None if error is None or error.retriable else error)

    def _send_commits(self) -> None:
        step = self._commits.advance(self.state, self._timing.clock())
        self._commits = step.queue
        self.requests.answer_commits(step.outcomes)
        if step.send is not None:
            self._client.commit(step.send)

    def _subscribe(self) -> None:
        """Subscribe to the topics if they are others now."""
        now = self._timing.clock()
        if not self._lookup.is_due(now):
            return
        try:
            topics = self._lookup.find(now, self._client.topic_names)
            if topics != self.topics:
                self.topics, self.state = topics, self.state.await_assignment()
                self._client.subscribe(topics)
            if not topics:
                self.state = self.state.idle()
                self.note_final(self.state.rebalances)
        except ZKafkaError as error:
            self._note_error(error)

    def _note_error(self, error: ZKafkaError | None) -> None:
        if error is None or isinstance(error, UnknownTopic):  # the stream warns of topics that do not exist
            return
        self.error = error
        if error.retriable:
            self.warn(str(error))
        self.changed.set()

    def _replace_client(self) -> None:
        """Go on with another client after an expulsion, or a release, with a commit under way.

        librdkafka keeps a commit for a coordinator that it cannot reach, and would send it as the next generation's.
        """
        if not self._has_stray_commit:
            return
        client = self._connect(self)
        try:
            client.open()
        except ZKafkaError as error:
            self._note_error(error)  # the next turn tries again
            return
        self._has_stray_commit = False
        self._client.discard()
        self._client = client
        self.topics = ()
        self._lookup.repeat()

    def _check_admission(self) -> None:
        """Look without an assignment whether the coordinator has admitted the member, and has any."""
        now = self._timing.clock()
        if self.state.is_assigned or self._is_final is None or not self._is_consumer_protocol:
            self._admission = self._admission.postpone(now)
        elif self._admission.is_due(now):
            self._admission = self._admission.postpone(now)
            self.consumer = self._client.member_id
            self._look(self._is_final)

    def _look(self, is_final: FinalityCheck) -> None:
        try:
            if is_final(self.consumer, self.state.assignment.owned.keys(), self.topics):
                self.state = self.state.admit()
                self.note_final(self.state.rebalances)
        except ZKafkaError as error:
            self._admission, is_reported = self._admission.fail(error)
            if is_reported:
                self._note_error(error)
        else:
            self._admission = self._admission.answer()
            self.changed.set()

    def _change(self, state: MemberState) -> None:
        self.state = state
        if self._is_final is None:
            self.note_final(state.rebalances)
        self.changed.set()

    @property
    def _name(self) -> str:
        return self.consumer or f"a member of group {self._group}"
