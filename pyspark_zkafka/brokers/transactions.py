"""Transactions of producers: librdkafka's errors, and the brokers' limit for the time-out."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.conditions import FENCED, TRANSACTION_FAILED, TRANSACTION_TIMEOUT
from pyspark_zkafka.errors import TransactionFailed, ZKafkaError
from pyspark_zkafka.options.values import TRANSACTION_TIMEOUT_MS, ConnectionOptions

_log = logging.getLogger(__name__)
_SETTING = "transaction.max.timeout.ms"
_FENCING_CODES = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_REMEDIES = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ACLs must allow Write and Describe on the transactional id {id}",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "an ACL must allow Read on the group",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ACLs must allow Write on the topics written to, and Read on the ledger's topic",
    KafkaError.INVALID_PRODUCER_ID_MAPPING: (
        "the brokers have forgotten the transactional id {id}, which nobody used for transactional.id.expiration.ms; "
        "write again"
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "set kafka.transaction.timeout.ms (now {timeout_ms}) to at most the brokers' transaction.max.timeout.ms"
    ),
    KafkaError.OFFSET_METADATA_TOO_LARGE: "raise the brokers' offset.metadata.max.bytes, which the ledger's entries exceed",
    KafkaError._UNSUPPORTED_FEATURE: "transactions need brokers of version 0.11 or later",
    KafkaError.UNSUPPORTED_VERSION: "transactions need brokers of version 0.11 or later",
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "transactions need topics of message format 0.11 or later (log.message.format.version)"
    ),
}
_DEFAULT_REMEDY = "write again: the next attempt finds out by the ledger whether the rows were committed"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A failed transaction. `elapsed_ms` counts from its start, and is None before it."""

    transactional_id: str
    timeout_ms: int
    elapsed_ms: int | None = None

    @property
    def is_overdue(self) -> bool:
        """True if the brokers may have aborted the transaction after its time-out."""
        return self.elapsed_ms is not None and self.elapsed_ms >= self.timeout_ms


def transaction_failed(error: KafkaError, doing: str, transaction: Transaction) -> TransactionFailed:
    """Our error for one of librdkafka's, with the original name and text; `doing` describes the step."""
    found = f"{doing}: {error.name()} ({error.str()})"
    parameters = {"transactional_id": transaction.transactional_id, "code": error.name()}
    # Brokers report the same for another producer of the id, and for a transaction that they have aborted.
    if error.code() in _FENCING_CODES:
        overdue = transaction.is_overdue
        return FENCED(f"{found}; {_of_fencing(transaction)}", overdue=overdue, **parameters)
    remedy = _REMEDIES.get(error.code(), _DEFAULT_REMEDY)
    remedy = remedy.format(id=transaction.transactional_id, timeout_ms=transaction.timeout_ms)
    return TRANSACTION_FAILED(f"{found}; {remedy}", **parameters)


def _of_fencing(transaction: Transaction) -> str:
    if transaction.is_overdue:
        return (
            f"the transaction of {transaction.transactional_id} was begun {transaction.elapsed_ms} ms ago, and brokers "
            f"abort one after {transaction.timeout_ms} ms; write less in each task, or raise kafka.transaction.timeout.ms"
        )
    return (
        f"another producer has begun to write as {transaction.transactional_id}. Unless this attempt was committed before, "
        "nothing of it becomes visible. The other producer is a later attempt of the same task; or another query or job, "
        "which then needs a checkpoint or a writerName of its own"
    )


_limits: dict[str, int | None] = {}
"""Limits by bootstrap servers."""


def require_transaction_timeout(connection: ConnectionOptions, bootstrap_servers: str) -> None:
    """Raise OptionError if kafka.transaction.timeout.ms exceeds the brokers' limit.

    Blocks for two requests, once per process and cluster. Checks nothing if an ACL hides the brokers' settings. Brokers
    then refuse the first task's transaction.
    """
    timeout_ms = int(connection.kafka.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    if bootstrap_servers not in _limits:
        _limits[bootstrap_servers] = _find(connection, bootstrap_servers)
    require_allowed(timeout_ms, _limits[bootstrap_servers])


def require_allowed(timeout_ms: int, allowed_ms: int | None) -> None:
    """Raise OptionError if a time-out exceeds the brokers' limit, if that is known."""
    if allowed_ms is not None and timeout_ms > allowed_ms:
        raise TRANSACTION_TIMEOUT(
            f"kafka.transaction.timeout.ms is {timeout_ms}, and the brokers allow at most {allowed_ms} ({_SETTING}); "
            f"lower it, or raise {_SETTING} of the brokers",
        )


def _find(connection: ConnectionOptions, bootstrap_servers: str) -> int | None:
    try:
        with KafkaAdmin.of(connection, bootstrap_servers) as admin:
            broker = min(admin.snapshot([]).brokers)
            value = admin.broker_config(broker, _SETTING)
    except ZKafkaError as error:
        _log.info("kafka.transaction.timeout.ms is not checked, because the brokers' %s is unknown: %s", _SETTING, error)
        return None
    return None if value is None else int(value)
