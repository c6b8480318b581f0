"""Deletion of topics through ``/admin/delete_topics``."""

from __future__ import annotations

from collections.abc import Collection

from pyspark_zkafka.conditions import DELETION_DISABLED, INVALID_OPTION
from pyspark_zkafka.model.nouns import ClusterSnapshot
from pyspark_zkafka.model.planning import INTERNAL_TOPICS
from pyspark_zkafka.model.znodes.admin import delete_topic_path
from pyspark_zkafka.model.znodes.topics import topic_path
from pyspark_zkafka.tools.controller import submit
from pyspark_zkafka.tools.topics import require_topics
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create

__all__ = ["DELETE_TOPIC_ENABLE", "existing_topics", "require_deletable", "require_enabled", "start"]

DELETE_TOPIC_ENABLE = "delete.topic.enable"


def require_deletable(topics: Collection[str], snapshot: ClusterSnapshot) -> None:
    """Raise UnknownTopic if a topic does not exist, OptionError if one is Kafka's own."""
    require_topics(topics, snapshot.topics)
    internal = sorted(INTERNAL_TOPICS.intersection(topics))
    if internal:
        raise INVALID_OPTION(f"{', '.join(internal)} is an internal topic of Kafka and must not be deleted; leave it out")


def require_enabled(controller: int, value: str | None) -> None:
    """Raise ClusterStateError if a controller with this value of ``delete.topic.enable`` drops requests for deletion."""
    if value == "false":
        raise DELETION_DISABLED(
            f"{DELETE_TOPIC_ENABLE} is false at broker {controller}, the controller, which drops requests for deletion; "
            "set it to true on all brokers, and restart them",
        )


def start(client: ZooKeeperClient, topics: Collection[str]) -> None:
    """Request the deletion of those of the topics that are not marked for deletion yet."""
    marked = client.admin_state().deletions
    requests = [Create(delete_topic_path(topic), None) for topic in sorted(set(topics).difference(marked))]
    submit(client, list(requests), "The deletion")


def existing_topics(client: ZooKeeperClient, topics: Collection[str]) -> list[str]:
    """Those of the topics that still exist, or are marked for deletion; blocks for one round."""
    found = client.exists_many(path(topic) for topic in topics for path in (topic_path, delete_topic_path))
    return [topic for topic in topics if topic_path(topic) in found or delete_topic_path(topic) in found]
