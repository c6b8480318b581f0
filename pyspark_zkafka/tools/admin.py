"""``zkafka admin``: reassignments, elections and deletions, which the controller performs when a znode requests them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.tools import admin_config
from pyspark_zkafka.tools.admin_reassign import WAIT_S, NoWait, Timeout, reassign
from pyspark_zkafka.tools.command import FAILED, Target, changes_cluster, reads_cluster
from pyspark_zkafka.tools.output import Row, columns
from pyspark_zkafka.tools.progress import progress_bar

if TYPE_CHECKING:
    from pyspark_zkafka.model.nouns import ClusterSnapshot
    from pyspark_zkafka.tools.election import Candidate
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Reassign partitions, elect leaders, delete topics and configure them.")
app.add_typer(admin_config.app, name="config")
app.command("reassign")(reassign)

_UNDER_WAY = columns("operation topic partition replicas isr in_sync", right="partition in_sync")
_ELECTION = columns("topic partition leader preferred_replica election", right="partition leader preferred_replica")
_DELETION = columns("topic partition_count replication_factor", right="partition_count replication_factor")

_Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="T[:P,...]", help="A topic, or some of its partitions; repeatable.")
]
_All = Annotated[bool, typer.Option("--all", help="All partitions of all topics.")]
# The name of Kafka's tool, apart: help would cut a second name off.
_AllTopicPartitions = Annotated[bool, typer.Option("--all-topic-partitions", hidden=True)]
_Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.")]


@app.command()
@reads_cluster
def show(target: Target) -> None:
    """Show the reassignments, elections and deletions that are under way; of a reassignment, the replicas in sync.

    Example: zkafka admin show --zookeeper zk1:2181/kafka
    """
    rows = target.view("admin")
    moving = sorted({row["topic"] for row in rows if row.get("replicas")})
    states = target.view("partitions", subscribe=",".join(moving)) if moving else []
    isr = {(row["topic"], row["partition"]): row.get("isr") or [] for row in states}
    target.rows([_with_progress(row, isr) for row in rows], _UNDER_WAY, "Nothing is under way.")


def _with_progress(row: Row, isr: Mapping[tuple[str, int], list[int]]) -> dict[str, Any]:
    wanted = row.get("replicas")
    if not wanted:
        return dict(row)
    found = isr.get((row["topic"], row["partition"]), [])
    return {**row, "isr": found, "in_sync": f"{len(set(wanted).intersection(found))}/{len(wanted)}"}


@app.command()
@changes_cluster
def elect(
    target: Target,
    topic: _Topics = None,
    all_partitions: _All = False,
    no_wait: NoWait = False,
    timeout: Timeout = WAIT_S,
    all_topic_partitions: _AllTopicPartitions = False,
) -> None:
    """Elect the preferred replicas as leaders, where they are in the ISR and do not lead already.

    Example: zkafka admin elect --topic orders:0,2 --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.tools.controller import require_controller
    from pyspark_zkafka.tools.election import LEADS_ALREADY, start

    if bool(topic) == (all_partitions or all_topic_partitions):
        raise INVALID_OPTION("Choose the partitions: either --topic or --all")
    with target.zookeeper() as client:
        require_controller(client)
        found = _candidates(client, topic)
        due = [candidate for candidate in found if candidate.obstacle is None]
        shown = [c for c in found if topic or c.obstacle != LEADS_ALREADY]
        if not due or target.dry_run or no_wait or not target.output.as_json:
            target.rows([_election_row(c) for c in shown], _ELECTION, "All partitions are led by their preferred replicas.")
        if due and target.proceed(f"Elect the preferred replicas of {len(due)} partitions?"):
            start(client, [candidate.partition for candidate in due])
            found = [candidate for candidate in found if candidate.obstacle is not None]
            if no_wait:
                target.output.note("The election was requested; see zkafka admin show.")
            else:
                found = _elected(target, client, due, shown, timeout)
    if not target.dry_run and any(candidate.leader != candidate.preferred for candidate in found):
        raise typer.Exit(FAILED)


