"""A producer of transactions, each of which commits its rows together with the offset of a group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers.clients import INTRODUCTION_S
from pyspark_zkafka.brokers.librdkafka_errors import REFUSED_FOR_S, ErrorReports
from pyspark_zkafka.brokers.pool import leave_open
from pyspark_zkafka.brokers.transactions import Transaction, transaction_failed
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.ledger import Entry
from pyspark_zkafka.options.values import TRANSACTION_TIMEOUT_MS, Connection
from pyspark_zkafka.records.producer import CountingProducer, producer_properties
from pyspark_zkafka.records.sender import Failure, GroupOffset, QueueLimits, Sender, Transactions

# librdkafka's 100 ms is the pause before it asks again whether an earlier transaction is complete: it takes some ms.
_RETRY_BACKOFF_MS = 10
# While the group's coordinator is not known, librdkafka may ask for it again only when a connection opens or closes; so
# connections that are idle for so long are closed.
_MAX_IDLE_MS = 10_000
# The time for which a call of librdkafka may keep signals from being handled.
_SLICE_S = 1.0
_PAUSE_S = 0.05
_CLOSING_S = 5.0
_OVERTIME_S = 5.0


def transactional_properties(connection: Connection, bootstrap_servers: str, transactional_id: str) -> dict[str, Any]:
    """librdkafka's properties for writing in transactions: those of `producer_properties`, with defaults of their own.

    delivery.timeout.ms is at most transaction.timeout.ms, as librdkafka requires it.
    """
    properties = producer_properties(connection, bootstrap_servers)
    timeout_ms = int(connection.kafka.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    delivery_ms = min(int(properties["delivery.timeout.ms"]) or timeout_ms, timeout_ms)
    return {
        "retry.backoff.ms": _RETRY_BACKOFF_MS,
        "connections.max.idle.ms": _MAX_IDLE_MS,
        **properties,
        "linger.ms": min(float(properties["linger.ms"]), delivery_ms / 2),
        "delivery.timeout.ms": delivery_ms,
        "enable.idempotence": True,
        "transaction.timeout.ms": timeout_ms,
        "transactional.id": transactional_id,
    }


class TransactionalProducer:
    """Writes in transactions, as the only producer of its transactional id. Not pickle-safe, not thread-safe.

    Its ``with`` block opens it, fences earlier producers of the id, and waits until their transactions are complete;
    leaving it aborts a transaction that is open. Brokers that do not answer, and coordinators that are being elected, are
    waited for, up to delivery.timeout.ms for each step.

    After an error it must not be used again: librdkafka may keep records of the failed transaction, and an id that the
    brokers have forgotten (INVALID_PRODUCER_ID_MAPPING) is registered by a new producer. TransactionFailed is FENCED if
    another producer of the id has begun, or the brokers have ended the transaction after transaction.timeout.ms, and
    TRANSACTION_FAILED otherwise.

    Parameters
    ----------
    properties : mapping
        As of `transactional_properties`.
    topic : str, optional
        A topic that is written to, whose metadata are requested first. Until a broker is connected, librdkafka asks for the
        coordinator of transactions only every 500 ms.

    Attributes
    ----------
    is_kept : bool
        True if an earlier user has left it for another.
    last : Entry or None
        What its users remember of it: the entry that it committed last.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        make_sender: Callable[[Mapping[str, Any], QueueLimits, ErrorReports], Sender],
        clock: Callable[[], float] = time.monotonic,
        topic: str | None = None,
    ) -> None:
        self._topic = topic
        self.is_kept = False
        self.last: Entry | None = None
        self.transaction_timeout_ms = int(properties["transaction.timeout.ms"])
        self._id = str(properties["transactional.id"])
        self._patience_s = float(properties["delivery.timeout.ms"]) / 1000
        self._clock = clock
        self._began_at: float | None = None
        self._is_stuck = False
        self._rows = _TransactionRows(self._failed, properties, make_sender, clock)
        self._closing = ExitStack()

    def __enter__(self) -> TransactionalProducer:
        with ExitStack() as opened:
            opened.enter_context(self._rows)
            if self._topic is not None:
                self._rows.connect(self._topic)
            self._complete("beginning to write", self._rows.transactions.init)
            self._rows.note_answer()
            self._closing = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_stuck:
            leave_open(self)
            return
        with self._closing:
            if self.is_open:
                # If it fails, the brokers abort it: when the id is used again, or after transaction.timeout.ms.
                with suppress(ZKafkaError):
                    self._abort(_CLOSING_S)

    @property
    def producer(self) -> CountingProducer:
        """The producer to send a transaction's rows by, between `begin` and `commit`, in a `counting` block."""
        return self._rows

    @property
    def is_open(self) -> bool:
        """True if a transaction was begun, and neither committed nor aborted."""
        return self._began_at is not None

    @property
    def left_s(self) -> float:
        """The time until the brokers may abort the open transaction; negative if it has passed."""
        began_at = self._clock() if self._began_at is None else self._began_at
        return began_at + self.transaction_timeout_ms / 1000 - self._clock()

    def begin(self) -> None:
        """Begin a transaction, without a request to the brokers.

        Raises TransactionFailed if the producer was found to be fenced already.
        """
        try:
            self._rows.transactions.begin()
        except KafkaException as error:
            raise self._failed(error.args[0], "beginning a transaction") from error
        self._began_at = self._clock()

    def commit(self, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        """Commit the rows sent since `begin`, and the offset of a group with its metadata: all, or nothing.

        Waits until each row is acknowledged. Raises DeliveryFailed if one is not, and TransactionFailed; unless that is
        FENCED, or the brokers have refused, the transaction may have been committed all the same.
        """
        self._rows.flush()
        transactions, entry = self._rows.transactions, GroupOffset(group, topic, partition, offset, metadata)
        # A time-out of this step fails the transaction: it cannot be taken in slices.
        self._complete(
            f"committing the offset of {topic}-{partition} of group {group}",
            lambda timeout_s: self._bounded(lambda: transactions.commit_offset(entry, timeout_s), timeout_s),
            slice_s=self._patience_s,
        )
        self._complete("committing a transaction", transactions.commit)
        self._began_at = None

    def abort(self) -> None:
        """Abort the transaction: its rows and its offset never become visible to readers of committed records."""
        self._abort(self._patience_s)

    def _abort(self, patience_s: float) -> None:
        self._complete("aborting a transaction", self._rows.transactions.abort, patience_s)
        self._began_at = None

    def _complete(
        self, doing: str, call: Callable[[float], None], patience_s: float | None = None, slice_s: float = _SLICE_S
    ) -> None:
        """Make a call of `Transactions` again after retriable errors, up to `patience_s` (delivery.timeout.ms).

        A time-out is such an error: librdkafka goes on by itself, and the same call waits for it again.
        """
        deadline = self._clock() + (self._patience_s if patience_s is None else patience_s)
        self._rows.begin_request()
        while True:
            left_s = max(deadline - self._clock(), _PAUSE_S)
            try:
                return call(min(slice_s, left_s))
            except KafkaException as failed:
                error: KafkaError = failed.args[0]
                if not error.retriable() or self._clock() >= deadline:
                    raise self._failed(error, doing) from failed
                refusal = self._rows.poll(doing)
                if refusal is not None:
                    raise refusal from failed

    def _bounded(self, call: Callable[[], None], timeout_s: float) -> None:
        """Make a call that may never return: librdkafka 1.4 to 2.16 check its time-out only when they get an answer.

        Raises KafkaException, _TIMED_OUT, if it has not returned some seconds later; the client cannot be closed any more.

        References
        ----------
        https://github.com/confluentinc/librdkafka/issues/5456
        """
        thread = _Call(call)
        thread.start()
        thread.join(timeout_s + min(timeout_s, _OVERTIME_S))
        if thread.is_alive():
            self._is_stuck = True
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "No coordinator of the group was found in time"))
        if thread.failure is not None:
            raise thread.failure
        if not thread.is_done:
            raise RuntimeError("a call of librdkafka failed; its traceback is in standard error")

    def _failed(self, error: KafkaError, doing: str) -> ZKafkaError:
        elapsed_ms = None if self._began_at is None else int((self._clock() - self._began_at) * 1000)
        return transaction_failed(error, doing, Transaction(self._id, self.transaction_timeout_ms, elapsed_ms))


