"""What a member in Kafka owns after each event of its client, and what its other threads may know of that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from pyspark_zkafka.errors import UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.group.kafka_requests import Owned
from pyspark_zkafka.group.kafka_state import CommitQueue, MemberState, hold_s
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.values import GroupOptions
from pyspark_zkafka.retries import OncePerMinute

_log = logging.getLogger(__name__)

_SHOWN = 8


class Ownership:
    """The partitions of a member in Kafka, and the last error that kept it from getting them.

    The member's thread calls the methods that change `state`, which it replaces and never modifies. Other threads read it,
    set `reading` and `is_leaving`, and wait for `changed`.

    Attributes
    ----------
    consumer : str
        The member's id: chosen by the coordinator, or the `group.instance.id` until then.
    reading : frozenset of TopicPartition
        The partitions that the running micro-batch reads. A revocation waits for them, but no longer than `hold_s`.
    error : ZKafkaError or None
        The last error since the last assignment.
    changed_at : float
        The time of the last change of the assignment.
    """

    def __init__(self, options: GroupOptions, clock: Callable[[], float]) -> None:
        kafka = options.kafka
        self.group = options.name
        self.consumer = kafka.instance_id or ""
        self.hold_s = hold_s(kafka.hold_ms, kafka.max_poll_interval_ms)
        is_capped = self.hold_s < kafka.hold_ms / 1000
        self._hold_option = "kafka.max.poll.interval.ms" if is_capped else "rebalance.hold.ms"
        self._is_consumer_protocol = kafka.protocol == "consumer"
        self._clock = clock
        self._limit = OncePerMinute(clock)
        self.state = MemberState(commits=CommitQueue(self.group))
        self.reading: frozenset[TopicPartition] = frozenset()
        self.error: ZKafkaError | None = None
        self.is_leaving = False
        self.changed = threading.Event()
        self.changed_at = 0.0

    @property
    def name(self) -> str:
        """The member's name in logs."""
        return self.consumer or f"a member of group {self.group}"

    def owned(self) -> Owned:
        """The partitions that the member owns. Empty while the coordinator may have expelled the member without notice."""
        return self.state.owned(self._clock())

    @property
    def is_doubtful(self) -> bool:
        """True after a long pause of the process, until librdkafka has noticed an expulsion."""
        return self.state.is_doubtful(self._clock())

    def change(self, state: MemberState) -> None:
        """Replace the state after a change of the assignment, and wake the threads that wait for one."""
        self.state = state
        self.changed_at = self._clock()
        self.changed.set()

    def start_iteration(self) -> None:
        """Note that the member's thread runs. After a long pause, the ownership is in doubt."""
        self.state, stopped_s = self.state.see(self._clock())
        if stopped_s:
            _log.warning("%s did not run for %.1f s, and checks whether it is still a member", self.name, stopped_s)

    def assign(self, partitions: Collection[TopicPartition], consumer: str) -> None:
        """Own partitions that the coordinator has assigned to the member with this id."""
        self.consumer = consumer or self.consumer
        if partitions:
            _log.info("%s is assigned %s", self.name, listing(sorted(partitions), _SHOWN))
        self.error = None
        self.change(self.state.assign(partitions, self.consumer))

    def begin_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Start to release partitions. The member owns them until `end_revocation`."""
        self.state = self.state.revoke(partitions, self._clock() + self.hold_s)

    @property
    def is_holding(self) -> bool:
        """True while the revocation waits for a micro-batch, or for the answer to a commit."""
        return self.state.is_holding(self.reading, self._clock()) and not self.is_leaving

    def end_revocation(self) -> None:
        """Release the revoked partitions. Lose all partitions if the client may still commit released ones."""
        overdue, revoking = self.state.overdue(self.reading), self.state.revoking or frozenset()
        if overdue and not self.is_leaving:
            _log.warning(
                "%s released %s after %g s, within a micro-batch: records may be read twice. Raise %s, or make "
                "micro-batches shorter",
                self.name,
                listing(sorted(overdue), _SHOWN),
                self.hold_s,
                self._hold_option,
            )
        if revoking:
            _log.info("%s released %s", self.name, listing(sorted(revoking), _SHOWN))
        # With KIP-848, no assignment follows if no partition is added.
        self.change(self.state.release(is_assigned=self._is_consumer_protocol and self.state.is_member))
        if self.state.has_released_too_early(revoking) and not self.is_leaving:
            self.lose("released partitions before their commit was answered")

    def lose(self, reason: str | None = None) -> None:
        """Own nothing: other members may own the partitions. A client that may still commit them must be replaced.

        Without a `reason`, the coordinator has expelled the member.
        """
        if self.state.claims:
            _log.warning(
                "%s %s, and joins again. Records of %s may be read twice",
                self.name,
                reason or f"was expelled from group {self.group}",
                listing(sorted(self.state.claims), _SHOWN),
            )
        self.change(self.state.expel())

    def leave(self) -> None:
        """Own nothing from now on. The log stays silent."""
        self.is_leaving = True
        self.state = self.state.expel()

    def note_error(self, error: ZKafkaError | None) -> None:
        """Keep an error for the next caller of `rebalance`. The stream itself logs missing topics."""
        if error is None or isinstance(error, UnknownTopic):
            return
        self.error = error
        if error.retriable:
            self.warn("retrying", error)
        self.changed.set()

    def warn(self, subject: str, error: ZKafkaError | None = None) -> None:
        """Log a warning, at most once a minute for each subject."""
        if self._limit.is_due(subject):
            _log.warning("%s: %s", self.name, subject if error is None else f"{subject}: {error}")
