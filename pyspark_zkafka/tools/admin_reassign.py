"""``zkafka admin reassign``: move partitions to other brokers, as kafka-reassign-partitions does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.tools.command import FAILED, Target, changes_cluster, read_text
from pyspark_zkafka.tools.output import Row, columns
from pyspark_zkafka.tools.progress import progress_bar

if TYPE_CHECKING:
    from pyspark_zkafka.model.nouns import TopicPartition
    from pyspark_zkafka.tools.reassignment import Move, Replicas
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["WAIT_S", "NoWait", "Timeout", "reassign"]

_PLANNED = columns("topic partition current_replicas replicas", right="partition")
_STATUS = columns("topic partition current_replicas replicas isr status", right="partition")

_File = Annotated[
    Path | None, typer.Option("--reassignment-json-file", metavar="FILE", help="As kafka-reassign-partitions takes it.")
]
_Generate = Annotated[bool, typer.Option("--generate", help="Propose a reassignment of --topics to --broker-list.")]
_Execute = Annotated[bool, typer.Option("--execute", help="Start the reassignment; the default.")]
_Verify = Annotated[bool, typer.Option("--verify", help="Only show whether the reassignment is done.")]
_Topics = Annotated[str | None, typer.Option("--topics", metavar="T[,T...]", help="The topics to move.")]
_Brokers = Annotated[str | None, typer.Option("--broker-list", metavar="N[,N...]", help="The brokers to move them to.")]
_NoRacks = Annotated[bool, typer.Option("--disable-rack-aware", help="Place replicas without regard to racks.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until it is done.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="The longest wait until it is done.")]
WAIT_S = 600.0


@changes_cluster
def reassign(
    target: Target,
    reassignment_json_file: _File = None,
    generate: _Generate = False,
    execute: _Execute = False,
    verify: _Verify = False,
    topics: _Topics = None,
    broker_list: _Brokers = None,
    disable_rack_aware: _NoRacks = False,
    no_wait: NoWait = False,
    timeout: Timeout = WAIT_S,
) -> None:
    """Move partitions to other brokers, and wait until they are there; or propose or verify a reassignment.

    Example: zkafka admin reassign --reassignment-json-file moves.json --zookeeper zk1:2181/kafka
    """
    if generate + execute + verify > 1:
        raise INVALID_OPTION("--generate, --execute and --verify exclude each other; use one of them")
    if not generate and (topics or broker_list or disable_rack_aware):
        raise INVALID_OPTION("--topics, --broker-list and --disable-rack-aware are for --generate; add it")
    if generate:
        _propose(target, _words(topics, "--topics"), _broker_ids(broker_list), not disable_rack_aware)
    elif verify:
        _check(target, _read(reassignment_json_file))
    else:
        _start(target, _read(reassignment_json_file), None if no_wait else timeout)


def _propose(target: Target, topics: list[str], brokers: list[int], rack_aware: bool) -> None:
    from pyspark_zkafka.model.znodes.admin import encode_reassignment
    from pyspark_zkafka.tools.reassignment import propose

    with target.zookeeper() as client:
        snapshot = client.snapshot(topics)
    proposed = propose(topics, brokers, snapshot, rack_aware)
    current = {tp: snapshot.topics[tp.topic].partitions[tp.partition] for tp in proposed}
    _show_planned(target, current, proposed)
    if not target.output.as_json:
        typer.echo(f"\nCurrent partition replica assignment\n{encode_reassignment(current).decode()}")
        typer.echo(f"\nProposed partition reassignment configuration\n{encode_reassignment(proposed).decode()}")


def _check(target: Target, wanted: Replicas) -> None:
    from pyspark_zkafka.tools.reassignment import find_moves

    with target.zookeeper() as client:
        found = find_moves(client, wanted)
    _show_moves(target, found)
    if not _are_settled(found):
        raise typer.Exit(FAILED)


def _start(target: Target, wanted: Replicas, wait_s: float | None) -> None:
    from pyspark_zkafka.model.znodes.admin import encode_reassignment
    from pyspark_zkafka.tools.controller import require_controller
    from pyspark_zkafka.tools.reassignment import current_replicas, find_moves, start

    with target.zookeeper() as client:
        require_controller(client)
        current = current_replicas(client, wanted)
        if target.dry_run or not target.output.as_json:
            _show_planned(target, current, wanted)
        if not target.proceed(f"Move {len(wanted)} partitions?"):
            return
        start(client, wanted)
        undo = encode_reassignment(current).decode()
        target.output.note(f"To undo it, save this as a file for --reassignment-json-file: {undo}")
        found = find_moves(client, wanted) if wait_s is None else _followed(target, client, wanted, wait_s)
    _show_moves(target, found)


def _followed(target: Target, client: ZooKeeperClient, wanted: Replicas, wait_s: float) -> list[Move]:
    from pyspark_zkafka.tools.controller import follow
    from pyspark_zkafka.tools.reassignment import find_moves

    found: list[Move] = []
    with progress_bar(target.output.errors, "replicas in sync", sum(map(len, wanted.values()))) as set_done:
        for found in follow(lambda: find_moves(client, wanted), _are_settled, wait_s):
            set_done(sum(move.in_sync for move in found))
    return found


def _are_settled(found: Sequence[Move]) -> bool:
    return all(move.status != "in progress" for move in found)


def _show_planned(target: Target, current: Replicas, wanted: Replicas) -> None:
    rows = [{**_place(tp), "current_replicas": current[tp], "replicas": replicas} for tp, replicas in wanted.items()]
    target.rows(rows, _PLANNED)


def _show_moves(target: Target, found: Sequence[Move]) -> None:
    """Write the state of the moves; raises Exit if one of them has failed."""
    rows = [
        {**_place(m.partition), "current_replicas": m.current, "replicas": m.wanted, "isr": m.isr, "status": m.status}
        for m in found
    ]
    target.rows(rows, _STATUS)
    if any(move.status == "failed" for move in found):
        raise typer.Exit(FAILED)


def _place(tp: TopicPartition) -> Row:
    return {"topic": tp.topic, "partition": tp.partition}


def _read(file: Path | None) -> dict[TopicPartition, tuple[int, ...]]:
    from pyspark_zkafka.tools.reassignment import parse_reassignment

    if file is None:
        raise INVALID_OPTION("No reassignment is given; use --reassignment-json-file, or --generate to propose one")
    return parse_reassignment(read_text(file), str(file))


def _words(text: str | None, option: str) -> list[str]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not words:
        raise INVALID_OPTION(f"--generate needs {option}")
    return words


def _broker_ids(text: str | None) -> list[int]:
    words = _words(text, "--broker-list")
    if not all(word.isdecimal() for word in words):
        raise INVALID_OPTION(f"--broker-list is {text!r}; expected brokers' ids, such as 1,2,3")
    return [int(word) for word in words]
