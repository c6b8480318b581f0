"""``zkafka admin elect``: preferred replicas become leaders, as by kafka-preferred-replica-election."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.model.nouns import WITHOUT_LEADER, ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.admin import PREFERRED_REPLICA_ELECTION, AdminState, encode_preferred_election
from pyspark_zkafka.tools.admin import WAIT_S, NoWait, Timeout, follow, require_controller, submit
from pyspark_zkafka.tools.arguments import find_partitions, parse_partitions
from pyspark_zkafka.tools.command import FAILED, Target, changes_cluster
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create

_COLUMNS = columns("topic partition leader preferred_replica election", right="partition leader preferred_replica")
_LEADS_ALREADY = "the preferred replica leads already"

_Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="T[:P,...]", help="A topic, or some of its partitions; repeatable.")
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition, its leader and its preferred replica (-1 for none); `obstacle` is why no election is due, or None."""

    partition: TopicPartition
    leader: int
    preferred: int
    obstacle: str | None


def candidates(partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot, state: AdminState) -> list[Candidate]:
    """Return each of the partitions, sorted, with the obstacle to an election; `snapshot` has their topics."""
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
    topic: _Topics = None,
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
            target.output.rows(list(map(_row, shown)), _COLUMNS, "All partitions are led by their preferred replicas.")
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
    target.output.rows([{**_row(c), "election": results.get(c.partition, c.obstacle)} for c in found], _COLUMNS)
    return found


def _row(candidate: Candidate) -> Row:
    return {
        **candidate.partition._asdict(),
        "leader": None if candidate.leader < 0 else candidate.leader,
        "preferred_replica": None if candidate.preferred < 0 else candidate.preferred,
        "election": candidate.obstacle or "due",
    }