class _Call(threading.Thread):
    """A call of `Transactions` on a thread of its own, which does not keep the process alive."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__(name="zkafka-transaction", daemon=True)
        self._call = call
        self.failure: KafkaException | None = None
        self.is_done = False

    def run(self) -> None:
        try:
            self._call()
            self.is_done = True
        except KafkaException as error:
            self.failure = error


class _TransactionRows(CountingProducer):
    """The rows of transactions, and access to the client's transactions."""

    _remedy = "correct the cause and write again: readers of committed records do not see any row of the transaction"
    # librdkafka sends no record before its partition is registered in the transaction: the first flush sends none.
    _flush_stalled_s = 0.01

    def __init__(
        self,
        failed: Callable[[KafkaError, str], ZKafkaError],
        properties: Mapping[str, Any],
        make_sender: Callable[[Mapping[str, Any], QueueLimits, ErrorReports], Sender],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(properties, make_sender, clock)
        self._failed = failed

    @property
    def transactions(self) -> Transactions:
        """The transactions of the open client."""
        return self._sender.transactions

    def connect(self, topic: str) -> None:
        """Connect to a broker, by requests for a topic's metadata; an error is reported by the next request.

        The answer to the first one replaces the bootstrap servers by the cluster's brokers, none of them connected.
        """
        with suppress(KafkaException):
            for _ in range(2):
                self._sender.leaders(topic, INTRODUCTION_S)

    def begin_request(self) -> None:
        """Handle the reports of before, which do not belong to the next request."""
        self._begin_request()

    def note_answer(self) -> None:
        """Note that the brokers have answered."""
        self._reports.answered()

    def poll(self, doing: str) -> ZKafkaError | None:
        """Handle reports, waiting a moment for one; returns the brokers' refusal of what is being done, if there is one."""
        self._sender.poll(_PAUSE_S)
        return self._reports.refusal(doing, REFUSED_FOR_S)

    def _undelivered(self, failure: Failure) -> ZKafkaError:
        """The error that failed the whole transaction, and with it the record; the record's own if its topic is missing."""
        undelivered = super()._undelivered(failure)
        if undelivered.parameters.get("missing_topic") is not None:
            return undelivered
        cause = self._failure_of_transaction()
        return undelivered if cause is None else self._failed(cause, f"writing to {failure.partition}")

    def _failure_of_transaction(self) -> KafkaError | None:
        """The error of the open transaction, which librdkafka returns for a call that is not allowed in any case."""
        try:
            self.transactions.begin()
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            return cause if cause.fatal() or cause.txn_requires_abort() else None
        return None
