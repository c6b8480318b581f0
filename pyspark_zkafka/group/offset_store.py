"""Stores of a group's offsets, ZooKeeper, Kafka or both, read and committed by one rule."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from pyspark_zkafka.data_loss import report_data_loss
from pyspark_zkafka.errors import CodecError, OptionError, PartitionLost, ZKafkaError, listing
from pyspark_zkafka.group.commits import CommitResult, commit_offsets, commit_starts, find_lost
from pyspark_zkafka.group.ownership import NoOwner, OwnedBy
from pyspark_zkafka.kafka.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.options.model import CommitPlan, Connection, OffsetStore
from pyspark_zkafka.protocol.model import ClaimOwner, TopicPartition
from pyspark_zkafka.protocol.resumption import StoredOffset
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.topics import partition_state_path
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.connection import ZnodeStat

__all__ = ["GroupOffsets", "open_group_offsets", "report_outdated", "require_none_lost"]

_log = logging.getLogger(__name__)
_SHOWN = 5


class GroupOffsets:
    """A group's offsets in its stores; open inside its ``with`` block. Neither thread-safe nor pickle-safe.

    `servers` are bootstrap servers, and `stores` are in the order in which they are written. The open client `zookeeper` is
    needed for the store in ZooKeeper, and to verify ownership.
    """

    def __init__(
        self,
        connection: Connection,
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
            self._client()  # raises if there is none
        self._kafka = KafkaGroupOffsets(servers, connection.kafka, group)
        self._opened = ExitStack()

    def __enter__(self) -> GroupOffsets:
        if "kafka" in self._stores:
            self._opened.enter_context(self._kafka)
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def committed(
        self, partitions: Collection[TopicPartition], *, skip_malformed: bool = False
    ) -> dict[TopicPartition, StoredOffset]:
        """The next offsets to read, the larger where two stores differ; partitions without one are absent.

        Where only Kafka has an offset of the present topic, it is that one: ZooKeeper keeps the offsets of deleted topics.
        Two equal offsets were committed together: both are of the deleted topic, which the brokers may forget later.

        Raises CodecError for a malformed offset in ZooKeeper. With `skip_malformed`, logs it, and treats it as 0: it is for
        the partition's owner to report.
        """
        by_store = [self._read(store, partitions, skip_malformed) for store in sorted(self._stores)]
        if len(by_store) == 1:
            return by_store[0]
        in_kafka, in_zookeeper = by_store
        both = in_kafka.keys() & in_zookeeper.keys()
        larger = {tp for tp in both if in_kafka[tp].offset > in_zookeeper[tp].offset}
        smaller = {tp: in_zookeeper[tp] for tp in both if in_kafka[tp].offset < in_zookeeper[tp].offset}
        return in_kafka | {tp: in_zookeeper[tp] for tp in in_zookeeper.keys() - larger - self._outdated(smaller)}

    def group_names(self) -> list[str]:
        """The groups that the stores know, to suggest one in an error; those of a store that refuses are absent."""
        names: set[str] = set()
        for store in self._stores:
            try:
                names.update(self._client().groups() if store == "zookeeper" else self._group_names_in_kafka())
            except ZKafkaError as error:
                _log.info("the names of other groups are unknown: %s", error)
        return sorted(names)

    def _group_names_in_kafka(self) -> list[str]:
        from pyspark_zkafka.kafka.group_admin import GroupAdmin  # for errors alone

        with GroupAdmin.of(self._connection, self._servers) as admin:
            return admin.group_names()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        owner: ClaimOwner | None = None,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        """Move offsets forward; see `commit_offsets`, whose rules hold for each store.

        An offset is `kept` where one of two stores has a higher one, whatever was written to the other.

        Kafka is not part of ZooKeeper's transaction: ownership is checked right before a commit to Kafka.
        """
        result = CommitResult()
        for store in self._stores:
            done = self._commit_to(store, offsets, owner, resets)
            offsets = {tp: offset for tp, offset in offsets.items() if tp not in done.lost}
            result = CommitResult(
                {**result.written, **done.written},
                {tp: max(kept.get(tp, 0) for kept in (result.kept, done.kept)) for tp in {*result.kept, *done.kept}},
                {*result.lost, *done.lost},
                {**result.marks, **done.marks},
            )
        higher = {tp: offset for tp, offset in result.kept.items() if offset > result.written.get(tp, -1)}
        return replace(result, written={tp: at for tp, at in result.written.items() if tp not in higher}, kept=higher)

    def level(self, partitions: Collection[TopicPartition], owner: ClaimOwner | None = None) -> None:
        """Commit the larger offset of two stores to the one that lags, or has none, for partitions that the owner owns.

        Offsets of deleted topics are left alone. Otherwise a partition without new records would never have an offset in a
        store that was added.
        """
        if len(self._stores) < 2 or not partitions:
            return
        by_store = {store: self._read(store, partitions, skip_malformed=True) for store in self._stores}
        found = self.committed(partitions, skip_malformed=True)
        outdated = self._outdated({tp: stored for tp, stored in found.items() if stored.mark is not None})
        best = {tp: stored.offset for tp, stored in found.items() if tp not in outdated}
        for store, there in by_store.items():
            lagging = {tp: offset for tp, offset in best.items() if tp not in there or there[tp].offset < offset}
            if lagging:
                self._commit_to(store, lagging, owner)

    def begin(
        self, starts: Mapping[TopicPartition, int], waiting: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, StoredOffset]:
        """Commit the group's starts where it has no offset yet; returns the offsets then stored.

        The first of several members that begin at the same time decides; see `commit_starts`. Commits to Kafka cannot be
        conditional: of two members that begin within the same milliseconds, the later one decides. Of the partitions in
        `waiting`, which have no leader, ZooKeeper records the time: see `begun_at`.
        """
        if "zookeeper" in self._stores:
            commit_starts(self._client(), self._group, {**starts, **dict.fromkeys(waiting, -1)}, self._sleep)
        elif starts:
            there = self._kafka.committed(starts)
            self._kafka.commit({tp: offset for tp, offset in starts.items() if tp not in there})
        return self.committed(starts)

    def begun_at(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The times, in ms, at which the group began with partitions that had no leader then, and still have no offset."""
        if "zookeeper" not in self._stores:
            return {}
        found = self._read_znodes(partitions, skip_malformed=True)
        return {tp: stat.modified_ms for tp, (offset, stat) in found.items() if offset < 0}

    def _read(
        self, store: OffsetStore, partitions: Collection[TopicPartition], skip_malformed: bool = False
    ) -> dict[TopicPartition, StoredOffset]:
        if store == "kafka":
            return {tp: StoredOffset(offset) for tp, offset in self._kafka.committed(partitions).items()}
        found = self._read_znodes(partitions, skip_malformed).items()
        return {tp: StoredOffset(offset, stat.mzxid) for tp, (offset, stat) in found if offset >= 0}

    def _outdated(self, stored: Mapping[TopicPartition, StoredOffset]) -> set[TopicPartition]:
        """The partitions that were created after their offset was written to ZooKeeper."""
        paths = {partition_state_path(tp): tp for tp in stored}
        created = self._client().exists_many(paths).items() if paths else ()
        return {paths[path] for path, stat in created if stored[paths[path]].is_older_than(stat.czxid)}

    def _read_znodes(
        self, partitions: Collection[TopicPartition], skip_malformed: bool
    ) -> dict[TopicPartition, tuple[int, ZnodeStat]]:
        paths = {group_znodes.offset_path(self._group, tp): tp for tp in partitions}
        nodes = self._client().get_many(paths).items()
        return {paths[path]: (_decode(path, node.data, skip_malformed), node.stat) for path, node in nodes}

    def _commit_to(
        self,
        store: OffsetStore,
        offsets: Mapping[TopicPartition, int],
        owner: ClaimOwner | None,
        resets: Collection[TopicPartition] = frozenset(),
    ) -> CommitResult:
        if store == "kafka":
            return self._commit_to_kafka(offsets, owner, resets)
        done = self._commit_to_zookeeper(offsets, owner, resets)
        if len(self._stores) > 1 and done.kept:
            stored = {tp: found for tp, found in self._read(store, done.kept).items() if found.offset > offsets[tp]}
            again = self._outdated(stored)
            if again:  # kept offsets of a deleted topic, which the other store does not have
                return self._commit_to_zookeeper(offsets, owner, {*resets, *again})
        return done

    def _commit_to_zookeeper(
        self, offsets: Mapping[TopicPartition, int], owner: ClaimOwner | None, resets: Collection[TopicPartition]
    ) -> CommitResult:
        done = commit_offsets(self._client(), self._group, offsets, owner=owner, resets=resets, sleep=self._sleep)
        return replace(done, marks=self._marks(done))

    def _commit_to_kafka(
        self, offsets: Mapping[TopicPartition, int], owner: ClaimOwner | None, resets: Collection[TopicPartition]
    ) -> CommitResult:
        lost: set[TopicPartition] = set()
        if self._zookeeper is not None:
            proof = NoOwner(self._group, self._zookeeper) if owner is None else OwnedBy(self._group, owner)
            lost = find_lost(self._zookeeper, proof, sorted(offsets))
        there = self._kafka.committed(offsets)
        higher = {tp: there[tp] for tp, offset in offsets.items() if tp not in resets and there.get(tp, -1) >= offset}
        written = {tp: offset for tp, offset in offsets.items() if tp not in lost and tp not in higher}
        self._kafka.commit(written)
        return CommitResult(written, {tp: offset for tp, offset in higher.items() if tp not in lost}, lost)

    def _marks(self, done: CommitResult) -> dict[TopicPartition, int]:
        """The transactions that wrote the offsets; read where the commit returned none, and the offset is unchanged."""
        read = self._read("zookeeper", done.written.keys() - done.marks.keys())
        late = {tp: s.mark for tp, s in read.items() if s.offset == done.written[tp] and s.mark is not None}
        return {**done.marks, **late}

    def _client(self) -> ZooKeeperClient:
        if self._zookeeper is None:
            raise OptionError("INVALID_OPTION", "Offsets in /consumers/<group>/offsets need zookeeper.connect; set it")
        return self._zookeeper