def _candidates(client: ZooKeeperClient, topics: list[str] | None) -> list[Candidate]:
    from pyspark_zkafka.tools.election import candidates
    from pyspark_zkafka.tools.topics import Scope, parse_scope, scope_partitions

    scope = None if topics is None else parse_scope(topics)
    snapshot = client.snapshot(None if scope is None else scope.names)
    chosen = scope_partitions(scope or Scope(frozenset(snapshot.topics)), snapshot)
    return candidates(chosen, snapshot, client.admin_state())


def _election_row(candidate: Candidate) -> Row:
    tp = candidate.partition
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": None if candidate.leader < 0 else candidate.leader,
        "preferred_replica": None if candidate.preferred < 0 else candidate.preferred,
        "election": candidate.obstacle or "due",
    }


def _elected(
    target: Target, client: ZooKeeperClient, due: Sequence[Candidate], shown: Sequence[Candidate], wait_s: float
) -> list[Candidate]:
    """Wait until the election was performed, write the leaders of the partitions, and return them as they are now."""
    from pyspark_zkafka.tools.controller import follow
    from pyspark_zkafka.tools.election import candidates, is_requested

    with target.output.errors.status(f"electing the leaders of {len(due)} partitions"):
        for _ in follow(lambda: is_requested(client), lambda requested: not requested, wait_s):
            pass
    elected = {candidate.partition for candidate in due}
    snapshot = client.snapshot({candidate.partition.topic for candidate in shown})
    existing = {tp for topic in snapshot.topics for tp in snapshot.partitions(topic)}
    found = candidates(existing.intersection(c.partition for c in shown), snapshot, client.admin_state())
    results = {c.partition: "elected" if c.leader == c.preferred else "failed" for c in found if c.partition in elected}
    target.rows([{**_election_row(c), "election": results.get(c.partition, c.obstacle)} for c in found], _ELECTION)
    return found


@app.command("delete-topic")
@changes_cluster
def delete_topic(target: Target, topics: _Names, no_wait: NoWait = False, timeout: Timeout = WAIT_S) -> None:
    """Delete topics with all their records, and wait until they are gone.

    Example: zkafka admin delete-topic old-orders --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.tools.controller import require_controller
    from pyspark_zkafka.tools.deletion import require_deletable, start

    with target.zookeeper() as client:
        require_controller(client)
        snapshot = client.snapshot(topics)
        require_deletable(topics, snapshot)
        _check_enabled(target, snapshot)
        if target.dry_run or not target.output.as_json:
            _show_topics(target, snapshot)
        if not target.proceed(f"Delete {len(snapshot.topics)} topics and all their records?"):
            return
        start(client, topics)
        if no_wait:
            target.output.note("The deletion was requested; see zkafka admin show.")
        else:
            _wait_until_gone(target, client, list(snapshot.topics), timeout)
        if target.output.as_json:
            _show_topics(target, snapshot)


def _check_enabled(target: Target, snapshot: ClusterSnapshot) -> None:
    from pyspark_zkafka.tools.deletion import DELETE_TOPIC_ENABLE, require_enabled

    if snapshot.controller is None:
        return
    try:
        with target.brokers(snapshot) as admin:
            value = admin.broker_config(snapshot.controller, DELETE_TOPIC_ENABLE)
    except ZKafkaError as error:
        target.output.note(f"Whether {DELETE_TOPIC_ENABLE} is true at the controller is unknown: {error}")
        return
    require_enabled(snapshot.controller, value)


def _show_topics(target: Target, snapshot: ClusterSnapshot) -> None:
    from pyspark_zkafka.inspect.clusters import ClusterReport
    from pyspark_zkafka.inspect.view_rows import topic_rows

    rows = topic_rows(ClusterReport(snapshot))
    named = [{**row, "partition_count": row["partitions"], "replication_factor": row["replication"]} for row in rows]
    target.rows(named, _DELETION)


def _wait_until_gone(target: Target, client: ZooKeeperClient, topics: Sequence[str], wait_s: float) -> None:
    from pyspark_zkafka.tools.controller import follow
    from pyspark_zkafka.tools.deletion import existing_topics

    with progress_bar(target.output.errors, "topics deleted", len(topics)) as set_done:
        for left in follow(lambda: existing_topics(client, topics), lambda left: not left, wait_s):
            set_done(len(topics) - len(left))
    target.output.note(f"Deleted: {', '.join(topics)}")
