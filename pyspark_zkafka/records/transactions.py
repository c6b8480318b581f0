"""Transactions that commit rows together with the offset of a group: their properties and limits, and the producer."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pyspark_zkafka.brokers.errors import REFUSED_FOR_S, connection_error
from pyspark_zkafka.conditions import FENCED, TRANSACTION_FAILED, TRANSACTION_TIMEOUT, UNUSABLE_KAFKA_PROPERTY
from pyspark_zkafka.errors import DeliveryFailed, TransactionFailed, ZKafkaError
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.error_codes import ErrorCode, name_of
from pyspark_zkafka.model.producing import OVERDUE
from pyspark_zkafka.options.values import TRANSACTION_TIMEOUT_MS, ConnectionOptions
from pyspark_zkafka.records.direct.settings import producer_settings_of
from pyspark_zkafka.records.direct.transactions import FENCING, DirectTransactions, StepFailed
from pyspark_zkafka.records.native.library import require
from pyspark_zkafka.records.producer import CountingProducer, Failure, GroupOffset, QueueLimits, producer_properties
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.protocol import Unsupported

if TYPE_CHECKING:
    from pyspark_zkafka.records.direct.sender import DirectSender

_log = logging.getLogger(__name__)

# The interval at which a waiting step checks for a refused login.
_SLICE_S = 1.0
_PAUSE_S = 0.05
_CLOSING_S = 5.0
_OF_ROWS = frozenset(
    {
        OVERDUE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""Codes of errors of rows that fail the transaction. The error of the rows gives the cause and a remedy."""
_REMEDIES: dict[int, str] = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ACLs must allow Write and Describe on the transactional id {id}",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "an ACL must allow Read on the group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ACLs must allow Write on the topics written to, and Read on the ledger's topic",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: (
        "the brokers have forgotten the transactional id {id}, which nobody used for transactional.id.expiration.ms; "
        "write again"
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "set kafka.transaction.timeout.ms (now {timeout_ms}) to at most the brokers' transaction.max.timeout.ms"
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "raise the brokers' offset.metadata.max.bytes, which the ledger's entries exceed",
    ErrorCode.REQUEST_TIMED_OUT: (
        "check that the brokers run, and that the addresses in their advertised.listeners can be reached from here; the "
        "next attempt finds out by the ledger whether the rows were committed"
    ),
    ErrorCode.UNSUPPORTED_VERSION: "transactions need brokers of version 0.11 or later",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "transactions need topics of message format 0.11 or later (log.message.format.version)"
    ),
}
_REMEDY = "write again: the next attempt finds out by the ledger whether the rows were committed"
_ROWS_REMEDY = "Correct the cause and write again: committed readers do not see any row of the transaction"
_SETTING = "transaction.max.timeout.ms"
_limits: Remembered[str, float] = Remembered()
"""The brokers' limits of transaction.timeout.ms, by bootstrap servers. Infinite where an ACL hides them."""


