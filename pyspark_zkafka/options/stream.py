"""Options of streaming reads, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import lacks_zookeeper, parse_read, read_options, starting
from pyspark_zkafka.options.membership import joins_kafka, kafka_group_options, kafka_member_problems
from pyspark_zkafka.options.model import GroupOptions, Membership, ReadOptions, StreamOptions
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import BY_NAME, STREAM, TABLE
from pyspark_zkafka.protocol.assignors import STRATEGIES
from pyspark_zkafka.protocol.limits import TriggerLimits
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.protocol.planning import Assign, Subscribe, SubscribeExcept, SubscribePattern
from pyspark_zkafka.protocol.topic_filters import FilterError, topic_filter
from pyspark_zkafka.protocol.znodes.groups import MAX_THREADS, consumer_id, normalise_filter
from pyspark_zkafka.protocol.znodes.paths import is_znode_name

__all__ = ["parse_either", "parse_stream"]


def parse_stream(raw: Mapping[str, str]) -> StreamOptions:
    """The frozen options of a streaming read; raises INVALID_OPTIONS with every problem in one text."""
    given = OptionParser(raw, "stream")
    start = starting(given, "committed" if given.has("group.id") else LATEST, None)
    read = read_options(given, start)
    options = StreamOptions(read, _limits(given), _group(given, read))
    given.finish()
    is_member = options.group is not None and options.group.join
    if (is_member or isinstance(read.subscription, (SubscribePattern, SubscribeExcept))) and not given.has("missingTopics"):
        read = replace(read, missing_topics="wait")
        options = replace(options, read=read)
    in_zookeeper = options.group is not None and options.group.membership in ("auto", "zookeeper")
    return replace(options, read=_as_member(read)) if in_zookeeper else options


def parse_either(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a batch read, or else a stream's in common with it: Spark's request for a schema does not say which.

    If they fit neither, the problems are those of the one that the names of the options imply, or else the fewer ones.
    """
    try:
        return parse_read(raw)
    except OptionError as as_batch:
        try:
            return parse_stream(raw).read
        except OptionError as as_stream:
            scopes = [BY_NAME[name.lower()].scopes for name in raw if name.lower() in BY_NAME]
            if any("read" in of_option and "stream" not in of_option for of_option in scopes):
                raise as_batch from None
            if STREAM in scopes:
                raise as_stream from None
            raise min(as_batch, as_stream, key=lambda error: len(error.parameters["problems"])) from None


def _limits(given: OptionParser) -> TriggerLimits:
    limits = TriggerLimits(
        max_records=given.value("maxOffsetsPerTrigger"),
        max_bytes=given.value("maxBytesPerTrigger"),
        min_records=given.value("minOffsetsPerTrigger"),
        max_delay_ms=given.value("maxTriggerDelay"),
    )
    given.refuse_if(
        limits.max_records is not None and (limits.min_records or 0) > limits.max_records,
        "minOffsetsPerTrigger is larger than maxOffsetsPerTrigger; lower it",
    )
    return limits


def _group(given: OptionParser, read: ReadOptions) -> GroupOptions | None:
    retries, backoff_ms = given.value("rebalance.max.retries"), given.value("rebalance.backoff.ms")
    poll_ms = int(read.connection.kafka.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS))
    membership: Membership = given.value("groupMembership")
    in_kafka = joins_kafka(given)
    hold_ms = poll_ms // _HOLD_SHARE if in_kafka else retries * backoff_ms // 2
    options = GroupOptions(
        name=read.group or "",
        membership="kafka" if in_kafka else membership,
        consumer_id=given.value("consumer.id"),
        threads=given.value("consumer.threads"),
        strategy=given.value("partition.assignment.strategy", "cooperative-sticky" if in_kafka else "range"),
        max_retries=retries,
        backoff_ms=backoff_ms,
        hold_ms=given.value("rebalance.hold.ms", hold_ms),
        kafka=kafka_group_options(given, poll_ms),
    )
    if read.group is None:
        names = [o.name for o in TABLE if o.scopes == STREAM and o.name.startswith(_MEMBER_OPTIONS)]
        given.problems.extend(f"{name} needs group.id" for name in names if given.has(name))
        return None
    given.problems.extend(kafka_member_problems(given, options.membership, options.kafka))
    if options.join:
        given.refuse_if(
            isinstance(read.subscription, Assign),
            "assign leaves nothing for the group to assign; use subscribe, or set groupMembership to none",
        )
        if not in_kafka:
            _check_zookeeper_member(given, read, options)
    return options


_MEMBER_OPTIONS = ("group", "consumer.", "partition.assignment.", "rebalance.", "session.")
_MAX_POLL_INTERVAL_MS = 300_000  # librdkafka's default, and Java's
_HOLD_SHARE = 10  # of max.poll.interval.ms, for which other members wait


def _check_zookeeper_member(given: OptionParser, read: ReadOptions, group: GroupOptions) -> None:
    given.refuse_if(
        lacks_zookeeper(given, read.connection),
        "members of a group register in ZooKeeper; set zookeeper.connect, or groupMembership to kafka or none",
    )
    given.refuse_if(
        group.strategy not in STRATEGIES,
        f"partition.assignment.strategy is {group.strategy}, which groups in ZooKeeper do not have; use one of "
        f"{', '.join(STRATEGIES)}, or set groupMembership=kafka",
    )
    given.refuse_if(
        group.consumer_id is not None and not is_znode_name(consumer_id(group.name, group.consumer_id)),
        f"consumer.id is {group.consumer_id!r}; a znode is named after it, which cannot contain '/' or control characters",
    )
    topics = len(read.subscription.topics) if isinstance(read.subscription, Subscribe) else 1
    given.refuse_if(
        group.threads * topics > MAX_THREADS,
        f"consumer.threads is {group.threads}; a member has {MAX_THREADS} at most, over all its topics",
    )
    if isinstance(read.subscription, (SubscribePattern, SubscribeExcept)):
        _check_filter(given, read.subscription)


def _check_filter(given: OptionParser, subscription: SubscribePattern | SubscribeExcept) -> None:
    name = "subscribePattern" if isinstance(subscription, SubscribePattern) else "subscribeExceptPattern"
    regex = normalise_filter(subscription.pattern)
    reason = "" if regex else "that matches nothing"
    try:
        topic_filter(regex)
    except FilterError as error:
        reason = f"which is not a regular expression that members can evaluate ({error})"
    read_as = f"{name} is {subscription.pattern!r}, which a group's members read as {regex!r}"
    given.refuse_if(bool(reason), f"{read_as}, {reason}; commas stand for '|', and blanks are ignored")


def _as_member(read: ReadOptions) -> ReadOptions:
    """The options with a filter's regex in the form that all members of the group use."""
    subscription = read.subscription
    if isinstance(subscription, (SubscribePattern, SubscribeExcept)):
        return replace(read, subscription=replace(subscription, pattern=normalise_filter(subscription.pattern)))
    return read
