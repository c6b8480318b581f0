"""Plan the splits that Spark's tasks read, from a subscription, a cluster snapshot and offset ranges."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import groupby
from statistics import fmean
from typing import Annotated, NamedTuple

from pyspark_zkafka.conditions import NO_LEADER, NO_TOPIC_MATCHES, OFFSETS_DO_NOT_MATCH, UNKNOWN_TOPIC
from pyspark_zkafka.errors import NoLeader, UnknownTopic, listing, nearest
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import OffsetSpec
from pyspark_zkafka.model.topic_names import topic_filter

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_MAX_SUGGESTIONS = 5  # each unknown name is compared with all topics
_UNKNOWN_RECORD_BYTES = 1024.0
_Ranges = Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of named topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose whole name matches a regular expression. With `excludes`, of all other topics."""

    pattern: str
    excludes: bool = False

    @property
    def option(self) -> str:
        return "subscribeExceptPattern" if self.excludes else "subscribePattern"


@dataclass(frozen=True, slots=True)
class Assign:
    """Named partitions."""

    partitions: tuple[TopicPartition, ...]


Subscription = Subscribe | SubscribePattern | Assign


class Split(NamedTuple):
    """The range `[start, until)` of one partition, with everything that a task needs to read it without ZooKeeper.

    `endpoints` are the ``host:port`` of the leader and the ISR. Brokers in the client's rack come first, then the leader.
    If unknown, `leader_epoch` is -1, and `topic_id` and `czxid` are None.
    """

    partition: TopicPartition
    start: int
    until: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    endpoints: tuple[str, ...]
    topic_id: str | None = None
    czxid: int | None = None

    @property
    def size(self) -> int:
        """The number of offsets in the split."""
        return self.until - self.start


def requested_topics(subscription: Subscription, names: Iterable[str] = ()) -> list[str]:
    """Return the topics to look up, sorted and without duplicates. A pattern selects from the cluster's topics, `names`.

    A pattern never selects Kafka's internal topics, as in Spark's own source. They can be read by name.
    """
    if isinstance(subscription, Subscribe):
        return sorted(set(subscription.topics))
    if isinstance(subscription, Assign):
        return sorted({tp.topic for tp in subscription.partitions})
    candidates = set(names) - INTERNAL_TOPICS
    chosen = topic_filter(subscription.pattern).select(candidates)
    return sorted(candidates - chosen if subscription.excludes else chosen)


def subscribed_partitions(subscription: Subscription, snapshot: ClusterSnapshot) -> list[TopicPartition]:
    """Return the subscribed partitions that exist, ordered by topic and number. See `missing_topics` for the others."""
    existing = [tp for topic in requested_topics(subscription, snapshot.topics) for tp in snapshot.partitions(topic)]
    if not isinstance(subscription, Assign):
        return existing
    assigned = set(subscription.partitions)
    return [tp for tp in existing if tp in assigned]


def missing_topics(subscription: Subscription, snapshot: ClusterSnapshot) -> list[str]:
    """Return the subscribed topics and partitions that do not exist, or a pattern that selects nothing."""
    if isinstance(subscription, SubscribePattern):
        return [] if requested_topics(subscription, snapshot.topics) else [subscription.pattern]
    missing = [topic for topic in requested_topics(subscription) if topic not in snapshot.topics]
    if isinstance(subscription, Assign):
        unknown = set(subscription.partitions).difference(subscribed_partitions(subscription, snapshot))
        missing += [str(tp) for tp in sorted(unknown) if tp.topic in snapshot.topics]
    return missing


def check_named(
    spec: OffsetSpec,
    subscription: Subscription,
    snapshot: ClusterSnapshot,
    partitions: Collection[TopicPartition],
    optional: Collection[TopicPartition] = (),
) -> None:
    """Raise OptionError if a start or end names an unsubscribed partition, or omits a partition that is not `optional`.

    A start or end may name subscribed topics, and partitions of `assign`, that do not exist yet.
    """
    topics = set(requested_topics(subscription, {*spec.by_topic, *(tp.topic for tp in spec.by_partition)}))
    assigned = set(subscription.partitions) if isinstance(subscription, Assign) else None

    def is_subscribed(tp: TopicPartition) -> bool:
        if assigned is not None:
            return tp in assigned
        topic = snapshot.topics.get(tp.topic)
        return tp.topic in topics and (topic is None or tp.partition in topic.partitions)

    unknown = sorted(
        [str(tp) for tp in spec.by_partition if not is_subscribed(tp)]
        + [topic for topic in spec.by_topic if topic not in topics]
    )
    if unknown:
        raise OFFSETS_DO_NOT_MATCH(
            f"{spec.option} names {listing(unknown)}, which this read does not contain; "
            f"it contains {listing(partitions) or 'nothing yet'}. Correct the topic names and partition numbers",
        )
    missing = [str(tp) for tp in partitions if spec.of(tp) is None and tp not in optional]
    if missing:
        raise OFFSETS_DO_NOT_MATCH(
            f"{spec.option} does not name {listing(missing)}; name every partition (or the whole topic), "
            "or, for a start, set auto.offset.reset",
        )


