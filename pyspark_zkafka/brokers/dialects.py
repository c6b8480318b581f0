"""Brokers before Kafka 0.11: what they lack, and the properties with which librdkafka speaks their protocol.

References
----------
KIP-32 and KIP-35 (timestamps and ApiVersions, 0.10.0), KIP-82 and KIP-98 (headers, idempotence and transactions, 0.11.0).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark_zkafka.brokers.requests import MODERN, BrokerDialect, BrokerRequests
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kept import Remembered

_log = logging.getLogger(__name__)

_PATIENCE_S = 10.0
_OWN = ("api.version.request", "broker.version.fallback")

_modern: Remembered[str, bool] = Remembered()
"""Bootstrap servers of clusters from Kafka 0.11 on. Older brokers are asked each time: they may be upgraded meanwhile."""


def find_dialect(
    bootstrap_servers: str, properties: Mapping[str, Any], unreachable_after_s: float | None = None
) -> BrokerDialect:
    """Find the dialect of the cluster's brokers, which are assumed to be alike.

    Blocks for a request, or with brokers from 0.11 on for one request per process and cluster. Raises ZKafkaError if no
    broker answers; see `BrokerRequests`.
    """
    if _modern.get(bootstrap_servers):
        return MODERN
    with BrokerRequests(bootstrap_servers, properties, unreachable_after_s=unreachable_after_s) as requests:
        requests.metadata()
    if requests.dialect == MODERN:
        _modern.put(bootstrap_servers, True)
    return requests.dialect


def with_dialect(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Add the properties that librdkafka needs for the dialect of the cluster's brokers.

    Keeps a user's own setting of the brokers' version. Before Kafka 0.11, switches the idempotent producer off: one request
    in flight to each broker then keeps the order of rows. Blocks like `find_dialect`, for at most ten seconds if brokers
    are silent. If no broker answers, adds nothing and leaves the report to librdkafka.
    """
    try:
        given = {**properties, "socket.timeout.ms": int(_PATIENCE_S * 1000)}
        found = find_dialect(str(properties["bootstrap.servers"]), given, unreachable_after_s=0)
    except ZKafkaError as error:
        _log.info("The brokers' version is not known: %s", error)
        return dict(properties)
    added: dict[str, Any] = {}
    if found.release and not any(name in properties for name in _OWN):
        added |= {"api.version.request": False, "broker.version.fallback": found.release}
    if found.record_format < 2 and str(properties.get("enable.idempotence", False)).lower() == "true":
        _log.info(
            "The brokers are older than Kafka 0.11, and have no idempotent producer: a row may be written twice after a "
            "failure (kafka.enable.idempotence)"
        )
        added |= {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    return {**properties, **added}
