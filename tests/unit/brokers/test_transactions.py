"""Errors of transactions, and the brokers' limits."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.transactions import (
    Transaction,
    require_allowed,
    require_transaction_timeout,
    transaction_failed,
)
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection
from tests.support.cases import each

YOUNG = Transaction("zkafka-q-3", 300_000, 299_999)
OLD = Transaction("zkafka-q-3", 300_000, 300_000)
NOT_BEGUN = Transaction("zkafka-q-3", 300_000)
FENCING = [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH]


@each("code", FENCING)
@each("transaction", [YOUNG, NOT_BEGUN])
def test_fenced_by_another(code: int, transaction: Transaction) -> None:
    """A transaction fenced before its time-out was fenced by another producer, and the error names its id."""
    error = transaction_failed(KafkaError(code), "committing", transaction)
    assert (error.condition, error.parameters["overdue"]) == ("FENCED", False)
    assert "another producer has begun to write as zkafka-q-3" in error.message


@pytest.mark.parametrize("code", FENCING)
def test_timed_out(code: int) -> None:
    """A transaction fenced after its time-out was ended by brokers, and the error names the option to raise."""
    error = transaction_failed(KafkaError(code), "committing", OLD)
    assert (error.condition, error.parameters["overdue"]) == ("FENCED", True)
    assert "begun 300000 ms ago" in error.message
    assert "raise kafka.transaction.timeout.ms" in error.message


@each(
    ("code", "remedy"),
    [
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Write and Describe on the transactional id zkafka-q-3"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "an ACL must allow Read on the group"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Write on the topics written to, and Read on the ledger's topic"),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, "transactional.id.expiration.ms; write again"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "(now 300000) to at most the brokers' transaction.max.timeout.ms"),
        (KafkaError._UNSUPPORTED_FEATURE, "brokers of version 0.11 or later"),
        (KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, "topics of message format 0.11 or later (log.message.format.version)"),
        (KafkaError._TIMED_OUT, "finds out by the ledger whether the rows were committed"),
    ],
)
def test_remedies(code: int, remedy: str) -> None:
    """An error has librdkafka's name and text, the action, and a remedy."""
    error = transaction_failed(KafkaError(code, "quoted"), "committing a transaction", YOUNG)
    assert error.condition == "TRANSACTION_FAILED"
    assert error.message.startswith(f"committing a transaction: {KafkaError(code).name()} (quoted); ")
    assert error.message.endswith(remedy)
    assert error.parameters == {"transactional_id": "zkafka-q-3", "code": KafkaError(code).name()}


UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize(("timeout_ms", "allowed_ms"), [(900_000, 900_000), (1, 900_000), (2**31 - 1, None)])
def test_allowed(timeout_ms: int, allowed_ms: int | None) -> None:
    """A time-out up to the brokers' limit is allowed, and any time-out if the limit is unknown."""
    require_allowed(timeout_ms, allowed_ms)


def test_not_allowed() -> None:
    """A time-out above the brokers' limit raises an option error with both numbers and names."""
    with pytest.raises(OptionError) as caught:
        require_allowed(900_001, 900_000)
    assert str(caught.value) == (
        "[TRANSACTION_TIMEOUT] kafka.transaction.timeout.ms is 900001, and the brokers allow at most 900000 "
        "(transaction.max.timeout.ms); lower it, or raise transaction.max.timeout.ms of the brokers"
    )


def test_unknown_limit(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers that do not report their limit are asked once per process, and nothing is refused before a task starts."""
    options = {"kafka.bootstrap.servers": UNREACHABLE, "kafka.socket.timeout.ms": "300"}
    connection = parse_connection({**options, "kafka.transaction.timeout.ms": "2000000000"}, "write")
    with caplog.at_level(logging.INFO):
        require_transaction_timeout(connection, UNREACHABLE)
        require_transaction_timeout(connection, UNREACHABLE)
    assert [text.partition(": ")[0] for text in caplog.messages if "transaction.max" in text] == [
        "kafka.transaction.timeout.ms is not checked, because the brokers' transaction.max.timeout.ms is unknown"
    ]