def describe_missing(
    subscription: Subscription, missing: Sequence[str], names: Collection[str], *, may_wait: bool
) -> UnknownTopic:
    """Return the error for `missing_topics`, which is not empty.

    The error suggests the nearest of `names`, the cluster's topics, and without `may_wait` also ``missingTopics=wait``.
    """
    remedy = "" if may_wait else "; with missingTopics=wait a stream waits for it, and a batch reads the others"
    if isinstance(subscription, SubscribePattern):
        leaves = "excludes every" if subscription.excludes else "matches no"
        shown = listing(sorted(set(names) - INTERNAL_TOPICS)) or "no topics that this user may see"
        return NO_TOPIC_MATCHES(
            f"{subscription.option} {subscription.pattern!r} {leaves} topic (it must match the whole name); "
            f"the cluster has {shown}. Correct the pattern or create a topic{remedy}",
            missing=list(missing),
        )
    unknown = [name for name in requested_topics(subscription) if name in missing][:_MAX_SUGGESTIONS]
    similar = {name: near for name in unknown if (near := nearest(name, names)) is not None}
    shown = ", ".join(f"{name} (did you mean {similar[name]}?)" if name in similar else name for name in missing)
    return UNKNOWN_TOPIC(
        f"There is no topic or partition {shown}; correct the subscription or create it{remedy}",
        missing=list(missing),
    )


def describe_offline(partitions: Collection[TopicPartition], snapshot: ClusterSnapshot) -> NoLeader:
    """Return the error for partitions without a live leader."""
    return NO_LEADER(
        f"{offline_text(partitions, snapshot)}; start a broker of the ISR, or set offlinePartitions to skip to read the "
        "others",
        partitions=list(partitions),
    )


def offline_text(partitions: Collection[TopicPartition], snapshot: ClusterSnapshot) -> str:
    """Describe partitions without a live leader, with the ISR of the first ten."""

    def isr(partition: TopicPartition) -> str:
        state = snapshot.states.get(partition)
        return "unknown: being created" if state is None else ", ".join(map(str, state.isr)) or "empty"

    return f"No live leader for {listing((f'{tp} (ISR {isr(tp)})' for tp in partitions), separator='; ')}"


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """Limits that decide when a micro-batch is due, and how much it reads. None means no limit."""

    max_records: Annotated[int | None, "maxOffsetsPerTrigger"] = None
    max_bytes: Annotated[int | None, "maxBytesPerTrigger"] = None
    min_records: Annotated[int | None, "minOffsetsPerTrigger"] = None
    max_delay_ms: Annotated[int, "maxTriggerDelay"] = 15 * 60 * 1000

    @property
    def is_unlimited(self) -> bool:
        return self.max_records is None and self.max_bytes is None and self.min_records is None

    def holds_back(self, available_records: int, since_last_ms: float) -> bool:
        """Return True if the micro-batch must wait for more records, as KafkaMicroBatchStream.delayBatch of Spark 4.2 does.

        `available_records` is the whole backlog, in offsets. `since_last_ms` is the time since a micro-batch was last due.
        It is infinite at the first planning call of a run, so that the first micro-batch never waits.
        """
        return available_records < (self.min_records or 0) and since_last_ms < self.max_delay_ms

    def apply(self, ranges: _Ranges, record_bytes: Mapping[TopicPartition, float]) -> dict[TopicPartition, OffsetRange]:
        """Shorten each range to the stricter of the limits in records and in bytes.

        Each partition gets a share in proportion to its backlog in records or bytes, rounded down, but at least one record.
        The total exceeds `max_records` by less than one record per partition. KafkaMicroBatchStream.rateLimit of Spark 4.2
        computes in doubles.

        `record_bytes` is the mean size of each partition's records. A mean below one byte counts as one byte. A partition
        without a size gets the mean of the other partitions, or 1 KiB.
        """
        limited = [dict(ranges)]
        if self.max_records is not None:
            limited.append(_shorten(ranges, self.max_records, sum(r.size for r in ranges.values())))
        if self.max_bytes is not None:
            otherwise = fmean(record_bytes.values()) if record_bytes else _UNKNOWN_RECORD_BYTES
            sizes = {tp: Fraction(max(record_bytes.get(tp, otherwise), 1)) for tp in ranges}
            total = sum((r.size * sizes[tp] for tp, r in ranges.items()), Fraction())
            limited.append(_shorten(ranges, self.max_bytes, total))
        return {tp: min((found[tp] for found in limited), key=lambda r: r.until) for tp in ranges}