def transactional_properties(
    connection: ConnectionOptions, bootstrap_servers: str, transactional_id: str
) -> dict[str, Any]:
    """`producer_properties` for transactions, with delivery.timeout.ms at most transaction.timeout.ms."""
    properties = producer_properties(connection, bootstrap_servers)
    timeout_ms = int(connection.kafka.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    delivery_ms = min(int(properties["delivery.timeout.ms"]) or timeout_ms, timeout_ms)
    return {
        **properties,
        "delivery.timeout.ms": delivery_ms,
        "enable.idempotence": True,
        "transaction.timeout.ms": timeout_ms,
        "transactional.id": transactional_id,
    }


def require_supported(connection: ConnectionOptions) -> None:
    """Raise OptionError without the compiled code, or for a property that transactions do not support. Connects nowhere."""
    require()
    try:
        producer_settings_of(transactional_properties(connection, "", ""))
    except Unsupported as why:
        raise unsupported(why) from why


def unsupported(why: Unsupported) -> ZKafkaError:
    """Our error for the reason why no producer of transactions can be opened."""
    if type(why) is not Unsupported:
        return connection_error(why, "beginning to write")
    return UNUSABLE_KAFKA_PROPERTY(
        f"An exactly-once write does not support {why}. Leave this kafka.* property out, or correct it",
    )


def require_transaction_timeout(connection: ConnectionOptions, bootstrap_servers: str) -> None:
    """Raise OptionError if kafka.transaction.timeout.ms exceeds the brokers' limit.

    Blocks for two requests, once per process and cluster, and again before each error: the limit may have been raised.
    If an ACL hides the brokers' settings, checks nothing. Brokers may then refuse the first task's transaction.
    """
    timeout_ms = int(connection.kafka.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    allowed_ms = _limits.get(bootstrap_servers)
    if allowed_ms is None or timeout_ms > allowed_ms:
        found = _find_limit(connection, bootstrap_servers)
        if found is not None or allowed_ms is None:
            allowed_ms = math.inf if found is None else found
        _limits.put(bootstrap_servers, allowed_ms)
    if timeout_ms > allowed_ms:
        raise TRANSACTION_TIMEOUT(
            f"kafka.transaction.timeout.ms is {timeout_ms}, and the brokers allow at most {allowed_ms} ({_SETTING}); "
            f"lower it, or raise {_SETTING} of the brokers",
        )


def _find_limit(connection: ConnectionOptions, bootstrap_servers: str) -> int | None:
    from pyspark_zkafka.brokers.admin import KafkaAdmin  # only the driver asks for the limit

    try:
        with KafkaAdmin.of(connection, bootstrap_servers) as admin:
            broker = min(admin.snapshot([]).brokers)
            value = admin.broker_config(broker, _SETTING)
    except ZKafkaError as error:
        _log.info("kafka.transaction.timeout.ms is not checked, because the brokers' %s is unknown: %s", _SETTING, error)
        return None
    return None if value is None else int(value)


class TransactionalProducer(CountingProducer):
    """Writes in transactions, as the only producer with its transactional id. Not pickle-safe, not thread-safe.

    `start` precedes each transaction. Send its rows in a `counting` block between `begin` and `commit`. The end of the
    ``with`` block aborts an open transaction. Each step waits up to delivery.timeout.ms for brokers and coordinators.

    Do not use the producer after an error. TransactionFailed is FENCED if another producer with the id has started, or if
    the brokers have ended the transaction after transaction.timeout.ms. Otherwise it is TRANSACTION_FAILED.

    `properties` come from `transactional_properties`.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        make_sender: Callable[[Mapping[str, Any], QueueLimits], DirectSender],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(properties, make_sender, clock, _ROWS_REMEDY, self._explain_rows)
        self.transaction_timeout_ms = int(properties["transaction.timeout.ms"])
        self._id = str(properties["transactional.id"])
        self._patience_s = float(properties["delivery.timeout.ms"]) / 1000
        self._began_at: float | None = None

    def __exit__(self, *exc: object) -> None:
        try:
            if self.is_open:
                # If this fails, the brokers abort the transaction: when the id is used again, or after its timeout.
                with suppress(ZKafkaError):
                    self.abort(_CLOSING_S)
        finally:
            super().__exit__(*exc)

    @property
    def may_lose_offsets(self) -> bool:
        """See `DirectTransactions.may_lose_offsets`."""
        return self._transactions.may_lose_offsets

    @property
    def is_open(self) -> bool:
        """True between `begin` and the end of `commit` or `abort`."""
        return self._began_at is not None

    @property
    def left_s(self) -> float:
        """Seconds until the brokers may abort the open transaction; negative after that."""
        began_at = self._clock() if self._began_at is None else self._began_at
        return began_at + self.transaction_timeout_ms / 1000 - self._clock()

    @property
    def _transactions(self) -> DirectTransactions:
        return cast("DirectSender", self._sender).transactions

    def start(self, transactional_id: str) -> None:
        """Fence earlier producers with the id, and wait until their transactions are complete."""
        self._id = transactional_id
        self._complete("beginning to write", partial(self._transactions.init, transactional_id))
        self._sender.reports.answered()

    def renew(self) -> None:
        """Prepare another transaction of the same id."""
        self.start(self._id)

    def begin(self, group: str = "") -> None:
        """Begin a transaction, without a request. `group` is the group whose offset `commit` will commit, if it is known.

        Raises TransactionFailed if the producer is known to be fenced.
        """
        try:
            self._transactions.begin(group)
        except StepFailed as error:
            raise self._failed(error, "beginning a transaction") from error
        self._began_at = self._clock()

    def commit(self, offset: GroupOffset) -> None:
        """Commit the rows sent since `begin` together with a group's offset and its metadata, or commit neither.

        Waits until each row is acknowledged. Raises DeliveryFailed and TransactionFailed. If the last step fails without a
        refusal by the brokers, the transaction may be committed nevertheless.
        """
        self.flush()
        self._add_offset(offset)
        self._complete("committing a transaction", self._transactions.commit)
        self._began_at = None

    def end_late_offset(self, offset: GroupOffset) -> None:
        """Abort a transaction with only an offset. Call `renew` before the next transaction.

        The abort also ends a late offset: brokers may process an offset's request after its transaction has ended. Before
        KIP-890, the offset then stays open, and readers wait for it until a transaction of this id with this group ends.
        """
        self.begin()
        self._add_offset(offset)
        self.abort()

    def _add_offset(self, offset: GroupOffset) -> None:
        doing = f"committing the offset of {offset.topic}-{offset.partition} of group {offset.group}"
        self._complete(doing, partial(self._transactions.commit_offset, offset))

    def abort(self, patience_s: float | None = None) -> None:
        """Abort the transaction. Committed readers never see its rows and its offset. Waits like other steps by default."""
        self._complete("aborting a transaction", self._transactions.abort, patience_s)
        self._began_at = None

    def _complete(self, doing: str, call: Callable[[float], None], patience_s: float | None = None) -> None:
        """Repeat a call of `DirectTransactions` after retriable errors, for up to `patience_s` or delivery.timeout.ms."""
        deadline = Deadline.after(self._patience_s if patience_s is None else patience_s, self._clock)
        self.begin_request()
        while True:
            try:
                return call(min(_SLICE_S, max(deadline.left_s, _PAUSE_S)))
            except StepFailed as error:
                if not error.is_retriable or deadline.has_passed:
                    raise self._failed(error, doing) from error
                self._sender.poll(_PAUSE_S)
                if (refusal := self._sender.reports.refusal(doing, REFUSED_FOR_S)) is not None:
                    raise refusal from error

    def _failed(self, error: StepFailed, doing: str) -> TransactionFailed:
        """Translate the error of a failed step. `doing` describes the step."""
        text, timeout_ms = f"{doing}: {error}", self.transaction_timeout_ms
        if error.is_retriable and (last := self._sender.reports.last) is not None:
            text += f" (last error of the connection: {last})"
        parameters = {"transactional_id": self._id, "code": name_of(error.code)}
        if error.code not in FENCING:
            remedy = _REMEDIES.get(error.code, _REMEDY).format(id=self._id, timeout_ms=timeout_ms)
            return TRANSACTION_FAILED(f"{text}; {remedy}", **parameters)
        # Brokers return the same errors after another producer has taken the id, and after they have aborted the
        # transaction.
        elapsed_ms = 0 if self._began_at is None else int((self._clock() - self._began_at) * 1000)
        is_overdue = elapsed_ms >= timeout_ms
        reason = (
            f"the transaction of {self._id} was begun {elapsed_ms} ms ago, and brokers abort one after {timeout_ms} ms; "
            "write less in each task, or raise kafka.transaction.timeout.ms"
            if is_overdue
            else f"another producer has begun to write as {self._id}. Unless this attempt was committed before, its "
            "rows never become visible. The other producer is a later attempt of the same task, or another query or job, "
            "which then needs its own checkpoint or writerName"
        )
        return FENCED(f"{text}; {reason}", overdue=is_overdue, **parameters)

    def _explain_rows(self, failure: Failure, undelivered: DeliveryFailed) -> ZKafkaError:
        """Return the rows' error if they failed the transaction, or the topic is missing; else the transaction's error."""
        missing_topic, delay = undelivered.parameters.get("missing_topic"), self._transactions.delay
        if failure.overdue_topic is not None and missing_topic is None and delay is not None:
            return self._failed(delay, f"adding {failure.partition} to the transaction")
        cause = self._transactions.failure
        if cause is None or cause.code in _OF_ROWS or missing_topic is not None:
            return undelivered
        return self._failed(cause, f"writing to {failure.partition}")
