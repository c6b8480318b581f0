"""``zkafka topics create``, ``alter`` and ``delete``, by the brokers' API as kafka-topics.

References
----------
org.apache.kafka.tools.TopicCommand (Kafka 3.9.1).
"""

from __future__ import annotations

from typing import Annotated

import typer

from pyspark_zkafka.conditions import TOPIC_REFUSED
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.checkpoint import TopicIdentity
from pyspark_zkafka.model.znodes.cluster import delete_topic_path
from pyspark_zkafka.options.kinds import TOPIC
from pyspark_zkafka.tools.admin import WAIT_S, NoWait, Timeout, Topics, follow, require_deletable, write_deleted
from pyspark_zkafka.tools.admin_config import parse_settings
from pyspark_zkafka.tools.command import Target, Topic, changes_cluster, open_servers, require_topics
from pyspark_zkafka.tools.output import columns

_BROKERS_DEFAULT = -1
_MOST_PARTITIONS, _MOST_REPLICAS = 100_000, 10_000
"""librdkafka's limits."""
_CREATED = columns("topic partitions replication config", right="partitions replication")
_ALTERED = columns("topic partitions new_partitions", right="partitions new_partitions")

_MorePartitions = Annotated[
    int, typer.Option("--partitions", min=1, max=_MOST_PARTITIONS, metavar="N", help="The new number of partitions.")
]


@changes_cluster
def create(
    target: Target,
    topic: Topic,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_MOST_PARTITIONS,
            metavar="N",
            help="The number of partitions; by default, the brokers' num.partitions.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_MOST_REPLICAS,
            metavar="N",
            help="The number of replicas of each partition; by default, the brokers' default.replication.factor.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topic; repeatable.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists.")] = False,
) -> None:
    """Create a topic. The brokers check the request before it is confirmed.

    Example: zkafka topics create orders --partitions 12 --replication-factor 3 --config retention.ms=604800000
    """
    TOPIC.read("TOPIC", topic)
    settings = parse_settings(config or ())
    counts = (partitions or _BROKERS_DEFAULT, replication_factor or _BROKERS_DEFAULT)
    with open_servers(target) as servers:
        admin = servers.admin
        if if_not_exists and topic in admin.snapshot([topic]).topics:
            target.output.rows([], _CREATED)
            target.output.note(f"Topic {topic} exists already; nothing was changed.")
            return
        admin.create_topic(topic, *counts, settings, validate_only=True)
        row = {"topic": topic, "partitions": partitions, "replication": replication_factor, "config": settings}
        target.output.rows([row], _CREATED)
        if target.proceed(f"Create topic {topic}?"):
            admin.create_topic(topic, *counts, settings, validate_only=False)
            target.output.note(f"Created topic {topic}.")


@changes_cluster
def alter(target: Target, topic: Topic, partitions: _MorePartitions) -> None:
    """Add partitions to a topic. New records of a key may then go to a different partition.

    Example: zkafka topics alter orders --partitions 24 --bootstrap-server broker1:9092
    """
    TOPIC.read("TOPIC", topic)
    with open_servers(target) as servers:
        admin = servers.admin
        found = admin.snapshot([topic]).topics
        require_topics([topic], found)
        present = len(found[topic].partitions)
        if partitions <= present:
            raise TOPIC_REFUSED(
                f"Topic {topic} has {present} partitions, and their number can only grow; use a number above {present}"
            )
        admin.add_partitions(topic, partitions, validate_only=True)
        target.output.rows([{"topic": topic, "partitions": present, "new_partitions": partitions}], _ALTERED)
        target.output.note("Later records of a key may go to another partition, unless their producer chooses it.")
        if target.proceed(f"Add {partitions - present} partition(s) to topic {topic}?"):
            admin.add_partitions(topic, partitions, validate_only=False)
            target.output.note(f"Topic {topic} has {partitions} partitions.")


@changes_cluster
def delete(target: Target, topics: Topics, no_wait: NoWait = False, timeout: Timeout = WAIT_S) -> None:
    """Delete topics with all their records, and wait until they are gone.

    Example: zkafka topics delete old-orders --bootstrap-server broker1:9092
    """
    for topic in topics:
        TOPIC.read("TOPIC", topic)
    with open_servers(target) as servers:
        admin = servers.admin
        found = admin.snapshot(dict.fromkeys(topics))
        require_deletable(topics, found)
        if target.dry_run or not target.output.as_json:
            write_deleted(target, found)
        if not target.proceed(f"Delete {len(found.topics)} topics and all their records?"):
            return
        requested: list[str] = []
        try:
            for topic in found.topics:
                admin.delete_topic(topic)
                requested.append(topic)
        except ZKafkaError:
            if requested:
                target.output.note(f"The brokers delete {', '.join(requested)}, but not the other topics.")
            raise

        def remaining() -> list[str]:
            present = admin.snapshot(found.topics).topics
            left = {name for name, topic in present.items() if not TopicIdentity.of(found.topics[name]).differs_from(topic)}
            if servers.zookeeper is not None:  # the controller waits for the replicas on brokers that are down
                marks = {delete_topic_path(name): name for name in found.topics}
                left |= {marks[path] for path in servers.zookeeper.exists_many(marks)}
            return sorted(left)

        if no_wait:
            target.output.note("The deletion was requested.")
        else:
            with target.output.progress("topics deleted", len(requested)) as set_done:
                for left in follow(remaining, lambda left: not left, timeout):
                    set_done(len(requested) - len(left))
            target.output.note(f"Deleted: {', '.join(requested)}")
        if target.output.as_json:
            write_deleted(target, found)
