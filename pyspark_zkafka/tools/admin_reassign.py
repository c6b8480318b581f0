"""``zkafka admin reassign``: partitions move to other brokers, as by kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from pyspark_zkafka.conditions import INVALID_OPTION, INVALID_REASSIGNMENT
from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.znodes.cluster import REASSIGN_PARTITIONS, AdminState, decode_reassignment, encode_reassignment
from pyspark_zkafka.tools.admin import WAIT_S, NoWait, Timeout, follow, require_controller, submit
from pyspark_zkafka.tools.command import FAILED, Target, changes_cluster, read_text
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create

_PLANNED = columns("topic partition current_replicas replicas", right="partition")
_STATUS = columns("topic partition current_replicas replicas isr status", right="partition")


Replicas = Mapping[TopicPartition, tuple[int, ...]]
"""Replicas of partitions, the preferred leader first."""


Status = Literal["completed", "in progress", "failed"]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition with its present replicas, its requested replicas, and its ISR."""

    partition: TopicPartition
    current_replicas: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    status: Status


@changes_cluster
def reassign(
    target: Target,
    reassignment_json_file: Annotated[
        Path | None,
        typer.Option(
            "--reassignment-json-file", metavar="FILE", help="The moves, in the JSON format of kafka-reassign-partitions."
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Start the reassignment; the default.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Only show whether the reassignment is done.")] = False,
    no_wait: NoWait = False,
    timeout: Timeout = WAIT_S,
) -> None:
    """Move partitions to other brokers, and wait until they are there; or verify a reassignment.

    Example: zkafka admin reassign --reassignment-json-file moves.json --zookeeper zk1:2181/kafka
    """
    if execute and verify:
        raise INVALID_OPTION("--execute and --verify exclude each other; use one of them")
    if reassignment_json_file is None:
        raise INVALID_OPTION("No reassignment is given; use --reassignment-json-file")
    requested = parse_reassignment(read_text(reassignment_json_file), str(reassignment_json_file))
    with target.zookeeper() as client:
        if not verify:
            current = _require_possible(client, requested)
            if target.dry_run or not target.output.as_json:
                rows = [{**tp._asdict(), "current_replicas": current[tp], "replicas": requested[tp]} for tp in requested]
                target.output.rows(rows, _PLANNED)
            if not target.proceed(f"Move {len(requested)} partitions?"):
                return
            submit(client, [Create(REASSIGN_PARTITIONS, encode_reassignment(requested))], "The reassignment")
            undo = encode_reassignment(current).decode()
            target.output.note(f"To undo the reassignment, save this as a file for --reassignment-json-file: {undo}")
        found = _find_moves(client, requested) if verify or no_wait else _followed(target, client, requested, timeout)
    target.output.rows([{**asdict(move), **move.partition._asdict()} for move in found], _STATUS)
    if any(move.status == "failed" for move in found) or (verify and not _are_settled(found)):
        raise typer.Exit(FAILED)


def parse_reassignment(text: str, name: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas in a file for kafka-reassign-partitions.

    Raises OptionError if the text is no such file, lists a partition twice or no partition, or names log directories.
    """
    try:
        listed = decode_reassignment(name, text.encode())
    except CodecError as error:
        raise INVALID_OPTION(f"{name} is not {error.parameters['expected']}") from error
    found = dict(listed)
    if len(found) < len(listed) or not found:
        partitions = [tp for tp, _ in listed]
        twice = sorted({str(tp) for tp in partitions if partitions.count(tp) > 1})
        what = f"lists {', '.join(twice)} more than once" if twice else "lists no partition"
        raise INVALID_OPTION(f"{name} {what}; list each partition to move once")
    directories = [listed for item in json.loads(text)["partitions"] if (listed := item.get("log_dirs"))]
    if not all(isinstance(listed, list) and all(one == "any" for one in listed) for listed in directories):
        raise INVALID_OPTION(
            f"{name} names log directories, which ZooKeeper cannot transmit; leave out log_dirs, or use "
            "kafka-reassign-partitions with --bootstrap-server",
        )
    return found


def move_problems(requested: Replicas, snapshot: ClusterSnapshot, state: AdminState) -> Iterable[str]:
    """Iterate over all reasons why the controller could not perform a reassignment; `snapshot` has its topics."""
    for tp, replicas in requested.items():
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


def moves(requested: Replicas, snapshot: ClusterSnapshot, state: AdminState) -> list[Move]:
    """Return the moves, sorted by partition; an unknown partition has no replicas."""
    found = []
    for tp, replicas in sorted(requested.items()):
        topic, known = snapshot.topics.get(tp.topic), snapshot.states.get(tp)
        current = () if topic is None else tuple(topic.partitions.get(tp.partition, ()))
        isr = () if known is None else known.isr
        status: Status = "completed" if current == replicas else "failed"
        found.append(Move(tp, current, replicas, isr, "in progress" if tp in state.reassignments else status))
    return found


def _require_possible(client: ZooKeeperClient, requested: Replicas) -> Replicas:
    """Return the present replicas of the partitions to move; blocks for a few rounds of requests.

    Raises ClusterStateError without a controller that acts on znodes, and OptionError with all reasons why it could not
    perform the reassignment.
    """
    require_controller(client)
    snapshot = client.snapshot({tp.topic for tp in requested})
    problems = "; ".join(move_problems(requested, snapshot, client.admin_state()))
    if problems:
        raise INVALID_REASSIGNMENT(f"The partitions cannot be reassigned: {problems}; correct the file, or wait")
    return {tp: snapshot.topics[tp.topic].partitions[tp.partition] for tp in requested}


def _find_moves(client: ZooKeeperClient, requested: Replicas) -> list[Move]:
    state = client.admin_state()
    return moves(requested, client.snapshot({tp.topic for tp in requested}), state)


def _followed(target: Target, client: ZooKeeperClient, requested: Replicas, wait_s: float) -> list[Move]:
    found: list[Move] = []
    with target.output.progress("replicas in sync", sum(map(len, requested.values()))) as set_done:
        for found in follow(lambda: _find_moves(client, requested), _are_settled, wait_s):
            set_done(sum(len(set(move.replicas).intersection(move.isr)) for move in found))
    return found


def _are_settled(found: Sequence[Move]) -> bool:
    return all(move.status != "in progress" for move in found)
