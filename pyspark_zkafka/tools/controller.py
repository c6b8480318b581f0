"""The controller that acts on znodes of administration: whether there is one, and what is under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from pyspark_zkafka.conditions import ADMIN_CONFLICT, ADMIN_UNDER_WAY, ADMIN_UNFINISHED, NO_ZOOKEEPER_CONTROLLER
from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.znodes.topics import CONTROLLER, MIGRATION, ControllerInfo, decode_controller
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Conflict, Operation, Reason

__all__ = ["controller_problem", "follow", "require_controller", "submit"]

T = TypeVar("T")

_POLL_S = 0.5


def require_controller(client: ZooKeeperClient) -> None:
    """Raise ClusterStateError unless a broker in ZooKeeper mode is the controller; blocks for one round."""
    found = client.ask(get=[CONTROLLER], exists=[MIGRATION])
    node = found.nodes.get(CONTROLLER)
    problem = controller_problem(
        None if node is None else decode_controller(CONTROLLER, node.data), MIGRATION in found.stats
    )
    if problem is not None:
        raise NO_ZOOKEEPER_CONTROLLER(problem)


def controller_problem(controller: ControllerInfo | None, migration: bool) -> str | None:
    """The reason why nothing acts on znodes of administration, None if a controller does.

    Parameters
    ----------
    migration : bool
        The znode ``/migration`` exists.
    """
    if migration or (controller is not None and controller.kraft_epoch >= 0):
        return (
            "The cluster is being migrated, or was migrated, to KRaft: its controller ignores changes in ZooKeeper; use "
            "Kafka's own tools with --bootstrap-server"
        )
    if controller is None:
        return "The cluster has no controller (/controller does not exist); start a broker, or wait for the election"
    return None


def submit(client: ZooKeeperClient, operations: list[Operation], what: str) -> None:
    """Perform the operations that request a change in one transaction.

    Raises
    ------
    ClusterStateError
        Another request of the kind is under way, or something was changed meanwhile; nothing was changed by this one.
    """
    conflict = client.transact(operations).conflict
    if conflict is not None:
        raise _conflict_error(conflict, what)


def _conflict_error(conflict: Conflict, what: str) -> ClusterStateError:
    path = conflict.operation.path
    if conflict.reason is Reason.NODE_EXISTS and path.startswith("/admin/"):
        return ADMIN_UNDER_WAY(
            f"{what} was not started: another is under way ({path} exists); wait until it is done, see zkafka admin show",
        )
    return ADMIN_CONFLICT(f"{what} was refused: {path}: {conflict.reason.value}; nothing was changed, try again")


def follow(
    look: Callable[[], T],
    done: Callable[[T], bool],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[T]:
    """Each state that `look` returns, twice a second, until one is `done`, which is the last.

    Raises
    ------
    ClusterStateError
        It is not done after `timeout_s`; the change goes on.
    """
    deadline = clock() + timeout_s
    while True:
        state = look()
        yield state
        if done(state):
            return
        if clock() > deadline:
            raise ADMIN_UNFINISHED(
                f"The change is not done after {timeout_s:g} s, and goes on; see zkafka admin show, check that all its "
                "brokers run, or wait longer with --timeout",
            )
        sleep(_POLL_S)
