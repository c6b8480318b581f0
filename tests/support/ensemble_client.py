"""A `ZooKeeperClient` without a server, whose requests go to a fake ensemble."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.zookeeper.connection import Results, Watch
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Operation, Outcome
from tests.simulation.ensemble import Ensemble
from tests.support.options import ensemble_config

__all__ = ["EnsembleClient"]


class EnsembleClient(ZooKeeperClient):
    """A session that is open from the start.

    Parameters
    ----------
    meanwhile : callable, optional
        Called before each transaction, to change znodes meanwhile.
    lost_answers : int
        The number of first transactions that are applied but whose responses are lost.

    `requests` and `transactions` count the rounds of requests, and the transactions among them.
    """

    def __init__(
        self, ensemble: Ensemble | None = None, meanwhile: Callable[[], None] = lambda: None, lost_answers: int = 0
    ) -> None:
        super().__init__(ensemble_config("zk1:2181", "/kafka"))
        self.ensemble = ensemble or Ensemble()
        self.meanwhile = meanwhile
        self.lost_answers = lost_answers
        self.transactions = 0
        self._session = self.ensemble.connect(lambda: None, lambda: False)
        self.requests = 0
        self._after: tuple[int, Callable[[], None]] | None = None

    def after(self, requests: int, act: Callable[[], None]) -> Callable[[], bool]:
        """Act once, within the request that follows this number of requests. Returns whether that has happened."""
        self._after = self.requests + requests, act
        return lambda: self._after is None

    def _count(self) -> None:
        self.requests += 1
        if self._after is not None and self.requests > self._after[0]:
            act, self._after = self._after[1], None
            act()

    @property
    def session_id(self) -> int:
        """The session's id."""
        self._count()
        return self._session.session_id

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
        *,
        sync: bool = False,
    ) -> Results:
        """Return the current znodes."""
        self._count()
        return self._session.ask(get, children, exists)

    def acl(self, path: str) -> None:
        """Return None, for the ACL that `Create` has by default."""

    def transact(self, operations: Sequence[Operation]) -> Outcome:
        """Apply all operations, or none."""
        self._count()
        self.transactions += 1
        self.meanwhile()
        outcome = self._session.transact(operations)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ZooKeeperError("ZOOKEEPER_UNAVAILABLE", "the connection was lost before the answer")
        return outcome

    def put(self, path: str, data: bytes | None = None) -> None:
        """Write a znode, with its parents."""
        self.ensemble.ensure(path, data)

    def data(self, path: str) -> bytes | None:
        """Return a znode's data. Raises KeyError if there is no such znode."""
        return self.ensemble.nodes[path].data

    def put_topic(self, topic: str, partitions: int = 1) -> None:
        """Write a topic whose partitions are led by broker 1."""
        assignment = {str(number): [1] for number in range(partitions)}
        self.put(f"/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": assignment}).encode())
        state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
        for number in range(partitions):
            self.put(f"/brokers/topics/{topic}/partitions/{number}/state", json.dumps(state).encode())
        registration = {"version": 2, "host": "broker1", "port": 9092, "endpoints": ["PLAINTEXT://broker1:9092"]}
        self.put("/brokers/ids/1", json.dumps(registration).encode())
