"""Options of a member of a group: who coordinates the group, and what that requires."""

from __future__ import annotations

from pyspark_zkafka.options.model import KafkaGroupOptions, Membership
from pyspark_zkafka.options.parser import OptionParser

__all__ = ["KAFKA_STRATEGIES", "joins_kafka", "kafka_group_options", "kafka_member_problems"]

KAFKA_STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
"""Assignors of groups that Kafka coordinates, of those that librdkafka and Java have in common."""

_STRATEGY = "partition.assignment.strategy"
_OF_ZOOKEEPER = ("consumer.id", "consumer.threads", "rebalance.max.retries", "rebalance.backoff.ms")
_OF_KAFKA = ("group.protocol", "group.instance.id", "session.timeout.ms")


def joins_kafka(given: OptionParser) -> bool:
    """True if a stream becomes a member of a group that Kafka coordinates, whatever the cluster turns out to be."""
    named = given.text("groupMembership").lower()
    is_auto = named in ("", "auto") and given.has("group.id") and not given.has("zookeeper.connect")
    return given.scope == "stream" and (named == "kafka" or is_auto)


def kafka_group_options(given: OptionParser, max_poll_interval_ms: int) -> KafkaGroupOptions:
    """What concerns Kafka's groups alone; a strategy that they do not have counts as not given."""
    strategy = given.text(_STRATEGY).lower()
    return KafkaGroupOptions(
        protocol=given.value("group.protocol"),
        strategy=strategy if strategy in KAFKA_STRATEGIES else "cooperative-sticky",
        instance_id=given.value("group.instance.id"),
        session_timeout_ms=given.value("session.timeout.ms"),
        max_poll_interval_ms=max_poll_interval_ms,
    )


def kafka_member_problems(given: OptionParser, membership: Membership, options: KafkaGroupOptions) -> list[str]:
    """A text for each option that contradicts the membership."""
    if membership != "kafka":
        of_kafka = [name for name in _OF_KAFKA if given.has(name)]
        return [f"{name} concerns groups that Kafka coordinates; set groupMembership=kafka" for name in of_kafka]
    idle = [name for name in _OF_ZOOKEEPER if given.has(name)]
    problems = [f"{name} concerns groups in ZooKeeper, and has no effect with groupMembership=kafka" for name in idle]
    strategy = given.text(_STRATEGY).lower()
    if strategy and strategy not in KAFKA_STRATEGIES:
        known = ", ".join(KAFKA_STRATEGIES)
        problems.append(f"{_STRATEGY} is {strategy}, which Kafka's groups do not have; use one of {known}")
    if options.protocol == "consumer":
        by_brokers = {_STRATEGY: "group.consumer.assignors", "session.timeout.ms": "group.consumer.session.timeout.ms"}
        problems.extend(
            f"{name} has no effect with group.protocol=consumer: the brokers' {decides} decides"
            for name, decides in by_brokers.items()
            if given.has(name)
        )
    elif options.session_timeout_ms > options.max_poll_interval_ms:
        problems.append(
            f"session.timeout.ms is {options.session_timeout_ms}, more than kafka.max.poll.interval.ms, which is "
            f"{options.max_poll_interval_ms}; lower it"
        )
    return problems
