"""In-memory Kafka transactions: producers are fenced by epoch, and commits are decided first and visible later."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark_zkafka.model.ledger import Entry, LedgerKey, QueryName, decode

TRANSACTION_TIMEOUT_MS = 300_000


class Row(NamedTuple):
    """A row: its identity in the micro-batch, and its bytes, which another computation may not repeat."""

    identity: tuple[int, ...]
    value: str


class Fenced(Exception):
    """A later producer has the same transactional.id, or the coordinator has aborted the transaction."""


@dataclass
class _Transaction:
    """A transaction: ongoing, or decided, which is Kafka's PrepareCommit."""

    began_ms: int
    rows: list[Row] = field(default_factory=list)
    offsets: dict[LedgerKey, str] = field(default_factory=dict)
    is_decided: bool = False


class Broker:
    """A cluster, reduced to its transactions.

    `on_visible` is called with each row when read_committed consumers can first read it.

    Attributes
    ----------
    offsets : dict
        The metadata of committed offsets.
    now_ms : int
        The time, which only `pass_time` changes.
    """

    def __init__(self, on_visible: Callable[[Row], None]) -> None:
        self.offsets: dict[LedgerKey, str] = {}
        self.now_ms = 0
        self._on_visible = on_visible
        self._epochs: dict[str, int] = {}
        self._transactions: dict[str, _Transaction] = {}

    # --- producers -----------------------------------------------------------------------------------------------------

    def init(self, transactional_id: str) -> Producer:
        """Return a new producer, after completing or aborting the last transaction; it fences all earlier producers."""
        self._end(transactional_id)
        return Producer(self, transactional_id, self._bump(transactional_id))

    def _end(self, transactional_id: str) -> None:
        found = self._transactions.get(transactional_id)
        if found is not None and found.is_decided:
            self.complete(transactional_id)
        self._transactions.pop(transactional_id, None)

    def _bump(self, transactional_id: str) -> int:
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        return self._epochs[transactional_id]

    def require_current(self, producer: Producer) -> None:
        if self._epochs[producer.transactional_id] != producer.epoch:
            raise Fenced(producer.transactional_id)

    def begin(self, transactional_id: str) -> None:
        """Begin a producer's next transaction, once the last one is complete."""
        self._end(transactional_id)
        self._transactions[transactional_id] = _Transaction(self.now_ms)

    def ongoing(self, transactional_id: str) -> _Transaction:
        return self._transactions[transactional_id]

    def abort(self, transactional_id: str) -> None:
        self._transactions.pop(transactional_id, None)

    # --- the coordinator -------------------------------------------------------------------------------------------------

    def decided(self) -> list[str]:
        """Return the transactional ids with a decided, incomplete transaction."""
        return [name for name, transaction in self._transactions.items() if transaction.is_decided]

    def complete(self, transactional_id: str) -> None:
        """Write the markers of a decided transaction: its rows and offsets become visible."""
        found = self._transactions.pop(transactional_id)
        self.offsets.update(found.offsets)
        for row in found.rows:
            self._on_visible(row)

    def complete_all(self) -> None:
        for transactional_id in self.decided():
            self.complete(transactional_id)

    def complete_decided(self, keys: Collection[LedgerKey]) -> None:
        """Complete the decided transactions with an offset of these keys, as a read does that waits for a while."""
        for name in self.decided():
            if not self._transactions[name].offsets.keys().isdisjoint(keys):
                self.complete(name)

    def decided_rows(self) -> list[Row]:
        """Return rows that will certainly become visible."""
        return [row for name in self.decided() for row in self._transactions[name].rows]

    def pass_time(self, ms: int) -> None:
        """Let the coordinator abort old transactions and fence their producers."""
        self.now_ms += ms
        for name, found in list(self._transactions.items()):
            if not found.is_decided and self.now_ms - found.began_ms > TRANSACTION_TIMEOUT_MS:
                self.abort(name)
                self._bump(name)

    # --- the ledger ------------------------------------------------------------------------------------------------------

    def groups(self, name: QueryName) -> list[str]:
        """Return a query's groups, including those whose first offset is pending."""
        pending = (key for transaction in self._transactions.values() for key in transaction.offsets)
        return sorted({key.group for key in (*self.offsets, *pending) if name.groups([key.group])})

    def keys(self, group: str) -> list[LedgerKey]:
        """Return the keys of a group with a committed or a pending offset."""
        pending = (key for transaction in self._transactions.values() for key in transaction.offsets)
        return sorted({key for key in (*self.offsets, *pending) if key.group == group})

    def is_pending(self, keys: Collection[LedgerKey]) -> bool:
        """Return True while an incomplete transaction has an offset of these keys: a stable read waits."""
        return any(not transaction.offsets.keys().isdisjoint(keys) for transaction in self._transactions.values())

    def entries(self, keys: Collection[LedgerKey]) -> list[Entry]:
        """Return the committed entries of these keys."""
        return [decode(self.offsets[key]) for key in keys if key in self.offsets]


@dataclass(frozen=True)
class Producer:
    """A transactional producer; each call raises Fenced if a later producer has its transactional.id."""

    broker: Broker
    transactional_id: str
    epoch: int

    def begin(self) -> None:
        self.broker.require_current(self)
        self.broker.begin(self.transactional_id)

    def send(self, row: Row) -> None:
        self._ongoing().rows.append(row)

    def commit_offset(self, key: LedgerKey, metadata: str) -> None:
        self._ongoing().offsets[key] = metadata

    def commit(self) -> None:
        """Decide the transaction; it is visible when the coordinator has written its markers."""
        self._ongoing().is_decided = True

    def abort(self) -> None:
        self.broker.require_current(self)
        self.broker.abort(self.transactional_id)

    def _ongoing(self) -> _Transaction:
        self.broker.require_current(self)
        return self.broker.ongoing(self.transactional_id)
