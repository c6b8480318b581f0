"""``zkafka admin show``, ``elect`` and ``delete-topic``: what the controller does when a znode asks for it.

Elections work as kafka-preferred-replica-election does. `admin_config` and `admin_reassign` also submit their requests
here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from pyspark_zkafka.conditions import (
    ADMIN_CONFLICT,
    ADMIN_UNDER_WAY,
    ADMIN_UNFINISHED,
    DELETION_DISABLED,
    INVALID_OPTION,
    NO_ZOOKEEPER_CONTROLLER,
)
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.inspect.reads import ClusterReport
from pyspark_zkafka.inspect.view_rows import topic_rows
from pyspark_zkafka.model.nouns import WITHOUT_LEADER, ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.planning import INTERNAL_TOPICS
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.cluster import (
    CONTROLLER,
    MIGRATION,
    PREFERRED_REPLICA_ELECTION,
    AdminState,
    decode_controller,
    delete_topic_path,
    encode_preferred_election,
    topic_path,
)
from pyspark_zkafka.tools.command import (
    FAILED,
    Target,
    changes_cluster,
    find_partitions,
    parse_partitions,
    reads_cluster,
    require_topics,
)
from pyspark_zkafka.tools.output import columns, view_columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create, Operation, Reason

T = TypeVar("T")

WAIT_S = 600.0
Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the controller.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=0, metavar="SECONDS", help="Longest wait for the controller. The operation continues afterwards."
    ),
]

_POLL_S = 0.5
_UNDER_WAY = (*view_columns("admin"), *columns("isr in_sync", right="in_sync"))
_ELECTION = columns("topic partition leader preferred_replica election", right="partition leader preferred_replica")
_LEADS_ALREADY = "the preferred replica leads already"
_DELETED = columns("topic partition_count replication_factor", right="partition_count replication_factor")
_ENABLE = "delete.topic.enable"


@reads_cluster
def show(target: Target) -> None:
    """Show the reassignments, elections and deletions that are under way, and how many new replicas are in sync.

    Example: zkafka admin show --zookeeper zk1:2181/kafka
    """
    rows = target.view("admin")
    moving = sorted({row["topic"] for row in rows if row.get("replicas")})
    states = target.view("partitions", moving) if moving else []
    isr = {(row["topic"], row["partition"]): row.get("isr") or [] for row in states}

    rows_with_progress: list[Row] = []
    for row in rows:
        if requested := row.get("replicas"):
            found = isr.get((row["topic"], row["partition"]), [])
            row = {**row, "isr": found, "in_sync": f"{len(set(requested).intersection(found))}/{len(requested)}"}
        rows_with_progress.append(row)
    target.output.rows(rows_with_progress, _UNDER_WAY, "Nothing is under way.")


def require_controller(client: ZooKeeperClient) -> None:
    """Raise ClusterStateError unless the controller is a broker that acts on znodes; blocks for one round of requests."""
    found = client.ask(get=[CONTROLLER], exists=[MIGRATION])
    node = found.nodes.get(CONTROLLER)
    controller = None if node is None else decode_controller(CONTROLLER, node.data)
    if MIGRATION in found.stats or (controller is not None and controller.kraft_epoch >= 0):
        raise NO_ZOOKEEPER_CONTROLLER(
            "The cluster is being migrated, or was migrated, to KRaft: its controller ignores changes in ZooKeeper; use "
            "Kafka's own tools with --bootstrap-server",
        )
    if controller is None:
        raise NO_ZOOKEEPER_CONTROLLER(
            "The cluster has no controller (/controller does not exist); start a broker, or wait for the election",
        )


def submit(client: ZooKeeperClient, operations: Sequence[Operation], what: str) -> None:
    """Perform the operations that request a change, in one transaction.

    Raises ClusterStateError if a request of this kind is under way, or the znodes have changed. Then nothing was written.
    """
    conflict = client.transact(operations).conflict
    if conflict is None:
        return
    path = conflict.operation.path
    if conflict.reason is Reason.NODE_EXISTS and path.startswith("/admin/"):
        raise ADMIN_UNDER_WAY(
            f"{what} was not started: another is under way ({path} exists). Wait until it is done, see zkafka admin show",
        )
    raise ADMIN_CONFLICT(f"{what} was refused: {path}: {conflict.reason.value}. Nothing was changed; try again")


def follow(
    read: Callable[[], T],
    done: Callable[[T], bool],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[T]:
    """Iterate over the states that `read` returns, twice a second, up to the first one that is `done`.

    Raises ClusterStateError if the change is not done after `timeout_s`. It continues.
    """
    deadline = clock() + timeout_s
    while True:
        state = read()
        yield state
        if done(state):
            return
        if clock() > deadline:
            raise ADMIN_UNFINISHED(
                f"The change is not done after {timeout_s:g} s, and continues; check that all its brokers run, and follow "
                "it by zkafka admin show, or without ZooKeeper by zkafka topics list",
            )
        sleep(_POLL_S)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition, its leader and its preferred replica (-1 for none), and the obstacle to an election, if there is one."""

    partition: TopicPartition
    leader: int
    preferred: int
    obstacle: str | None


