"""Parse options of streaming reads into frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark_zkafka.conditions import INVALID_OPTIONS
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.java_patterns import FilterError
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.planning import Assign, Subscribe, SubscribePattern, TriggerLimits
from pyspark_zkafka.model.topic_names import topic_filter
from pyspark_zkafka.model.znodes.codec import is_znode_name
from pyspark_zkafka.model.znodes.groups import MAX_THREADS, consumer_id, normalise_filter
from pyspark_zkafka.options.batch import offset_spec, parse_read, read_options
from pyspark_zkafka.options.client_properties import (
    LIBRDKAFKA_WITHOUT_KERBEROS,
    has_kerberos_login,
    is_librdkafka_without_kerberos,
)
from pyspark_zkafka.options.kinds import INT32
from pyspark_zkafka.options.option import STREAM
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import BY_NAME, KAFKA_STRATEGIES
from pyspark_zkafka.options.values import (
    MAX_POLL_INTERVAL_MS,
    GroupMembership,
    GroupOptions,
    KafkaGroupOptions,
    ReadOptions,
    StreamOptions,
)

_STRATEGY = "partition.assignment.strategy"
_HOLD_SHARE = 10  # a hold lasts a tenth of max.poll.interval.ms, for which other members wait


def parse_stream(raw: Mapping[str, str]) -> StreamOptions:
    """Parse the options of a streaming read. Raises INVALID_OPTIONS with all problems."""
    given = OptionParser(raw, "stream")
    read = read_options(given, offset_spec(given, "starting", "committed" if given.has("group.id") else LATEST))
    limits = TriggerLimits(**given.fields(TriggerLimits))
    given.refuse_if(
        limits.max_records is not None and (limits.min_records or 0) > limits.max_records,
        "minOffsetsPerTrigger is larger than maxOffsetsPerTrigger; lower it",
    )
    group = _group(given, read)
    given.finish()
    subscription = read.subscription
    waits = group is not None and group.join
    if isinstance(subscription, SubscribePattern):
        waits = True
        if group is not None and group.membership in ("auto", "zookeeper"):
            # All members of a group in ZooKeeper use the old consumer's form of the regex.
            pattern = normalise_filter(subscription.pattern)
            read = replace(read, subscription=replace(subscription, pattern=pattern))
    if waits and not given.has("missingTopics"):
        read = replace(read, missing_topics=None)
    return StreamOptions(read, limits, group)


def parse_either(raw: Mapping[str, str]) -> ReadOptions:
    """Parse the options as a batch read, else as a stream: Spark's request for a schema does not say which it is.

    If both fail, raise the problems of the kind of read that the names of the options imply. If the names imply neither,
    raise the shorter list of problems.
    """
    try:
        return parse_read(raw)
    except OptionError as as_batch:
        if as_batch.condition != INVALID_OPTIONS.name:
            raise
        try:
            return parse_stream(raw).read
        except OptionError as as_stream:
            scopes = [BY_NAME[name.lower()].scopes for name in raw if name.lower() in BY_NAME]
            if any("read" in of_option and "stream" not in of_option for of_option in scopes):
                raise as_batch from None
            if STREAM in scopes:
                raise as_stream from None
            raise min(as_batch, as_stream, key=lambda error: len(error.parameters["problems"])) from None


def _group(given: OptionParser, read: ReadOptions) -> GroupOptions | None:
    if read.group is None:
        return None
    retries, backoff_ms = given.value("rebalance.max.retries"), given.value("rebalance.backoff.ms")
    poll_ms = int(read.connection.kafka.get("max.poll.interval.ms", MAX_POLL_INTERVAL_MS))
    membership: GroupMembership = given.value("groupMembership")
    hold_ms: int | None = given.value("rebalance.hold.ms")
    in_kafka, strategy = given.joins_kafka, given.text(_STRATEGY).lower()
    options = GroupOptions(
        name=read.group,
        membership="kafka" if in_kafka else membership,
        strategy=given.value(_STRATEGY, "cooperative-sticky" if in_kafka else "range"),
        hold_ms=min(retries * backoff_ms // 2, INT32) if hold_ms is None else hold_ms,
        kafka=KafkaGroupOptions(
            strategy=strategy if strategy in KAFKA_STRATEGIES else "cooperative-sticky",
            max_poll_interval_ms=poll_ms,
            hold_ms=poll_ms // _HOLD_SHARE if hold_ms is None else hold_ms,
            **given.fields(KafkaGroupOptions),
        ),
        **given.fields(GroupOptions),
    )
    if in_kafka:
        _check_kafka_member(given, options.kafka, read.connection.kafka)
    if options.join:
        given.refuse_if(
            isinstance(read.subscription, Assign),
            "assign leaves nothing for the group to assign; use subscribe, or set groupMembership to none",
        )
        if not in_kafka:
            _check_zookeeper_member(given, read, options)
    return options


def _check_kafka_member(given: OptionParser, options: KafkaGroupOptions, kafka: Mapping[str, Any]) -> None:
    given.refuse_if(
        has_kerberos_login(kafka) and is_librdkafka_without_kerberos(),
        "a member of a group that Kafka coordinates, with kafka.sasl.mechanism=GSSAPI, needs "
        f"{LIBRDKAFKA_WITHOUT_KERBEROS}; or set groupMembership to none or zookeeper",
    )
    given.refuse_if(
        options.protocol == "classic" and options.session_timeout_ms > options.max_poll_interval_ms,
        f"session.timeout.ms is {options.session_timeout_ms}, more than kafka.max.poll.interval.ms, which is "
        f"{options.max_poll_interval_ms}; lower it",
    )


def _check_zookeeper_member(given: OptionParser, read: ReadOptions, group: GroupOptions) -> None:
    given.refuse_if(
        group.consumer_id is not None and not is_znode_name(consumer_id(group.name, group.consumer_id)),
        f"consumer.id is {group.consumer_id!r}; a znode is named after it, which cannot contain '/' or control characters",
    )
    topics = len(read.subscription.topics) if isinstance(read.subscription, Subscribe) else 1
    given.refuse_if(
        group.threads * topics > MAX_THREADS,
        f"consumer.threads is {group.threads}; a member has at most {MAX_THREADS} over all its topics",
    )
    if isinstance(read.subscription, SubscribePattern):
        _check_filter(given, read.subscription)


def _check_filter(given: OptionParser, subscription: SubscribePattern) -> None:
    regex = normalise_filter(subscription.pattern)
    reason = "" if regex else "that matches nothing"
    try:
        topic_filter(regex)
    except FilterError as error:
        reason = f"which is not a regular expression that members can evaluate ({error})"
    read_as = f"{subscription.option} is {subscription.pattern!r}, which a group's members read as {regex!r}"
    given.refuse_if(bool(reason), f"{read_as}, {reason}; commas stand for '|', and blanks are ignored")
