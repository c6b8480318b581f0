"""Batch read planning on the driver: one cluster snapshot, two requests for offsets, then pure planning."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark_zkafka.batch.ranges import readable_partitions, resolve_ranges
from pyspark_zkafka.cluster import ClusterSource, ZooKeeperSource, bootstrap_servers, open_admin, open_cluster
from pyspark_zkafka.errors import GroupError, OptionError, listing, nearest
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.protocol.offsets import EARLIEST, Position
from pyspark_zkafka.protocol.planning import (
    Split,
    SubscribeExcept,
    SubscribePattern,
    Subscription,
    describe_missing,
    make_splits,
    missing_topics,
    split_ranges,
    spread_over_leaders,
    wanted_topics,
)
from pyspark_zkafka.protocol.pushdown import PushedFilters
from pyspark_zkafka.protocol.resumption import outdated
from pyspark_zkafka.retries import Retry

__all__ = ["BatchPlan", "plan_batch", "subscribed_snapshot", "task_splits"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch read's splits, in the order of Spark's tasks, and the cluster snapshot that they were planned from."""

    splits: tuple[Split, ...]
    bootstrap_servers: str
    snapshot: ClusterSnapshot


def plan_batch(
    options: ReadOptions, pushed: PushedFilters | None = None, sleep: Callable[[float], None] = time.sleep
) -> BatchPlan:
    """Plan a batch read, narrowed by `pushed` filters. Blocks for a few round trips to ZooKeeper and the brokers.

    Raises ZKafkaError if the cluster cannot be reached; a topic or partition is unknown, unless `missingTopics` is wait, or
    has no leader; the options do not fit the topics; the group whose offsets are the start has none; an explicit or
    committed offset is outside the log and `failOnDataLoss` is set.
    """
    for name in options.ignored:
        _log.warning("%s is a streaming option; ignored by this batch read", name)
    retry = Retry(options.retries, options.retry_interval_ms / 1000, sleep)
    subscription = options.require_subscription()
    with open_cluster(options.connection) as cluster:
        snapshot = retry(lambda: subscribed_snapshot(subscription, cluster))
        if missing := missing_topics(subscription, snapshot):
            may_wait = options.missing_topics == "wait"
            error = describe_missing(subscription, missing, retry(cluster.topic_names), may_wait=may_wait)
            if not may_wait:
                raise error
            _log.warning("left out, as missingTopics is wait: %s", error)
        subscribed = readable_partitions(subscription, snapshot, skip_offline=options.skip_offline)
        partitions = [tp for tp in subscribed if pushed is None or pushed.admits(tp)]
        servers = bootstrap_servers(options.connection, snapshot)
        if not partitions:
            return BatchPlan((), servers, snapshot)
        with open_admin(cluster, options.connection, servers) as admin:
            bounds = _Bounds(options, admin, cluster, servers, snapshot)
            ranges = retry(lambda: resolve_ranges(options, partitions, subscribed, bounds, pushed))
    return BatchPlan(task_splits(ranges, options, snapshot), servers, snapshot)


def task_splits(ranges: Sequence[OffsetRange], options: ReadOptions, snapshot: ClusterSnapshot) -> tuple[Split, ...]:
    """The splits of ranges, in the order of Spark's tasks, of which neighbours read from different leaders."""
    pieces = split_ranges(ranges, options.min_partitions, options.max_records)
    splits = make_splits(pieces, snapshot, options.connection.client_rack, options.connection.listener)
    return tuple(spread_over_leaders(splits))


def subscribed_snapshot(subscription: Subscription, cluster: ClusterSource) -> ClusterSnapshot:
    """The cluster with the topics of a subscription that exist; a pattern also requires the names of all topics."""
    by_pattern = isinstance(subscription, (SubscribePattern, SubscribeExcept))
    return cluster.snapshot(wanted_topics(subscription, cluster.topic_names() if by_pattern else ()))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """`OffsetBounds` from the brokers, and the group's offsets from ZooKeeper."""

    options: ReadOptions
    admin: KafkaAdmin
    cluster: ClusterSource
    servers: str
    snapshot: ClusterSnapshot

    def list_offsets(self, wanted: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
        return self.admin.list_offsets(wanted)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.admin.high_watermarks(partitions)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        from pyspark_zkafka.group.offsets import GroupOffsets, report_outdated

        if self.options.group is None:
            raise OptionError("INVALID_OPTION", "startingOffsets is committed, and no group is named; set group.id")
        zookeeper = self.cluster.zookeeper if isinstance(self.cluster, ZooKeeperSource) else None
        with GroupOffsets(
            self.options.connection, self.servers, self.options.group, self.options.stores, zookeeper
        ) as offsets:
            committed = offsets.committed(partitions)
            if not committed and self.options.reset is None and not offsets.committed(list(self.snapshot.states)):
                raise _without_offsets(self.options.group, self.snapshot.topics, offsets.group_names())
        stale = outdated(committed, self.snapshot)
        if stale:
            report_outdated(stale, committed, self.options.fail_on_data_loss)
        return {tp: EARLIEST if tp in stale else stored.offset for tp, stored in committed.items()}


def _without_offsets(group: str, topics: Collection[str], groups: Collection[str]) -> GroupError:
    near = None if group in groups else nearest(group, groups)
    known = f"groups with offsets: {listing(groups) or 'none'}" if near is None else f"did you mean {near}?"
    return GroupError(
        "NO_GROUP_OFFSETS",
        f"Group {group} has no offset in {listing(topics)}, and startingOffsets is committed ({known}); correct group.id, "
        "or say where to start: set startingOffsets to earliest, or auto.offset.reset for the partitions without an offset",
    )