def candidates(partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot, state: AdminState) -> list[Candidate]:
    """Return a candidate for each partition, in order. `snapshot` has their topics."""
    found = []
    for tp in sorted(set(partitions)):
        known = snapshot.states.get(tp)
        leader = WITHOUT_LEADER if known is None else known.leader
        preferred = next(iter(snapshot.topics[tp.topic].partitions[tp.partition]), WITHOUT_LEADER)
        obstacle: str | None = None
        if tp.topic in state.deletions:
            obstacle = "the topic is being deleted"
        elif known is None:
            obstacle = "the partition is being created"
        elif leader == preferred:
            obstacle = _LEADS_ALREADY
        elif preferred not in snapshot.brokers:
            obstacle = f"broker {preferred} is not live"
        elif preferred not in known.isr:
            obstacle = f"broker {preferred} is not in the ISR"
        found.append(Candidate(tp, leader, preferred, obstacle))
    return found


@changes_cluster
def elect(
    target: Target,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="T[:P,...]", help="A topic, or some of its partitions; repeatable."),
    ] = None,
    all_partitions: Annotated[bool, typer.Option("--all", help="All partitions of all topics.")] = False,
    no_wait: NoWait = False,
    timeout: Timeout = WAIT_S,
) -> None:
    """Elect the preferred replicas as leaders, where they are in the ISR and do not lead already.

    Example: zkafka admin elect --topic orders:0,2 --zookeeper zk1:2181/kafka
    """
    if bool(topic) == all_partitions:
        raise INVALID_OPTION("Choose the partitions: either --topic or --all")
    with target.zookeeper() as client:
        require_controller(client)
        requested = parse_partitions(topic or ())
        snapshot = client.snapshot({name for name, _ in requested} if topic else None)
        partitions = find_partitions(requested or [(name, None) for name in snapshot.topics], snapshot)
        found = candidates(partitions, snapshot, client.admin_state())
        due = [candidate.partition for candidate in found if candidate.obstacle is None]
        shown = [candidate for candidate in found if topic or candidate.obstacle != _LEADS_ALREADY]
        if not due or target.dry_run or no_wait or not target.output.as_json:
            target.output.rows(list(map(_row, shown)), _ELECTION, "All partitions are led by their preferred replicas.")
        if due and target.proceed(f"Elect the preferred replicas of {len(due)} partitions?"):
            submit(client, [Create(PREFERRED_REPLICA_ELECTION, encode_preferred_election(due))], "The election")
            found = [candidate for candidate in found if candidate.obstacle is not None]
            if no_wait:
                target.output.note("The election was requested. `zkafka admin show` lists it while it is pending.")
            else:
                found = _elected(target, client, due, [candidate.partition for candidate in shown], timeout)
    if not target.dry_run and any(candidate.leader != candidate.preferred for candidate in found):
        raise typer.Exit(FAILED)


def _elected(
    target: Target, client: ZooKeeperClient, due: Sequence[TopicPartition], shown: Sequence[TopicPartition], wait_s: float
) -> list[Candidate]:
    """Wait until the controller has performed the election; write and return the leaders of the shown partitions."""
    with target.output.errors.status(f"electing the leaders of {len(due)} partitions"):
        for _ in follow(lambda: client.exists_many([PREFERRED_REPLICA_ELECTION]), lambda requested: not requested, wait_s):
            pass
    snapshot = client.snapshot({tp.topic for tp in shown})
    existing = set(snapshot.all_partitions())
    found = candidates(existing.intersection(shown), snapshot, client.admin_state())
    results = {c.partition: "elected" if c.leader == c.preferred else "failed" for c in found if c.partition in due}
    target.output.rows([{**_row(c), "election": results.get(c.partition, c.obstacle)} for c in found], _ELECTION)
    return found


def _row(candidate: Candidate) -> Row:
    return {
        **candidate.partition._asdict(),
        "leader": None if candidate.leader < 0 else candidate.leader,
        "preferred_replica": None if candidate.preferred < 0 else candidate.preferred,
        "election": candidate.obstacle or "due",
    }


@changes_cluster
def delete_topic(target: Target, topics: Topics, no_wait: NoWait = False, timeout: Timeout = WAIT_S) -> None:
    """Delete topics with all their records, and wait until they are gone.

    Example: zkafka admin delete-topic old-orders --zookeeper zk1:2181/kafka
    """
    with target.zookeeper() as client:
        require_controller(client)
        snapshot = client.snapshot(topics)
        require_deletable(topics, snapshot)
        _check_enabled(target, snapshot)
        if target.dry_run or not target.output.as_json:
            write_deleted(target, snapshot)
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
            write_deleted(target, snapshot)


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


def write_deleted(target: Target, snapshot: ClusterSnapshot) -> None:
    """Write the topics that a command deletes."""
    rows = topic_rows(ClusterReport(snapshot))
    named = [{**row, "partition_count": row["partitions"], "replication_factor": row["replication"]} for row in rows]
    target.output.rows(named, _DELETED)


def request_deletion(client: ZooKeeperClient, topics: Collection[str]) -> None:
    """Mark topics for deletion, unless they are marked already."""
    marked = client.admin_state().deletions
    requests = [Create(delete_topic_path(topic), None) for topic in sorted(set(topics).difference(marked))]
    submit(client, requests, "The deletion")


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
