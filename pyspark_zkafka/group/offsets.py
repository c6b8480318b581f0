"""A group's offsets, in ZooKeeper, in Kafka or in both: read and committed by one rule."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_zkafka.brokers.group_offsets import MOST_PER_COMMIT, KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.conditions import INVALID_OPTION, PARTITION_LOST, TOPIC_REPLACED, report_data_loss
from pyspark_zkafka.errors import CodecError, GroupContended, ZKafkaError, listing
from pyspark_zkafka.group.commits import CommitResult, NoJvmOwner, NoOwner, OwnedBy, commit_offsets, find_lost, proof_of
from pyspark_zkafka.model.checkpoint import LeftOffset
from pyspark_zkafka.model.ledger import LedgerGroup
from pyspark_zkafka.model.nouns import ClaimOwner, OffsetStore, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset, without_left
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.cluster import partition_state_path
from pyspark_zkafka.options.values import CommitPlan, ConnectionOptions
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

if TYPE_CHECKING:  # a group in ZooKeeper needs no member in Kafka
    from pyspark_zkafka.group.kafka_member import KafkaGroupMember

_log = logging.getLogger(__name__)

Stored = dict[TopicPartition, StoredOffset]

_SHOWN = 5
_MOST_TRIES = 150
_PAUSE_S = 0.2


class GroupOffsets:
    """A group's offsets in its stores, open inside its ``with`` block. Neither thread-safe nor pickle-safe.

    `servers` are bootstrap servers. `stores` are written in their order. The open client `zookeeper` is needed for offsets
    in ZooKeeper, and to verify ownership.
    """

    def __init__(
        self,
        connection: ConnectionOptions,
        servers: str,
        group: str,
        stores: tuple[OffsetStore, ...],
        zookeeper: ZooKeeperClient | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._servers = servers
        self._group = group
        self._sleep = sleep
        self._stores = stores
        self._zookeeper = zookeeper
        if "zookeeper" in stores:
            self._client()  # raises without a client
        self._kafka = KafkaGroupOffsets(servers, connection.kafka, group)
        self._opened = ExitStack()

    def __enter__(self) -> GroupOffsets:
        if "kafka" in self._stores:
            self._opened.enter_context(self._kafka)
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def follow(self, servers: str) -> None:
        """Use the present bootstrap servers: brokers may have been replaced since the offsets were opened."""
        self._servers = servers
        self._kafka.follow(servers)

    def committed(
        self,
        partitions: Collection[TopicPartition],
        *,
        skip_malformed: bool = False,
        left: Mapping[TopicPartition, Collection[LeftOffset]] | None = None,
    ) -> Stored:
        """Return the next offsets to read. Partitions without an offset are absent.

        The larger offset of two stores counts. ZooKeeper keeps offsets of deleted topics. Such an offset counts only if
        Kafka has no offset (it may have expired), or has the same offset (both were committed together). An offset that the
        query has `left` in one store counts only if the other store has no offset.

        Raises CodecError for a malformed offset in ZooKeeper. With `skip_malformed`, logs it and treats it as 0: the
        partition's owner has to report it.
        """
        by_store = {store: self._read(store, partitions, skip_malformed) for store in sorted(self._stores)}
        return self._chosen(without_left(by_store, left or {}))

    def group_names(self) -> list[str]:
        """Return the names of the stores' groups, to suggest in an error. Leaves out ledgers, and a store that refuses."""
        names: set[str] = set()
        for store in self._stores:
            try:
                if store == "zookeeper":
                    names.update(self._client().groups())
                else:
                    with GroupAdmin.of(self._connection, self._servers) as admin:
                        names.update(admin.group_names())
            except ZKafkaError as error:
                _log.info("Groups of a similar name are not suggested, because the groups cannot be listed: %s", error)
        return sorted(name for name in names if LedgerGroup.parse(name) is None)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        owner: ClaimOwner | None = None,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        """Move offsets forward in each store, in `resets` also back; see `commit_offsets`.

        Partitions that the `owner` does not own are lost. Without an owner, raises PartitionOwned if a member in ZooKeeper
        owns a partition. An offset is `kept` if one of two stores has a higher offset. Kafka is not part of ZooKeeper's
        transaction: ownership and the stored offset are checked right before each attempt to commit to Kafka.
        """
        results: list[CommitResult] = []
        for store in self._stores:
            results.append(self._commit_to(store, offsets, proof_of(owner), resets))
            offsets = {tp: offset for tp, offset in offsets.items() if tp not in results[-1].lost}
        lost = {tp for result in results for tp in result.lost}
        written = {tp: offset for result in results for tp, offset in result.written.items() if tp not in lost}
        kept: dict[TopicPartition, int] = {}
        for result in results:
            for tp, offset in result.kept.items():
                if tp not in lost and offset > max(written.get(tp, -1), kept.get(tp, -1)):
                    kept[tp] = offset
        return CommitResult(
            {tp: offset for tp, offset in written.items() if tp not in kept},
            kept,
            lost,
            {tp: mzxid for result in results for tp, mzxid in result.mzxids.items()},
        )

    def copy_to_lagging_store(self, partitions: Collection[TopicPartition], owner: ClaimOwner | None = None) -> None:
        """Commit the offset that counts to a store that lags or has no offset, for partitions that the owner owns.

        Otherwise a partition without new records would never get an offset in a store that was added. Offsets of deleted
        topics stay as they are.
        """
        if len(self._stores) < 2 or not partitions:
            return
        by_store = {store: self._read(store, partitions, skip_malformed=True) for store in sorted(self._stores)}
        found = self._chosen(by_store)
        outdated = self._outdated({tp: stored for tp, stored in found.items() if stored.mzxid is not None})
        for store in self._stores:
            there = by_store[store]
            lagging = {
                tp: stored.offset
                for tp, stored in found.items()
                if tp not in outdated and (tp not in there or there[tp].offset < stored.offset)
            }
            if lagging:
                self._commit_to(store, lagging, proof_of(owner))

    def begin(self, starts: Mapping[TopicPartition, int]) -> Stored:
        """Commit the group's starts for partitions without an offset. Returns the offsets then stored.

        Members that start at the same time find different ends of a log: the first commit counts for all members.
        Partitions of JVM consumers are left out. Commits to Kafka cannot be conditional: of two commits within
        milliseconds, the later commit counts.
        """
        if "zookeeper" in self._stores:
            commit_offsets(self._client(), self._group, starts, NoJvmOwner(), sleep=self._sleep)
        else:
            self._kafka.commit(starts, self._without_start)
        return self.committed(starts)

    def _without_start(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """The partitions without an offset in Kafka that no JVM consumer owns."""
        of_jvms: set[TopicPartition] = set()
        if self._zookeeper is not None:
            of_jvms = find_lost(self._zookeeper, self._group, NoJvmOwner(), sorted(partitions))
        return set(partitions) - self._kafka.committed(partitions).keys() - of_jvms

    def _chosen(self, by_store: Mapping[OffsetStore, Stored]) -> Stored:
        """The offset that counts in each partition: see `committed`."""
        in_kafka, in_zookeeper = by_store.get("kafka", {}), by_store.get("zookeeper", {})
        differing = {tp for tp in in_kafka.keys() & in_zookeeper.keys() if in_kafka[tp].offset != in_zookeeper[tp].offset}
        larger = {tp for tp in differing if in_kafka[tp].offset > in_zookeeper[tp].offset}
        outdated = self._outdated({tp: in_zookeeper[tp] for tp in differing - larger})
        return {**in_zookeeper, **{tp: in_kafka[tp] for tp in (in_kafka.keys() - in_zookeeper.keys()) | larger | outdated}}

    def _read(self, store: OffsetStore, partitions: Collection[TopicPartition], skip_malformed: bool = False) -> Stored:
        if store == "kafka":
            return {tp: StoredOffset(offset) for tp, offset in self._kafka.committed(partitions).items()}
        paths = {group_znodes.offset_path(self._group, tp): tp for tp in partitions}
        nodes = self._client().get_many(paths).items()
        found = {
            paths[path]: StoredOffset(_decode(path, node.data, skip_malformed), node.stat.mzxid) for path, node in nodes
        }
        return {tp: stored for tp, stored in found.items() if stored.offset >= 0}

    def _outdated(self, stored: Mapping[TopicPartition, StoredOffset]) -> set[TopicPartition]:
        """The partitions that were created after their offset was written to ZooKeeper."""
        paths = {partition_state_path(tp): tp for tp in stored}
        created = self._client().exists_many(paths).items() if paths else ()
        return {paths[path] for path, stat in created if stored[paths[path]].is_older_than(stat.czxid)}

    def _commit_to(
        self,
        store: OffsetStore,
        offsets: Mapping[TopicPartition, int],
        proof: OwnedBy | NoOwner,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        if store == "kafka":
            return self._commit_to_kafka(offsets, proof, resets)
        done = commit_offsets(self._client(), self._group, offsets, proof, resets=resets, sleep=self._sleep)
        higher = {tp for tp, offset in done.kept.items() if offset > offsets[tp]} if len(self._stores) > 1 else set()
        outdated = self._outdated(self._read(store, higher)) if higher else set()
        if outdated:  # offsets of a deleted topic, which do not count where Kafka has another offset: see `committed`
            left = {tp: offsets[tp] for tp in outdated}
            again = commit_offsets(self._client(), self._group, left, proof, resets=outdated, sleep=self._sleep)
            kept = {tp: offset for tp, offset in done.kept.items() if tp not in outdated}
            done = CommitResult(
                {**done.written, **again.written},
                {**kept, **again.kept},
                {*done.lost, *again.lost},
                {**done.mzxids, **again.mzxids},
            )
        # A transaction that wrote a first offset may have returned no id.
        without_mzxid = self._read(store, done.written.keys() - done.mzxids.keys())
        late = {tp: s.mzxid for tp, s in without_mzxid.items() if s.offset == done.written[tp] and s.mzxid is not None}
        return replace(done, mzxids={**done.mzxids, **late})

    def _commit_to_kafka(
        self, offsets: Mapping[TopicPartition, int], proof: OwnedBy | NoOwner, resets: Collection[TopicPartition]
    ) -> CommitResult:
        kept, lost = dict[TopicPartition, int](), set[TopicPartition]()

        def due(wanted: Collection[TopicPartition]) -> Collection[TopicPartition]:
            if self._zookeeper is not None:
                lost.update(find_lost(self._zookeeper, self._group, proof, sorted(wanted)))
            # An equal offset is written again: brokers forget it some time after its last commit.
            higher = {tp: there for tp, there in self._kafka.committed(wanted).items() if there > offsets[tp]}
            kept.update({tp: there for tp, there in higher.items() if tp not in resets and tp not in lost})
            return [tp for tp in wanted if tp not in kept and tp not in lost]

        if self._zookeeper is not None and isinstance(proof, NoOwner) and len(offsets) > MOST_PER_COMMIT:
            find_lost(self._zookeeper, self._group, proof, sorted(offsets))  # refuse before the first of several requests
        self._kafka.commit(offsets, due)
        written = {tp: offset for tp, offset in offsets.items() if tp not in kept and tp not in lost}
        return CommitResult(written, kept, lost)

    def _client(self) -> ZooKeeperClient:
        if self._zookeeper is None:
            raise INVALID_OPTION("Offsets in /consumers/<group>/offsets need zookeeper.connect; set it")
        return self._zookeeper


class KafkaMemberOffsets:
    """The offsets of a group that Kafka coordinates. `stored`, which is open, reads them, and `member` commits them.

    Neither thread-safe nor pickle-safe.
    """

    def __init__(self, member: KafkaGroupMember, stored: KafkaGroupOffsets) -> None:
        self._member = member
        self._stored = stored

    def follow(self, servers: str) -> None:
        """Use the present bootstrap servers: see `GroupOffsets.follow`."""
        self._stored.follow(servers)

    def committed(
        self,
        partitions: Collection[TopicPartition],
        *,
        skip_malformed: bool = False,
        left: Mapping[TopicPartition, Collection[LeftOffset]] | None = None,
    ) -> Stored:
        """Return the next offsets to read. Partitions without an offset are absent. Blocks for a request."""
        return {tp: StoredOffset(offset) for tp, offset in self._stored.committed(partitions).items()}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        owner: ClaimOwner | None = None,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        """Move offsets forward, in `resets` also back, for partitions that the member owns. Blocks for two requests.

        Partitions that the member no longer owns, or that an earlier incarnation planned, are lost. After a long pause of
        the process, first waits until ownership is known again. Without an `owner`, the present incarnation commits: Kafka
        accepts commits only from members.
        """
        self._member.wait_certain()
        owner = self._member.owner if owner is None else owner
        owned = {} if owner.session != self._member.owner.session else self._member.owned()
        ours = {tp: offset for tp, offset in offsets.items() if tp in owned}
        there = self._stored.committed(ours)
        kept = {tp: there[tp] for tp, offset in ours.items() if tp not in resets and there.get(tp, -1) > offset}
        due = {tp: offset for tp, offset in ours.items() if tp not in kept}
        lost = self._member.commit(due, owner.session, owned) if due else set()
        written = {tp: offset for tp, offset in due.items() if tp not in lost}
        return CommitResult(written, kept, {*lost, *(offsets.keys() - ours.keys())})

    def begin(self, starts: Mapping[TopicPartition, int]) -> Stored:
        """Commit the group's starts for partitions without an offset, of all members. Returns the stored offsets.

        Commits to Kafka cannot be conditional: of two commits within milliseconds, the later commit counts. While the group
        rebalances, reads the offsets again before each try. Blocks for at most half a minute.
        """
        tries = 0
        while True:
            there = self.committed(starts)
            missing = {tp: start for tp, start in starts.items() if tp not in there}
            try:
                if missing and self._member.commit(missing, self._member.owner.session, of_group=True):
                    return there
                return there | {tp: StoredOffset(start) for tp, start in missing.items()}
            except GroupContended:
                tries += 1
                if tries == _MOST_TRIES:
                    raise
            self._member.wait(_PAUSE_S)


@contextmanager
def open_group_offsets(connection: ConnectionOptions, servers: str, plan: CommitPlan) -> Iterator[GroupOffsets]:
    """Open the offsets of the group to which a write commits, with a ZooKeeper client if there is an ensemble."""
    with ExitStack() as opened:
        client = None
        if connection.zookeeper is not None:
            client = opened.enter_context(ZooKeeperClient(connection.zookeeper))
        yield opened.enter_context(GroupOffsets(connection, servers, plan.group, plan.stores, client))


def report_outdated(
    partitions: Collection[TopicPartition], stored: Mapping[TopicPartition, StoredOffset], fail_on_data_loss: bool
) -> None:
    """Raise DataLoss for offsets of topics that were deleted and created again, or log them without `failOnDataLoss`."""
    names = sorted(tp for tp in partitions if stored[tp].offset > 0)
    if not names:
        return
    shown = listing((f"{tp} at {stored[tp].offset}" for tp in names), _SHOWN)
    report_data_loss(
        TOPIC_REPLACED,
        f"the group's offsets of {shown} are older than the topic: they belong to a deleted one of the same name",
        fail=fail_on_data_loss,
        remedy="delete or reset these offsets (write them again if they are right), or set failOnDataLoss to false to read "
        "the topic from its beginning",
        otherwise="Reading the topic from its beginning",
    )


def require_none_lost(result: CommitResult, group: str) -> None:
    """Raise PartitionLost for partitions that were not committed because the member no longer owns them."""
    if result.lost:
        names = ", ".join(map(str, sorted(result.lost)))
        raise PARTITION_LOST(
            f"The offsets of {names} were not committed: this member of group {group} no longer owns them, and their new "
            "owner starts at the stored offsets, so that records may be processed twice; the other "
            f"{len(result.written) + len(result.kept)} partition(s) are committed. Plan again, or raise rebalance.hold.ms",
            partitions=sorted(result.lost),
        )


def _decode(path: str, data: bytes | None, skip_malformed: bool) -> int:
    try:
        return group_znodes.decode_offset(path, data)
    except CodecError as error:
        if not skip_malformed:
            raise
        _log.warning("A malformed offset counts as 0, and the partition's owner cannot continue: %s", error)
        return 0
