"""The brokers' limit of a transaction's timeout."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.brokers.transaction_limits import require_allowed, require_transaction_timeout
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection

UNREACHABLE = "127.0.0.1:1"


@pytest.mark.parametrize(("timeout_ms", "allowed_ms"), [(900_000, 900_000), (1, 900_000), (2**31 - 1, None)])
def test_allowed(timeout_ms: int, allowed_ms: int | None) -> None:
    """A timeout may be as long as the brokers' limit, and any if that is not known."""
    require_allowed(timeout_ms, allowed_ms)


def test_not_allowed() -> None:
    """A longer one is an error of the options, with both numbers and both names."""
    with pytest.raises(OptionError) as caught:
        require_allowed(900_001, 900_000)
    assert str(caught.value) == (
        "[TRANSACTION_TIMEOUT] kafka.transaction.timeout.ms is 900001, and the brokers allow 900000 at the most "
        "(transaction.max.timeout.ms); lower it, or raise transaction.max.timeout.ms of the brokers"
    )


def test_unknown_limit(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers that do not tell their limit are asked once in a process, and nothing is refused before a task begins."""
    options = {"kafka.bootstrap.servers": UNREACHABLE, "kafka.socket.timeout.ms": "300"}
    connection = parse_connection({**options, "kafka.transaction.timeout.ms": "2000000000"}, "write")
    with caplog.at_level(logging.INFO):
        require_transaction_timeout(connection, UNREACHABLE)
        require_transaction_timeout(connection, UNREACHABLE)
    assert [text.partition(": ")[0] for text in caplog.messages if "transaction.max" in text] == [
        "the brokers' transaction.max.timeout.ms is not known"
    ]
