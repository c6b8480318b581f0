"""The ends of logs at which a query with Trigger.AvailableNow ends, and the wait until all of them are reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark_zkafka.errors import BrokersUnavailable, GroupContended, ZKafkaError, listing
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, LATEST
from pyspark_zkafka.protocol.planning import describe_offline
from pyspark_zkafka.protocol.resumption import outdated
from pyspark_zkafka.stream.session import StreamSession
from pyspark_zkafka.stream.warnings import StreamWarnings

if TYPE_CHECKING:
    from pyspark_zkafka.group.membership import Membership

__all__ = ["FixedEnds"]

_OWN_WAIT_S = 0.2
_OTHERS_WAIT_S = 1.0
_SHOWN = 5


class _Owner(NamedTuple):
    """The owner of another member's partition, with the group's offset and the time when this owner was first seen."""

    incarnation: str
    offset: int
    seen_at: float


class FixedEnds:
    """Fetches the fixed ends of one run of a query, and waits for those that it has not reached.

    Spark takes a query that plans no further micro-batch for one that has read everything.
    """

    def __init__(
        self,
        options: ReadOptions,
        session: StreamSession,
        reports: StreamWarnings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._options = options
        self._session = session
        self._reports = reports
        self._clock = clock
        self._sleep = sleep
        self._owners: dict[TopicPartition, _Owner] = {}

    def fetch(self) -> dict[TopicPartition, int]:
        """Return the present ends of the logs that the stream, or its group, reads.

        Raises NoLeader for a partition without a leader, unless `offlinePartitions` is skip. Blocks for some requests.
        """
        led, brokers = self._session.retry(self._led), self._session.cluster.brokers
        ends = self._session.retry(lambda: brokers.list_offsets(dict.fromkeys(led, LATEST)))
        if self._session.member is None:
            return ends
        starts = self._session.retry(lambda: brokers.list_offsets(dict.fromkeys(led, EARLIEST)))
        return {tp: end for tp, end in ends.items() if end > starts[tp]}  # nobody has to own an empty log

    def _led(self) -> list[TopicPartition]:
        snapshot = self._session.cluster.snapshot()
        everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
        partitions = everything if self._session.member is not None else sorted(self._session.owned(snapshot))
        offline = set(snapshot.without_leader(partitions))
        if offline and not self._options.skip_offline:
            raise describe_offline(sorted(offline), snapshot)
        return [tp for tp in partitions if tp not in offline]

    def wait(self, behind: Mapping[TopicPartition, int], since: float) -> bool:
        """Wait a moment for partitions that are behind their fixed ends; False if this query need not read any of them.

        `since` is the time since when there are no records. After `kafkaConsumer.pollTimeoutMs` without any, and in a group
        the session timeout, raises BrokersUnavailable, the error by which the group cannot be read, or GroupContended for
        partitions that no member of the group owns.
        """
        member, error = self._session.member, None
        owned = behind if member is None else member.owned()
        own, others = [tp for tp in behind if tp in owned], [tp for tp in behind if tp not in owned]
        if member is not None and others:
            try:
                others = self._without_owner(member, {tp: behind[tp] for tp in others})
            except ZKafkaError as failure:
                if not failure.retriable:
                    raise
                error = failure
                self._reports.warn(f"the group's offsets or owners cannot be read, trying again: {failure}")
        if not own and not others:
            return False
        waited_s = self._clock() - since
        if waited_s >= self._options.poll_timeout_ms / 1000 + (0 if member is None else member.expiry_s):
            raise error or _not_reached(own, others, waited_s)
        if member is None:
            self._sleep(_OWN_WAIT_S)
        else:
            member.wait(_OWN_WAIT_S if own else _OTHERS_WAIT_S)
        return True

    def _without_owner(self, member: Membership, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """The partitions that the group has not read to their ends, and that this member may still be assigned.

        A member that died owns its partitions until it expires. An owner that commits, or stays for longer, is alive, and
        reads its partitions to the end itself.
        """
        stored = self._session.offsets.committed(ends, skip_malformed=True)
        done = {tp: stored[tp].offset for tp in stored.keys() - outdated(stored, self._session.cluster.snapshot())}
        unread = [tp for tp, end in ends.items() if done.get(tp, -1) < end]
        if not unread or not member.wait_settled(0):
            return unread
        now, before, self._owners = self._clock(), self._owners, {}
        alive = set()
        for tp, incarnation in self._session.owners(unread).items():
            found = first = _Owner(incarnation, done.get(tp, -1), now)
            if tp in before and before[tp].incarnation == incarnation:
                first = before[tp]
            self._owners[tp] = first
            if found.offset != first.offset or now - first.seen_at > member.expiry_s:
                alive.add(tp)
        return [tp for tp in unread if tp not in alive]


def _not_reached(own: Sequence[TopicPartition], others: Sequence[TopicPartition], waited_s: float) -> ZKafkaError:
    text = f"not read to the end that was fixed when the query started, after {waited_s:.0f} s without records"
    if own:
        return BrokersUnavailable(
            "BROKERS_UNAVAILABLE",
            f"{listing(own, _SHOWN)}: {text}: leaders or ZooKeeper do not answer; check them, and start the query again",
        )
    return GroupContended(
        "ENDS_NOT_REACHED",
        f"{listing(others, _SHOWN)}: {text}: no member of the group owns them; check that its members agree on topics and "
        "partition.assignment.strategy, and start the query again",
    )