def _shorten(ranges: _Ranges, limit: int, total: int | Fraction) -> dict[TopicPartition, OffsetRange]:
    """Shorten all ranges in the ratio of `limit` to `total`, which are both in records or both in bytes."""
    # Exact arithmetic, as offsets may exceed the precision of a double.
    shares = {tp: max(limit * r.size // total, 1) for tp, r in ranges.items() if r.size > 0}
    return {tp: replace(r, until=min(r.start + shares[tp], r.until)) if tp in shares else r for tp, r in ranges.items()}


def split_ranges(
    ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut the ranges as KafkaOffsetRangeCalculator of Spark 4.2 does, and leave out empty ranges.

    Each range is first cut into parts of at most `max_records`. If there are fewer parts than `min_partitions`, large parts
    are cut further, in proportion to their sizes. Parts that stay whole are left out of the proportion, so that the final
    number of parts is only about `min_partitions`.
    """
    parts = [r for r in ranges if r.size > 0]
    if max_records is not None:
        parts = [part for r in parts for part in _cut(r, -(-r.size // max_records))]
    if min_partitions is None or min_partitions <= len(parts):
        return parts
    total = sum(r.size for r in parts)
    whole = {r for r in parts if _share(r.size, total, min_partitions) == 1}
    rest_total = total - sum(r.size for r in whole)
    rest_parts = min_partitions - len(whole)  # at least 1, as there are fewer parts than `min_partitions`
    cuts = ([r] if r in whole else _cut(r, _share(r.size, rest_total, rest_parts)) for r in parts)
    return [part for cut in cuts for part in cut]


def _share(size: int, total: int, parts: int) -> int:
    """Return a range's share of `parts`, rounded half up, as by Java's Math.round, and at least 1."""
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into `parts` nearly equal parts, the larger parts last. Each part has at least one offset."""
    cuts: list[OffsetRange] = []
    start, parts = whole.start, min(parts, whole.size)
    for part in range(parts):
        until = start + (whole.until - start) // (parts - part)
        cuts.append(replace(whole, start=start, until=until))
        start = until
    return cuts


def make_splits(
    ranges: Iterable[OffsetRange], snapshot: ClusterSnapshot, client_rack: str | None, listener: Listener
) -> list[Split]:
    """Return a split for each range, in order, with the topic's identity and the endpoints of brokers."""

    @cache
    def endpoints(leader: int, isr: tuple[int, ...]) -> tuple[str, ...]:
        in_sync = [snapshot.brokers[b] for b in dict.fromkeys([leader, *isr]) if b in snapshot.brokers]
        nearest_first = sorted(in_sync, key=lambda b: client_rack is not None and b.rack != client_rack)
        return tuple(str(e) for b in nearest_first if (e := listener.endpoint(b)) is not None)

    splits = []
    for r in ranges:
        state, topic = snapshot.states[r.partition], snapshot.topics[r.partition.topic]
        splits.append(
            Split(
                partition=r.partition,
                start=r.start,
                until=r.until,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                endpoints=endpoints(state.leader, state.isr),
                topic_id=topic.topic_id,
                czxid=topic.czxid,
            )
        )
    return splits


@dataclass(frozen=True, slots=True)
class Listener:
    """The choice of a broker's endpoint: by the listener's `name`, or else the first endpoint with `security_protocol`."""

    name: str | None = None
    security_protocol: str = "PLAINTEXT"

    def endpoint(self, broker: Broker) -> Endpoint | None:
        """Return the broker's endpoint; None if it has no such listener."""
        expected = (self.name or self.security_protocol).upper()
        for endpoint in broker.endpoints:
            if (endpoint.listener if self.name else endpoint.security_protocol).upper() == expected:
                return endpoint
        return None


def coalesce(splits: Iterable[Split], min_records: int | None, max_records: int | None = None) -> list[tuple[Split, ...]]:
    """Group the splits, in order: a group grows until it has `min_records` offsets, or would exceed `max_records`.

    Without `min_records`, each split is a group.
    """
    if min_records is None:
        return [(split,) for split in splits]
    groups: list[list[Split]] = []
    size = 0
    for split in splits:
        has_room = size < min_records and (max_records is None or size + split.size <= max_records)
        if not groups or not has_room:
            groups.append([])
            size = 0
        groups[-1].append(split)
        size += split.size
    return [tuple(group) for group in groups]


def in_fixed_order(splits: Iterable[Split]) -> list[Split]:
    """Sort the splits independently of their leaders. A repeated job or micro-batch therefore has the same tasks.

    The first piece of each partition comes first, then the second pieces, and so on. Partitions are sorted by number first,
    because consecutive partitions of a topic usually have different leaders.
    """
    ordered = sorted(splits, key=lambda split: (split.partition, split.start))
    pieces = (n for _, own in groupby(ordered, key=lambda split: split.partition) for n, _ in enumerate(own))
    ranks = [(n, split.partition.partition, split.partition.topic) for n, split in zip(pieces, ordered, strict=True)]
    return [ordered[index] for index in sorted(range(len(ordered)), key=ranks.__getitem__)]
