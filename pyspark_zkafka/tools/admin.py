"""``zkafka admin show``, and requests to the controller: changes that it makes when a znode asks for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, TypeVar

import typer

from pyspark_zkafka.conditions import ADMIN_CONFLICT, ADMIN_UNDER_WAY, ADMIN_UNFINISHED, NO_ZOOKEEPER_CONTROLLER
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.model.znodes.cluster import CONTROLLER, MIGRATION, decode_controller
from pyspark_zkafka.tools.command import Target, reads_cluster
from pyspark_zkafka.tools.output import columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Operation, Reason

T = TypeVar("T")

WAIT_S = 600.0
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until it is done.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="The longest wait until it is done.")]

_POLL_S = 0.5
_UNDER_WAY = columns("operation topic partition replicas isr in_sync", right="partition in_sync")


@reads_cluster
def show(target: Target) -> None:
    """Show the reassignments, elections and deletions that are under way; of a reassignment, the replicas in sync.

    Example: zkafka admin show --zookeeper zk1:2181/kafka
    """
    rows = target.view("admin")
    moving = sorted({row["topic"] for row in rows if row.get("replicas")})
    states = target.view("partitions", subscribe=",".join(moving)) if moving else []
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


def submit(client: ZooKeeperClient, operations: list[Operation], what: str) -> None:
    """Perform the operations that request a change, in one transaction.

    Raises ClusterStateError if a request of this kind is under way, or the znodes have changed. Then nothing was written.
    """
    conflict = client.transact(operations).conflict
    if conflict is None:
        return
    path = conflict.operation.path
    if conflict.reason is Reason.NODE_EXISTS and path.startswith("/admin/"):
        raise ADMIN_UNDER_WAY(
            f"{what} was not started: another is under way ({path} exists); wait until it is done, see zkafka admin show",
        )
    raise ADMIN_CONFLICT(f"{what} was refused: {path}: {conflict.reason.value}; nothing was changed, try again")


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
                f"The change is not done after {timeout_s:g} s, and continues; see zkafka admin show, check that all its "
                "brokers run, or wait longer with --timeout",
            )
        sleep(_POLL_S)
