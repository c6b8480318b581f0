"""The offsets of a group that Kafka coordinates, as its member commits them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark_zkafka.errors import GroupContended
from pyspark_zkafka.group.commits import CommitResult
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.kafka.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.resumption import StoredOffset

__all__ = ["KafkaMemberOffsets"]

_MOST_TRIES = 150
_PAUSE_S = 0.2


class KafkaMemberOffsets:
    """The offsets of a member's group, see `OffsetStore`; read by a client of their own, committed by the member.

    Neither thread-safe nor pickle-safe. `stored` is open.
    """

    def __init__(self, member: KafkaGroupMember, stored: KafkaGroupOffsets) -> None:
        self._member = member
        self._stored = stored

    def committed(
        self, partitions: Collection[TopicPartition], *, skip_malformed: bool = False
    ) -> dict[TopicPartition, StoredOffset]:
        """The next offsets to read; partitions without one are absent. Blocks for a request."""
        return {tp: StoredOffset(offset) for tp, offset in self._stored.committed(partitions).items()}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        owner: ClaimOwner | None = None,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        """Move offsets forward, in `resets` also back, for those partitions that the member owns. Blocks for two requests.

        Partitions that the member does not own any more, or that a former incarnation of it planned, are lost. After the
        process stood still, waits until that is certain.
        """
        self._member.wait_certain()
        owner = owner or self._member.owner
        owned = {} if owner.session != self._member.owner.session else self._member.owned()
        ours = {tp: offset for tp, offset in offsets.items() if tp in owned}
        there = self._stored.committed(ours)
        kept = {tp: there[tp] for tp, offset in ours.items() if tp not in resets and there.get(tp, -1) > offset}
        done = {tp: offset for tp, offset in ours.items() if there.get(tp) == offset}
        due = {tp: offset for tp, offset in ours.items() if tp not in kept and tp not in done}
        lost = self._member.commit(due, owner.session, owned) if due else set()
        written = {tp: offset for tp, offset in {**due, **done}.items() if tp not in lost}
        return CommitResult(written, kept, {*lost, *(offsets.keys() - ours.keys())})

    def begin(
        self, starts: Mapping[TopicPartition, int], waiting: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, StoredOffset]:
        """Commit the group's starts where it has no offset yet, whoever owns the partition; returns the stored offsets.

        Commits to Kafka cannot be conditional: of two members that begin within the same milliseconds, the later one
        decides. Of the partitions in `waiting`, which have no leader, nothing is stored. While the group rebalances, looks
        at the offsets again before each try; blocks for half a minute at the most.
        """
        tries = 0
        while True:
            there = self.committed(starts)
            missing = {tp: start for tp, start in starts.items() if tp not in there}
            try:
                if missing and not self._member.begin(missing, self._member.owner.session):
                    return there
                return there | {tp: StoredOffset(start) for tp, start in missing.items()}
            except GroupContended:
                tries += 1
                if tries == _MOST_TRIES:
                    raise
            self._member.wait(_PAUSE_S)

    def begun_at(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Nothing: Kafka stores no time for a partition without an offset."""
        return {}
