"""Producer of a workload's records, and its journal."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.faults.harness.history import Sent
from tests.faults.harness.journal import Journal
from tests.faults.harness.values import digest, value

__all__ = ["Records"]

_KEYS = 50
_FLUSH_S = 120


class Records(threading.Thread):
    """Sends records from `start` to `stop`, and journals the outcome of each.

    Never gives up a record: after that, librdkafka's idempotent producer may write the following ones twice.
    """

    def __init__(self, servers: str, topic: str, rate: int, journal: Journal, *, is_idempotent: bool = True) -> None:
        super().__init__(name=f"records of {topic}", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": is_idempotent,
                "acks": "all",
                "max.in.flight.requests.per.connection": 5 if is_idempotent else 1,
                "message.timeout.ms": 0,
                "linger.ms": 20,
                "partitioner": "murmur2_random",
                "topic.metadata.refresh.interval.ms": 5000,
                # Starting brokers know no topic yet; values above 2,147,483 ms overflow and mean 0.
                "topic.metadata.propagation.max.ms": 2_100_000,
            }
        )
        self._topic, self._rate, self._journal = topic, rate, journal
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self.acknowledged = 0

    def run(self) -> None:
        """Send until the end, waiting whenever the queue is full."""
        try:
            self._send_all()
        except Exception as error:  # noqa: BLE001 - raised by `stop`
            self._failure = error

    def stop(self) -> None:
        """Stop sending; returns when each record is acknowledged. Raises the error that ended the thread early."""
        self._stopped.set()
        self.join()
        if self._failure is not None:
            raise self._failure
        assert self._producer.flush(_FLUSH_S) == 0, f"records of {self._topic} are not acknowledged"

    def _send_all(self) -> None:
        number = 0
        while not self._stopped.wait(0.1):
            for _ in range(self._rate // 10):
                number += self._send(number)
            self._producer.poll(0)

    def _send(self, number: int) -> int:
        sent = value(self._topic, number)
        key = f"k{number % _KEYS}"
        try:
            self._producer.produce(
                self._topic, sent, key, on_delivery=lambda error, found: self._journal_it(error, found, key, sent)
            )
        except BufferError:
            return 0
        return 1

    def _journal_it(self, error: KafkaException | None, found: Any, key: str, sent: bytes) -> None:
        is_acknowledged = error is None
        self.acknowledged += is_acknowledged
        offset = found.offset() if is_acknowledged and found.offset() is not None else -1
        place = found.topic(), found.partition() or 0  # None for a record that was given up before it had a partition
        self._journal.add(Sent(time.time(), *place, offset, key, digest(sent), is_acknowledged))
