"""Options of streaming reads, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import lacks_zookeeper, parse_read, read_options, starting
from pyspark_zkafka.options.model import GroupOptions, ReadOptions, StreamOptions
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import BY_NAME
from pyspark_zkafka.options.table import STREAM as OF_STREAMS
from pyspark_zkafka.protocol.limits import TriggerLimits
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.protocol.planning import Assign, Subscribe, SubscribeExcept, SubscribePattern
from pyspark_zkafka.protocol.topic_filters import FilterError, topic_filter
from pyspark_zkafka.protocol.znodes.groups import MAX_THREADS, normalise_filter

__all__ = ["parse_either", "parse_stream"]


def parse_stream(raw: Mapping[str, str]) -> StreamOptions:
    """The frozen options of a streaming read.

    Raises
    ------
    OptionError
        INVALID_OPTIONS, with every problem in one text.
    """
    given = OptionParser(raw, "stream")
    start = starting(given, "committed" if given.has("group.id") else LATEST, None)
    read = read_options(given, start)
    options = StreamOptions(read, _limits(given), _group(given, read))
    given.finish()
    return options if options.group is None or not options.group.join else replace(options, read=_as_member(read))


def parse_either(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a batch read, or else a stream's in common with it: Spark's request for a schema does not say which.

    Raises
    ------
    OptionError
        They fit neither; with the problems of the one that their names imply, or else of the one with fewer problems.
    """
    try:
        return parse_read(raw)
    except OptionError as as_batch:
        try:
            return parse_stream(raw).read
        except OptionError as as_stream:
            scopes = [BY_NAME[name.lower()].scopes for name in raw if name.lower() in BY_NAME]
            if any("read" in one and "stream" not in one for one in scopes):
                raise as_batch from None
            if OF_STREAMS in scopes:
                raise as_stream from None
            raise min(as_batch, as_stream, key=lambda error: len(error.parameters["problems"])) from None


def _limits(given: OptionParser) -> TriggerLimits:
    limits = TriggerLimits(
        max_records=given.value("maxOffsetsPerTrigger"),
        max_bytes=given.value("maxBytesPerTrigger"),
        min_records=given.value("minOffsetsPerTrigger"),
        max_delay_ms=given.value("maxTriggerDelay"),
    )
    if limits.max_records is not None and (limits.min_records or 0) > limits.max_records:
        given.problems.append("minOffsetsPerTrigger is larger than maxOffsetsPerTrigger; lower it")
    return limits


def _group(given: OptionParser, read: ReadOptions) -> GroupOptions | None:
    retries, backoff_ms = given.value("rebalance.max.retries"), given.value("rebalance.backoff.ms")
    strategy = given.value("partition.assignment.strategy")
    options = GroupOptions(
        name=read.group or "",
        join=given.value("groupMembership"),
        consumer_id=given.value("consumer.id"),
        threads=given.value("consumer.threads"),
        strategy=strategy,
        max_retries=retries,
        backoff_ms=backoff_ms,
        hold_ms=given.value("rebalance.hold.ms", retries * backoff_ms // 2),
    )
    if read.group is None:
        given.problems.extend(f"{name} needs group.id" for name in _OF_MEMBERS if given.has(name))
        return None
    if options.join:
        given.problems.extend(_problems_of_joining(given, read, options))
    return options


_OF_MEMBERS = (
    "groupMembership",
    "consumer.id",
    "consumer.threads",
    "partition.assignment.strategy",
    "rebalance.max.retries",
    "rebalance.backoff.ms",
    "rebalance.hold.ms",
)


def _problems_of_joining(given: OptionParser, read: ReadOptions, group: GroupOptions) -> list[str]:
    problems = []
    if lacks_zookeeper(given, read.connection):
        problems.append("members of a group register in ZooKeeper; set zookeeper.connect, or groupMembership to none")
    if isinstance(read.subscription, Assign):
        problems.append("assign leaves nothing for the group to assign; use subscribe, or set groupMembership to none")
    if group.consumer_id is not None and "/" in group.consumer_id:
        problems.append(f"consumer.id is {group.consumer_id!r}; a znode is named after it, which cannot contain '/'")
    topics = len(read.subscription.topics) if isinstance(read.subscription, Subscribe) else 1
    if group.threads * topics > MAX_THREADS:
        problems.append(f"consumer.threads is {group.threads}; a member has {MAX_THREADS} at most, over all its topics")
    if isinstance(read.subscription, (SubscribePattern, SubscribeExcept)):
        problems.extend(_problems_of_filter(read.subscription))
    return problems


def _problems_of_filter(subscription: SubscribePattern | SubscribeExcept) -> list[str]:
    name = "subscribePattern" if isinstance(subscription, SubscribePattern) else "subscribeExceptPattern"
    regex = normalise_filter(subscription.pattern)
    reason = "that matches nothing" if not regex else None
    try:
        topic_filter(regex)
    except FilterError as error:
        reason = f"which is not a regular expression that members can evaluate ({error})"
    taken = f"{name} is {subscription.pattern!r}, which a group's members read as {regex!r}"
    return [] if reason is None else [f"{taken}, {reason}; commas stand for '|', and blanks are ignored"]


def _as_member(read: ReadOptions) -> ReadOptions:
    """The options with a filter's regex in the form that all members of the group use."""
    subscription = read.subscription
    if isinstance(subscription, (SubscribePattern, SubscribeExcept)):
        return replace(read, subscription=replace(subscription, pattern=normalise_filter(subscription.pattern)))
    return read
