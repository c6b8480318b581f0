"""Planner of a batch read: one cluster snapshot, two requests for offsets, then pure planning."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.cluster import (
    ClusterSource,
    ZooKeeperSource,
    bootstrap_servers,
    open_admin,
    open_cluster,
    subscribed_topics,
)
from pyspark_zkafka.conditions import NO_GROUP_OFFSETS, OFFSET_OUT_OF_RANGE, report_data_loss
from pyspark_zkafka.errors import listing, nearest
from pyspark_zkafka.model.nouns import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LogOffsets, resolve
from pyspark_zkafka.model.planning import (
    Split,
    Subscription,
    check_named,
    describe_missing,
    describe_offline,
    in_fixed_order,
    make_splits,
    missing_topics,
    offline_text,
    split_ranges,
    subscribed_partitions,
)
from pyspark_zkafka.model.pushdown import PushedFilters
from pyspark_zkafka.model.resumption import outdated
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.retries import Retry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch read's splits, in the order of Spark's tasks, and the cluster snapshot behind them."""

    splits: tuple[Split, ...]
    bootstrap_servers: str
    snapshot: ClusterSnapshot


def plan_batch(
    options: ReadOptions, pushed: PushedFilters | None = None, sleep: Callable[[float], None] = time.sleep
) -> BatchPlan:
    """Plan a batch read, narrowed by `pushed` filters. Blocks for a few round trips to ZooKeeper and the brokers.

    Raises ZKafkaError if:

    - the cluster cannot be reached, or the options do not fit the topics;
    - a topic or partition is unknown, unless `missingTopics` is wait;
    - a partition has no leader, unless `offlinePartitions` is skip;
    - the group to start from has no offsets;
    - a start or end is outside the log, as `Outside` describes, and `failOnDataLoss` is set.
    """
    for name in options.ignored:
        _log.warning("%s applies to streaming reads only, and is ignored", name)
    now_ms = time.time_ns() // 1_000_000
    options = replace(options, start=options.start.at(now_ms), end=options.end.at(now_ms))
    retry = options.retry(sleep)
    subscription = options.require_subscription()
    with open_cluster(options.connection) as cluster:
        # A broker that has just started may know no topic. ZooKeeper knows all topics.
        snapshot = retry.until(
            lambda found: not isinstance(cluster, KafkaAdmin) or not missing_topics(subscription, found),
            lambda: cluster.snapshot(subscribed_topics(subscription, cluster)),
        )
        if missing := missing_topics(subscription, snapshot):
            may_wait = options.missing_topics == "wait"
            error = describe_missing(subscription, missing, retry(cluster.topic_names), may_wait=may_wait)
            if not may_wait:
                raise error
            _log.warning("Missing topics are left out, because missingTopics is wait: %s", error)
        subscribed = readable_partitions(subscription, snapshot, skip_offline=options.skip_offline)
        check_named(options.start, subscription, snapshot, subscribed, () if options.reset is None else set(subscribed))
        check_named(options.end, subscription, snapshot, subscribed)
        partitions = [tp for tp in subscribed if pushed is None or pushed.admits(tp)]
        servers = bootstrap_servers(options.connection, snapshot)
        if not partitions:
            return BatchPlan((), servers, snapshot)
        with open_admin(cluster, options.connection, servers) as admin:

            def resolved() -> list[OffsetRange]:
                from_group = options.start.everywhere == "committed"
                committed = _committed(options, partitions, cluster, servers, snapshot) if from_group else {}
                return resolve_ranges(options, partitions, admin, committed, retry, pushed)

            ranges = retry(resolved)
    return BatchPlan(task_splits(ranges, options, snapshot), servers, snapshot)


def task_splits(ranges: Sequence[OffsetRange], options: ReadOptions, snapshot: ClusterSnapshot) -> tuple[Split, ...]:
    """Return the splits of ranges, in the order of Spark's tasks."""
    pieces = split_ranges(ranges, options.min_partitions, options.max_records)
    splits = make_splits(pieces, snapshot, options.connection.client_rack, options.connection.listener)
    return tuple(in_fixed_order(splits))


def readable_partitions(
    subscription: Subscription, snapshot: ClusterSnapshot, *, skip_offline: bool
) -> list[TopicPartition]:
    """Return the subscribed partitions that have a leader.

    Raises NoLeader if a partition has no leader. With `skip_offline`, logs such partitions instead.
    """
    partitions = subscribed_partitions(subscription, snapshot)
    offline = snapshot.without_leader(partitions)
    if not offline:
        return partitions
    if not skip_offline:
        raise describe_offline(offline, snapshot)
    _log.warning("%s. Reading the other partitions, because offlinePartitions is skip", offline_text(offline, snapshot))
    left_out = set(offline)
    return [tp for tp in partitions if tp not in left_out]


def resolve_ranges(
    options: ReadOptions,
    partitions: Collection[TopicPartition],
    logs: LogOffsets,
    committed: Mapping[TopicPartition, int],
    retry: Retry,
    pushed: PushedFilters | None = None,
) -> list[OffsetRange]:
    """Return the ranges to read. `partitions` are the subscribed partitions that the `pushed` filters admit.

    `committed` has the group's offsets, if the read starts at them. Raises DataLoss for a start or end outside its log,
    as in `plan_batch`. See `resolve` for `retry` and for other errors.
    """
    resolution = resolve(
        partitions,
        options.start,
        options.end,
        logs,
        retry=retry,
        committed=committed,
        reset=options.reset,
        no_match=options.no_match,
    )
    if resolution.outside:
        report_data_loss(
            OFFSET_OUT_OF_RANGE,
            "; ".join(map(str, resolution.outside)),
            fail=options.fail_on_data_loss,
            remedy="correct the offsets, or set failOnDataLoss to false",
            otherwise="Reading what is there",
        )
    return [r if pushed is None else pushed.cut(r) for r in resolution.ranges]


def _committed(
    options: ReadOptions,
    partitions: Collection[TopicPartition],
    cluster: ClusterSource,
    servers: str,
    snapshot: ClusterSnapshot,
) -> dict[TopicPartition, int]:
    """Return the group's offsets, by partition; `EARLIEST` if the offset belongs to a deleted topic of the same name.

    Raises GroupError if the group has no offset in any subscribed topic and `auto.offset.reset` is not set. Raises DataLoss
    for a topic that was created again, if `failOnDataLoss` is set.
    """
    from pyspark_zkafka.group.offsets import GroupOffsets, report_outdated

    group = options.group or ""
    zookeeper = cluster.zookeeper if isinstance(cluster, ZooKeeperSource) else None
    with GroupOffsets(options.connection, servers, group, options.stores, zookeeper) as offsets:
        committed = offsets.committed(partitions)
        if not committed and options.reset is None and not offsets.committed(list(snapshot.states)):
            groups = offsets.group_names()
            near = None if group in groups else nearest(group, groups)
            known = f"groups with offsets: {listing(groups) or 'none'}" if near is None else f"did you mean {near}?"
            raise NO_GROUP_OFFSETS(
                f"Group {group} has no offset in {listing(snapshot.topics)}, and startingOffsets is committed ({known}); "
                "correct group.id, or say where to start: set startingOffsets to earliest, or auto.offset.reset for the "
                "partitions without an offset",
            )
    stale = outdated(committed, snapshot)
    if stale:
        report_outdated(stale, committed, options.fail_on_data_loss)
    return {tp: EARLIEST if tp in stale else stored.offset for tp, stored in committed.items()}
