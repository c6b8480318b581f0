"""In-memory ZooKeeper: znodes with versions, transactions and sessions, as one process sees them one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.zookeeper.connection import Results, Znode, ZnodeStat
from pyspark_zkafka.zookeeper.transactions import Check, Conflict, Create, Delete, Operation, Outcome, Reason, SetData
from tests.support.options import ensemble_config


class Ensemble:
    """The znodes by path; after each transaction, `on_write` gets the written paths and the session."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        self.on_write: Callable[[Sequence[str], int], None] = lambda paths, session: None
        self.now_ms = 0
        self._zxid = 0
        self._sessions = 0

    def connect(self, turn: Callable[[], None], lose_answer: Callable[[], bool]) -> Session:
        """Return a new session, which gives others their `turn` before each request and may lose a transaction's answer."""
        self._sessions += 1
        return Session(self, self._sessions, turn, lose_answer)

    def expire(self, session: int) -> None:
        """End a session and remove its ephemeral znodes."""
        self.nodes = {path: node for path, node in self.nodes.items() if node.stat.ephemeral_owner != session}

    def remove(self, path: str) -> None:
        """Delete a znode and everything below it."""
        self._zxid += 1
        self.nodes = {name: node for name, node in self.nodes.items() if not f"{name}/".startswith(f"{path}/")}

    def children(self, path: str) -> list[str]:
        """Return the names of a znode's children, sorted."""
        prefix = f"{path}/"
        below = (name[len(prefix) :] for name in self.nodes if name.startswith(prefix))
        return sorted(name for name in below if "/" not in name)

    def ensure(self, path: str, data: bytes | None = None) -> None:
        """Create a znode and its parents, or set the data of an existing one."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.ensure(parent)
        self.apply([SetData(path, data) if path in self.nodes else Create(path, data)], 0)

    def apply(self, operations: Sequence[Operation], session: int) -> Outcome:
        """Apply all operations or none."""
        before, self._zxid = dict(self.nodes), self._zxid + 1
        self.now_ms += 1
        for operation in operations:
            reason = self._do(operation, session)
            if reason is not None:
                self.nodes = before
                return Outcome(Conflict(operation, reason))
        written = [o.path for o in operations if isinstance(o, (Create, SetData)) and o.path in self.nodes]
        self.on_write(written, session)
        return Outcome(None, self._zxid if any(isinstance(o, SetData) for o in operations) else None)

    def _do(self, operation: Operation, session: int) -> Reason | None:
        path, node = operation.path, self.nodes.get(operation.path)
        if isinstance(operation, Create):
            if node is not None:
                return Reason.NODE_EXISTS
            if path.count("/") > 1 and path.rpartition("/")[0] not in self.nodes:
                return Reason.NO_NODE
            owner = session if operation.ephemeral else 0
            self.nodes[path] = Znode(operation.data, ZnodeStat(self._zxid, 0, self.now_ms, owner, self._zxid))
            return None
        if node is None:
            return Reason.NO_NODE
        return self._change(operation, node)

    def _change(self, operation: SetData | Delete | Check, node: Znode) -> Reason | None:
        if operation.version not in (-1, node.stat.version):
            return Reason.BAD_VERSION
        if isinstance(operation, Delete):
            if self.children(operation.path):
                return Reason.NOT_EMPTY
            del self.nodes[operation.path]
        elif isinstance(operation, SetData):
            stat = replace(node.stat, version=node.stat.version + 1, mzxid=self._zxid, modified_ms=self.now_ms)
            self.nodes[operation.path] = Znode(operation.data, stat)
        return None


@dataclass(eq=False)
class Session:
    """In-memory stand-in for `ZooKeeperConnection`."""

    ensemble: Ensemble
    session_id: int
    turn: Callable[[], None]
    lose_answer: Callable[[], bool]
    config = ensemble_config("127.0.0.1:2181")

    def get_many(self, paths: Iterable[str]) -> dict[str, Znode]:
        return self.ask(get=paths).nodes

    def children_many(self, paths: Iterable[str]) -> dict[str, list[str]]:
        return self.ask(children=paths).children

    def exists_many(self, paths: Iterable[str]) -> dict[str, ZnodeStat]:
        return self.ask(exists=paths).stats

    def ask(self, get: Iterable[str] = (), children: Iterable[str] = (), exists: Iterable[str] = ()) -> Results:
        """Make a round of requests, between which others act: data read first may be older than data read last."""
        nodes = self.ensemble.nodes
        self.turn()
        stats = {path: self.ensemble.nodes[path].stat for path in exists if path in self.ensemble.nodes}
        self.turn()
        below = {path: self.ensemble.children(path) for path in children if path in self.ensemble.nodes}
        self.turn()
        nodes = {path: self.ensemble.nodes[path] for path in get if path in self.ensemble.nodes}
        return Results(nodes, below, stats)

    def transact(self, operations: Sequence[Operation]) -> Outcome:
        """Apply all operations or none; if the answer is lost, they may or may not have been applied."""
        if not operations:
            return Outcome()
        self.turn()
        if self.lose_answer():
            raise ZooKeeperError("NO_ANSWER", "the connection was lost before the request arrived")
        outcome = self.ensemble.apply(operations, self.session_id)
        if self.lose_answer():
            raise ZooKeeperError("NO_ANSWER", "the connection was lost before the answer arrived")
        return outcome
