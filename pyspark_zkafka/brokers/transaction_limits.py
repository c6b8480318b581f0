"""The brokers' limit for the timeout of a transaction, checked before any task begins one."""

from __future__ import annotations

import logging

from pyspark_zkafka.brokers.config_admin import ConfigAdmin
from pyspark_zkafka.conditions import TRANSACTION_TIMEOUT
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.values import TRANSACTION_TIMEOUT_MS, Connection

__all__ = ["require_allowed", "require_transaction_timeout"]

_log = logging.getLogger(__name__)
_SETTING = "transaction.max.timeout.ms"
_limits: dict[str, int | None] = {}
"""What was found, by bootstrap servers."""


def require_transaction_timeout(connection: Connection, bootstrap_servers: str) -> None:
    """Raise OptionError if kafka.transaction.timeout.ms exceeds what the brokers allow.

    Blocks for two requests, once in a process for each cluster. Where an ACL hides the brokers' settings, nothing is
    checked: the first task's transaction is refused then.
    """
    asked = int(connection.kafka.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    if bootstrap_servers not in _limits:
        _limits[bootstrap_servers] = _find(connection, bootstrap_servers)
    require_allowed(asked, _limits[bootstrap_servers])


def require_allowed(timeout_ms: int, allowed_ms: int | None) -> None:
    """Raise OptionError if a timeout exceeds the brokers' limit; None is an unknown limit."""
    if allowed_ms is not None and timeout_ms > allowed_ms:
        raise TRANSACTION_TIMEOUT(
            f"kafka.transaction.timeout.ms is {timeout_ms}, and the brokers allow {allowed_ms} at the most ({_SETTING}); "
            f"lower it, or raise {_SETTING} of the brokers",
        )


def _find(connection: Connection, bootstrap_servers: str) -> int | None:
    try:
        with ConfigAdmin.of(connection, bootstrap_servers) as admin:
            broker = min(admin.snapshot([]).brokers)
            value = admin.broker_config(broker, _SETTING)
    except ZKafkaError as error:
        _log.info("the brokers' %s is not known: %s", _SETTING, error)
        return None
    return None if value is None else int(value)
