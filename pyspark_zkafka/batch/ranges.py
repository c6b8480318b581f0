"""Partitions and ranges of a batch read, given the cluster's state and facts about its logs; without I/O."""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyspark_zkafka.data_loss import report_data_loss
from pyspark_zkafka.options.model import ReadOptions
from pyspark_zkafka.protocol.model import ClusterSnapshot, OffsetRange, TopicPartition
from pyspark_zkafka.protocol.offsets import AtTimestamp, OffsetBounds, resolve
from pyspark_zkafka.protocol.planning import Subscription, describe_offline, subscribed_partitions
from pyspark_zkafka.protocol.pushdown import PushedFilters

__all__ = ["readable_partitions", "resolve_ranges"]

_log = logging.getLogger(__name__)


def readable_partitions(
    subscription: Subscription, snapshot: ClusterSnapshot, *, skip_offline: bool
) -> list[TopicPartition]:
    """The subscribed partitions, without those that have no leader, which are logged if they are to be skipped.

    Raises
    ------
    NoLeader
        A partition has no leader, and is not to be skipped.
    """
    partitions = subscribed_partitions(subscription, snapshot)
    offline = snapshot.without_leader(partitions)
    if not offline:
        return partitions
    error = describe_offline(offline, snapshot)
    if not skip_offline:
        raise error
    _log.warning("skipped, as offlinePartitions is skip: %s", error)
    left_out = set(offline)
    return [tp for tp in partitions if tp not in left_out]


def resolve_ranges(
    options: ReadOptions,
    partitions: Collection[TopicPartition],
    subscribed: Collection[TopicPartition],
    bounds: OffsetBounds,
    pushed: PushedFilters | None = None,
) -> list[OffsetRange]:
    """The ranges to read of partitions, which are all that are subscribed, or those that `pushed` filters admit.

    Raises
    ------
    DataLoss
        An offset is outside of its log, and `failOnDataLoss` is set.
    OptionError, ClusterStateError
        The options do not fit the topics or the logs; see `resolve`.
    """
    resolution = resolve(
        partitions,
        options.start,
        options.end,
        bounds,
        reset=options.reset,
        no_match=options.no_match,
        subscribed=subscribed,
    )
    if resolution.outside:
        text = "; ".join(map(str, resolution.outside))
        remedy = "correct the offsets, or set failOnDataLoss to false"
        fail, otherwise = options.fail_on_data_loss, "reading what is there"
        report_data_loss("OFFSET_OUT_OF_RANGE", text, fail=fail, remedy=remedy, otherwise=otherwise)
    if pushed is None:
        return list(resolution.ranges)
    since = {} if pushed.since_ms is None else dict.fromkeys(partitions, AtTimestamp(pushed.since_ms))
    first_since = bounds.list_offsets(since)
    return [pushed.cut(r, first_since) for r in resolution.ranges]
