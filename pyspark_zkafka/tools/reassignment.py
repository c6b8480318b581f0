"""Reassignment of partitions to other brokers: its file, its validation, a proposal, and how far it is."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark_zkafka.conditions import INVALID_OPTION, INVALID_REASSIGNMENT
from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.znodes.admin import REASSIGN_PARTITIONS, AdminState, encode_reassignment, reassigned_partitions
from pyspark_zkafka.tools.controller import submit
from pyspark_zkafka.tools.placement import place_replicas
from pyspark_zkafka.tools.topics import require_topics
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create

__all__ = [
    "Move",
    "Replicas",
    "current_replicas",
    "find_moves",
    "move_problems",
    "moves",
    "parse_reassignment",
    "propose",
    "start",
]

Replicas = Mapping[TopicPartition, tuple[int, ...]]
Status = Literal["completed", "in progress", "failed"]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition's replicas now, those that it shall have, and those of its ISR; `status` is as of a started move."""

    partition: TopicPartition
    current: tuple[int, ...]
    wanted: tuple[int, ...]
    isr: tuple[int, ...]
    status: Status

    @property
    def in_sync(self) -> int:
        """The number of wanted replicas that are in the ISR."""
        return len(set(self.wanted).intersection(self.isr))


def parse_reassignment(text: str, name: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas in a file for kafka-reassign-partitions, or in the JSON of this command's own proposal.

    Raises
    ------
    OptionError
        The text is neither, lists a partition twice or no partition, or names log directories.
    """
    try:
        found = reassigned_partitions(name, _wrapped(text).encode())
    except CodecError as error:
        raise INVALID_OPTION(f"{name} is not {error.parameters['expected']}") from error
    listed = [tp for tp, _ in found]
    twice = sorted({str(tp) for tp in listed if listed.count(tp) > 1}) if len(set(listed)) < len(listed) else []
    if twice or not found:
        what = f"lists {', '.join(twice)} more than once" if twice else "lists no partition"
        raise INVALID_OPTION(f"{name} {what}; list each partition to move once")
    if not all(_any_directory(item.get("log_dirs")) for item in json.loads(_wrapped(text))["partitions"]):
        raise INVALID_OPTION(
            f"{name} names log directories, which ZooKeeper cannot transmit; leave out log_dirs, or use "
            "kafka-reassign-partitions with --bootstrap-server",
        )
    return dict(found)


def _any_directory(log_dirs: object) -> bool:
    return not log_dirs or (isinstance(log_dirs, list) and all(one == "any" for one in log_dirs))


def _wrapped(text: str) -> str:
    """A list of partitions, as ``--json`` writes it, in the form of Kafka's file."""
    return f'{{"version":1,"partitions":{text}}}' if text.lstrip().startswith("[") else text


def move_problems(wanted: Replicas, snapshot: ClusterSnapshot, state: AdminState) -> list[str]:
    """All reasons for which the controller could not perform a reassignment; `snapshot` has its topics."""
    return [problem for tp, replicas in wanted.items() for problem in _problems(tp, replicas, snapshot, state)]


def _problems(tp: TopicPartition, replicas: tuple[int, ...], snapshot: ClusterSnapshot, state: AdminState) -> Iterable[str]:
    if tp not in snapshot.partitions(tp.topic):
        yield f"{tp} does not exist"
    if tp.topic in state.deletions:
        yield f"{tp}: the topic is being deleted"
    if tp in state.reassignments:
        yield f"{tp} is being reassigned already"
    if not replicas:
        yield f"{tp} has an empty list of replicas"
    if len(set(replicas)) < len(replicas):
        yield f"{tp} lists a replica twice"
    absent = [str(broker) for broker in replicas if broker not in snapshot.brokers]
    if absent:
        yield f"{tp}: no live broker {', '.join(absent)}"


def moves(wanted: Replicas, snapshot: ClusterSnapshot, state: AdminState) -> list[Move]:
    """The moves, in order of partitions; of unknown partitions the replicas are empty."""
    return [_move(tp, replicas, snapshot, state) for tp, replicas in sorted(wanted.items())]


def _move(tp: TopicPartition, wanted: tuple[int, ...], snapshot: ClusterSnapshot, state: AdminState) -> Move:
    topic, found = snapshot.topics.get(tp.topic), snapshot.states.get(tp)
    current = () if topic is None else tuple(topic.partitions.get(tp.partition, ()))
    status: Status = "in progress" if tp in state.reassignments else "completed" if current == wanted else "failed"
    return Move(tp, current, wanted, () if found is None else found.isr, status)


def propose(
    topics: Collection[str],
    brokers: Collection[int],
    snapshot: ClusterSnapshot,
    rack_aware: bool = True,
    rng: random.Random | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Replicas of all partitions of the topics on the given brokers, placed as Kafka places those of new topics.

    Raises
    ------
    UnknownTopic
        A topic does not exist.
    OptionError
        A broker is not live, only some of the brokers have a rack, or there are too few brokers.

    References
    ----------
    kafka.admin.ReassignPartitionsCommand.generateAssignment, Kafka 1.1.1.
    """
    require_topics(topics, snapshot.topics)
    absent = sorted(set(brokers).difference(snapshot.brokers))
    if absent or not brokers:
        what = f"no live broker {', '.join(map(str, absent))}" if absent else "no broker"
        raise INVALID_OPTION(f"--broker-list names {what}; see zkafka brokers")
    racks = {broker: snapshot.brokers[broker].rack if rack_aware else None for broker in brokers}
    choose = rng or random.Random()
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in sorted(set(topics)):
        partitions = snapshot.partitions(topic)
        replication = max((len(replicas) for replicas in snapshot.topics[topic].partitions.values()), default=0)
        start, shift = choose.randrange(len(racks)), choose.randrange(len(racks))
        placed = place_replicas(racks, len(partitions), replication, start, shift)
        proposed.update(zip(partitions, placed, strict=True))
    return proposed


def current_replicas(client: ZooKeeperClient, wanted: Replicas) -> Replicas:
    """The replicas that the partitions to reassign have now, in the same order. Blocks for a few rounds.

    Raises
    ------
    OptionError
        The controller could not perform the reassignment; the text has all reasons.
    """
    snapshot = client.snapshot({tp.topic for tp in wanted})
    problems = move_problems(wanted, snapshot, client.admin_state())
    if problems:
        what = "; ".join(problems)
        raise INVALID_REASSIGNMENT(f"The partitions cannot be reassigned: {what}; correct the file, or wait")
    return {tp: snapshot.topics[tp.topic].partitions[tp.partition] for tp in wanted}


def start(client: ZooKeeperClient, wanted: Replicas) -> None:
    """Request a reassignment of the controller; raises ClusterStateError if one is under way."""
    submit(client, [Create(REASSIGN_PARTITIONS, encode_reassignment(wanted))], "The reassignment")


def find_moves(client: ZooKeeperClient, wanted: Replicas) -> list[Move]:
    """The moves as they are now; blocks for a few rounds."""
    state = client.admin_state()
    return moves(wanted, client.snapshot({tp.topic for tp in wanted}), state)
