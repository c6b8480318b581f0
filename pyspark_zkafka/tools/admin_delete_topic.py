"""``zkafka admin delete-topic``: topics are deleted through ``/admin/delete_topics``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer

from pyspark_zkafka.conditions import DELETION_DISABLED, INVALID_OPTION
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.inspect.view_rows import topic_rows
from pyspark_zkafka.model.nouns import ClusterSnapshot
from pyspark_zkafka.model.planning import INTERNAL_TOPICS
from pyspark_zkafka.model.znodes.admin import delete_topic_path
from pyspark_zkafka.model.znodes.cluster import topic_path
from pyspark_zkafka.tools.admin import WAIT_S, NoWait, Timeout, follow, require_controller, submit
from pyspark_zkafka.tools.arguments import require_topics
from pyspark_zkafka.tools.command import Target, changes_cluster
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create

_COLUMNS = columns("topic partition_count replication_factor", right="partition_count replication_factor")
_ENABLE = "delete.topic.enable"

_Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.")]


@changes_cluster
def delete_topic(target: Target, topics: _Names, no_wait: NoWait = False, timeout: Timeout = WAIT_S) -> None:
    """Delete topics with all their records, and wait until they are gone.

    Example: zkafka admin delete-topic old-orders --zookeeper zk1:2181/kafka
    """
    with target.zookeeper() as client:
        require_controller(client)
        snapshot = client.snapshot(topics)
        require_deletable(topics, snapshot)
        _check_enabled(target, snapshot)
        if target.dry_run or not target.output.as_json:
            _show(target, snapshot)
        if not target.proceed(f"Delete {len(snapshot.topics)} topics and all their records?"):
            return
        request_deletion(client, topics)
        if no_wait:
            target.output.note("The deletion was requested. `zkafka admin show` lists it while it is pending.")
        else:
            with target.output.progress("topics deleted", len(snapshot.topics)) as set_done:
                for left in follow(lambda: remaining_topics(client, snapshot), lambda left: not left, timeout):
                    set_done(len(snapshot.topics) - len(left))
            target.output.note(f"Deleted: {', '.join(snapshot.topics)}")
        if target.output.as_json:
            _show(target, snapshot)


def require_deletable(topics: Collection[str], snapshot: ClusterSnapshot) -> None:
    """Raise UnknownTopic if a topic does not exist, OptionError if one is Kafka's own."""
    require_topics(topics, snapshot.topics)
    internal = sorted(INTERNAL_TOPICS.intersection(topics))
    if internal:
        raise INVALID_OPTION(f"{', '.join(internal)} is an internal topic of Kafka and must not be deleted; leave it out")


def _check_enabled(target: Target, snapshot: ClusterSnapshot) -> None:
    """Raise ClusterStateError if the controller drops requests for deletion; note it if the controller cannot be asked."""
    if snapshot.controller is None:
        return
    try:
        with target.brokers(snapshot) as admin:
            value = admin.broker_config(snapshot.controller, _ENABLE)
    except ZKafkaError as error:
        target.output.note(f"Whether {_ENABLE} is true at the controller is unknown: {error}")
        return
    if value == "false":
        raise DELETION_DISABLED(
            f"{_ENABLE} is false at broker {snapshot.controller}, the controller, which drops requests for deletion; "
            "set it to true on all brokers, and restart them",
        )


def _show(target: Target, snapshot: ClusterSnapshot) -> None:
    rows = topic_rows(ClusterReport(snapshot))
    named = [{**row, "partition_count": row["partitions"], "replication_factor": row["replication"]} for row in rows]
    target.output.rows(named, _COLUMNS)


def request_deletion(client: ZooKeeperClient, topics: Collection[str]) -> None:
    """Mark topics for deletion, unless they are marked already."""
    marked = client.admin_state().deletions
    requests = [Create(delete_topic_path(topic), None) for topic in sorted(set(topics).difference(marked))]
    submit(client, list(requests), "The deletion")


def remaining_topics(client: ZooKeeperClient, snapshot: ClusterSnapshot) -> list[str]:
    """Return the topics of the snapshot that still exist or are marked for deletion; blocks for one round of requests.

    A topic that was created again does not count: producers that create missing topics may do that at once.
    """
    found = client.exists_many(path(name) for name in snapshot.topics for path in (topic_path, delete_topic_path))
    return [
        name
        for name, topic in snapshot.topics.items()
        if delete_topic_path(name) in found or (topic_path(name) in found and found[topic_path(name)].czxid == topic.czxid)
    ]
