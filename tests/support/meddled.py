"""A ZooKeeper client with interference around its transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Operation, Outcome

__all__ = ["Meddled", "lose"]

Meddling = Callable[[int], object]


def _nothing(transaction: int) -> None:
    pass


class Meddled(ZooKeeperClient):
    """A client that calls a function before and after each transaction.

    Attributes
    ----------
    before, after : callable
        Called with the number of each transaction, starting at 1.
    sent : list
        The operations of each transaction.
    """

    def __init__(self, config: ZooKeeperConfig, before: Meddling = _nothing, after: Meddling = _nothing) -> None:
        super().__init__(config)
        self.before, self.after = before, after
        self.sent: list[Sequence[Operation]] = []

    def transact(self, operations: Sequence[Operation]) -> Outcome:
        self.sent.append(operations)
        number = len(self.sent)
        self.before(number)
        outcome = super().transact(operations)
        self.after(number)
        return outcome


def lose(number: int) -> Meddling:
    """Lose the connection in transaction `number`: before it is sent, or before its response arrives."""

    def meddle(transaction: int) -> None:
        if transaction == number:
            raise ZooKeeperError("ZOOKEEPER_CONNECTION_LOST", "lost")

    return meddle
