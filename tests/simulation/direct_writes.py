"""Random schedules of the real direct sender against scripted brokers on sockets.

Brokers are slow, move leaders and damage responses. They may refuse batches, large ones or others, cut connections before
and after the append, or process requests of lost connections late.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.producer import QueueLimits
from tests.support.scripted_broker import Received
from tests.support.scripted_cluster import DAMAGES, INIT_PRODUCER_ID, METADATA, PRODUCE, ScriptedCluster, Treatment

PROGRESS_S = 60.0
BEFORE_APPEND = (2, 3, 5, 6, 19, 56, 74, 75)
AFTER_APPEND = (7, 20)
PRODUCER_LATER = (7, 14, 15, 16, 51)
_SILENT = Treatment(respond=lambda request, body: b"")
_CLOSED = Treatment(is_processed=False, respond=DAMAGES["closed"])


class DirectSchedule:
    """One random schedule of tasks that write; `run` raises AssertionError if a rule is broken."""

    def __init__(self, seed: int) -> None:
        self._random = r = random.Random(seed)
        self._partitions = r.randint(1, 5)
        self._faults_left = r.randint(0, 12)
        self._fault_share = r.choice([0.2, 0.5, 0.9])
        self._delay_s = r.choice([0.0, 0.0, 0.001, 0.005])
        self._is_impatient = r.random() < 0.1
        # The brokers' threads draw, too: with their own generator, they do not disturb the choices of the schedule.
        self._choices = random.Random(seed + 1)
        self._cluster = ScriptedCluster(
            self._treat, most_bytes=r.choice([500, 10_000]), brokers=r.randint(1, 3), partitions=self._partitions
        )
        self._limits = QueueLimits(size_bytes=r.choice([2_000, 20_000, 10**6]))
        self._properties: dict[str, Any] = {
            "batch.size": r.choice([100, 500, 5_000]),
            "batch.num.messages": r.choice([1, 7, 10_000]),
            "message.max.bytes": r.choice([1_000, 10_000]),
            "compression.type": r.choice(["none", "none", "lz4", "zstd", "gzip", "snappy"]),
            "linger.ms": r.choice([0, 5, 1_000]),
            "retry.backoff.ms": 1,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 5,
            "request.timeout.ms": 60,
            "delivery.timeout.ms": 30 if self._is_impatient else 100_000,
        }
        self._sent: list[list[bytes]] = [[] for _ in range(self._partitions)]
        self._acknowledged = [0] * self._partitions

    def run(self) -> bool:
        """Write the rows of some tasks and check the logs; return False if a task failed, as only impatient ones may."""
        properties = {**self._properties, "bootstrap.servers": ""}
        with self._cluster as cluster:
            properties["bootstrap.servers"] = cluster.servers
            with DirectSender(properties, self._limits) as sender:
                is_done = all(self._write(sender) for _ in range(self._random.randint(1, 3)))
        cluster.settle()
        self._check(is_done)
        return is_done

    def _write(self, sender: DirectSender) -> bool:
        """Write the rows of a task."""
        r = self._random
        sender.begin()
        until = time.monotonic() + PROGRESS_S
        for rows, partitions in self._rows():
            sender.add(rows, partitions)
            while not sender.advance(r.choice([0, 0.01])) and sender.failure is None:
                sender.flush(0.01)
                assert time.monotonic() < until, "no progress"
            if r.random() < 0.3:
                sender.poll(r.choice([0, 0.002]))
        while sender.queued and sender.failure is None:
            sender.flush(0.01)
            assert time.monotonic() < until, "no progress"
        if sender.failure is not None:
            sender.purge(in_flight=True)
        for (_, partition), count in sender._producing.delivered.items():
            self._acknowledged[partition] += count
        return sender.failure is None

    def _rows(self) -> Iterator[tuple[OutgoingBatch, Any]]:
        r = self._random
        for _ in range(r.randint(1, 5)):
            partitions = np.array([r.randrange(self._partitions) for _ in range(r.randint(1, 40))], dtype=np.int32)
            values = []
            for partition in partitions.tolist():
                mine = self._sent[partition]
                mine.append(b"%d-%d." % (partition, len(mine)) + bytes(r.choice([0, 3, 50, 300])))
                values.append(mine[-1])
            yield OutgoingBatch("t", pa.array(values, pa.binary()), None, None, None, None), partitions

    def _check(self, is_done: bool) -> None:
        assert is_done or self._is_impatient, "failed without need"
        for partition, log in enumerate(self._cluster.logs):
            sent, count = self._sent[partition], self._acknowledged[partition]
            assert len(set(log.values)) == len(log.values), f"partition {partition}: written twice"
            places = {value: n for n, value in enumerate(sent)}
            found = [places[value] for value in log.values]
            assert found == sorted(found), f"partition {partition}: out of order"
            assert found[:count] == list(range(count)), f"partition {partition}: acknowledged, not written"
            if is_done:
                assert log.values == sent, f"partition {partition}: {count} acknowledged of {len(sent)}"

    def _treat(self, broker: int, request: Received) -> Treatment:
        r = self._choices
        delay_s = self._delay_s * r.random()
        if r.random() < 0.05:
            self._cluster.logs[r.randrange(self._partitions)].leader = r.randrange(len(self._cluster.brokers))
        if not self._faults_left or r.random() >= self._fault_share:
            return Treatment(delay_s)
        self._faults_left -= 1
        if request.api == METADATA:
            return r.choice([Treatment(code=5), Treatment(code=3), _CLOSED])
        if request.api == INIT_PRODUCER_ID:
            return r.choice([Treatment(code=r.choice(PRODUCER_LATER)), _CLOSED])
        assert request.api == PRODUCE
        return r.choice(
            [
                Treatment(delay_s, code=r.choice(BEFORE_APPEND), is_processed=False),
                Treatment(delay_s, code=r.choice(AFTER_APPEND)),
                Treatment(delay_s, is_late=True),
                Treatment(delay_s, throttle_ms=r.randrange(20)),
                _CLOSED,
                Treatment(delay_s, respond=DAMAGES["closed"]),
                Treatment(0.1 if r.random() < 0.2 else 0.01),
                _SILENT if r.random() < 0.1 else _CLOSED,
                Treatment(respond=DAMAGES[r.choice(list(DAMAGES))], is_processed=r.random() < 0.5),
                Treatment(respond=lambda request, body: body[:9]),
            ]
        )