@contextmanager
def open_group_offsets(connection: Connection, servers: str, plan: CommitPlan) -> Iterator[GroupOffsets]:
    """The offsets of the group that a write commits to, with a ZooKeeper client of their own if there is an ensemble."""
    with ExitStack() as opened:
        client = None
        if connection.zookeeper is not None:
            client = opened.enter_context(ZooKeeperClient(connection.zookeeper))
        yield opened.enter_context(GroupOffsets(connection, servers, plan.group, plan.stores, client))


def _decode(path: str, data: bytes | None, skip_malformed: bool) -> int:
    try:
        return group_znodes.decode_offset(path, data)
    except CodecError as error:
        if not skip_malformed:
            raise
        _log.warning("malformed offset treated as 0; the partition's owner cannot continue: %s", error)
        return 0


def report_outdated(
    partitions: Collection[TopicPartition], stored: Mapping[TopicPartition, StoredOffset], fail_on_data_loss: bool
) -> None:
    """Raise DataLoss for offsets of topics that were deleted and created again, or, without `failOnDataLoss`, log them."""
    names = sorted(tp for tp in partitions if stored[tp].offset > 0)
    if not names:
        return
    shown = listing((f"{tp} at {stored[tp].offset}" for tp in names), _SHOWN)
    report_data_loss(
        "TOPIC_REPLACED",
        f"the group's offsets of {shown} are older than the topic: they belong to a deleted one of the same name",
        fail=fail_on_data_loss,
        remedy="delete or reset these offsets (write them again if they are right), or set failOnDataLoss to false to read "
        "the topic from its beginning",
        otherwise="reading the topic from its beginning",
    )


def require_none_lost(result: CommitResult, group: str) -> None:
    """Raise PartitionLost for partitions that were not committed, as the member does not own them any more."""
    if result.lost:
        names = ", ".join(map(str, sorted(result.lost)))
        raise PartitionLost(
            "PARTITION_LOST",
            f"The offsets of {names} were not committed: this member of group {group} no longer owns them, and their new "
            "owner starts at the stored offsets, so that records may be processed twice; the other "
            f"{len(result.written) + len(result.kept)} partition(s) are committed; plan again, or raise rebalance.hold.ms",
            partitions=sorted(result.lost),
        )
