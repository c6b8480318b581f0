"""The smallest and the largest accepted value of each numeric option."""

from __future__ import annotations

__all__ = ["LIMITS"]

_INT, _LONG = 2**31 - 1, 2**63 - 1

LIMITS: dict[str, tuple[int, int]] = {
    "zookeeper.session.timeout.ms": (1, _INT),
    "zookeeper.connection.timeout.ms": (1, _INT),
    "key.schema.version": (1, _INT),
    "value.schema.version": (1, _INT),
    "minPartitions": (1, _INT),
    "maxRecordsPerPartition": (1, _LONG),
    "minRecordsPerPartition": (1, _LONG),
    "kafkaConsumer.pollTimeoutMs": (1, _LONG),
    "fetchOffset.numRetries": (0, _LONG),
    "fetchOffset.retryIntervalMs": (0, _LONG),
    "session.timeout.ms": (1, 3_600_000),
    "consumer.threads": (1, 100_000),
    "rebalance.max.retries": (1, _INT),
    "rebalance.backoff.ms": (1, _INT),
    "rebalance.hold.ms": (0, _INT),
    "batchId": (0, 10**18 - 1),
    "maxOffsetsPerTrigger": (1, _LONG),
    "maxBytesPerTrigger": (1, _LONG),
    "minOffsetsPerTrigger": (1, _LONG),
}
"""As in Java, options of Spark and limits of records or bytes are long. Others are int, or what a client takes."""
