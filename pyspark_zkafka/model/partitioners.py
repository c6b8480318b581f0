"""Partitioners: the partition of each row, computed on whole Arrow arrays.

===========  =========================================================  ================================================
partitioner  hash of a non-null key                                     the same as
===========  =========================================================  ================================================
murmur2      Kafka's variant of MurmurHash2, sign bit cleared           Java's default; librdkafka's ``murmur2_random``
murmur3      MurmurHash3_x86_32 with seed 0, sign bit cleared           clients that hash with the common murmur3
crc32        CRC-32 (zlib's), unsigned                                  librdkafka's ``consistent``
fnv1a        32-bit FNV-1a, absolute value of the signed result         librdkafka's ``fnv1a``; Sarama's default
roundrobin   none: keys are ignored                                     Java's ``RoundRobinPartitioner``
===========  =========================================================  ================================================

The partition is the hash modulo the number of all partitions, also partitions without a leader, so that a key keeps its
partition when a broker goes down. Rows without a hash go in turn to the partitions that have a leader.

An empty key has a hash. (librdkafka's ``consistent`` sends null keys to partition 0; here they go to the next partition.)

References
----------
``org.apache.kafka.clients.producer.internals.BuiltInPartitioner`` and ``org.apache.kafka.common.utils.Utils`` of
kafka-clients 3.9.1; ``DefaultPartitioner`` of kafka-clients 2.3.1 for null keys; ``rd_kafka_msg_partitioner_*`` and
``rd_fnv1a`` of librdkafka 2.16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from pyspark_zkafka.conditions import PARTITION_OUT_OF_RANGE, TOPIC_WITHOUT_PARTITIONS, UNKNOWN_PARTITIONER
from pyspark_zkafka.model.key_hashes import ArrowColumn, Hashes, HashKeys, hash_keys, nulls, to_positive


@dataclass(frozen=True, slots=True)
class Router:
    """Router of the rows of one topic: immutable, pickle-safe, made once on the driver and used by every task.

    `partitions` is the number of the topic's partitions. `available` has the ones with a leader; if it is empty, rows
    without a hash go to all partitions in turn, as in Java. `partitioner` is one of `PARTITIONERS`. `topic` is for error
    texts.

    Raises UnknownTopic (``TOPIC_WITHOUT_PARTITIONS``) or OptionError (``UNKNOWN_PARTITIONER``).
    """

    topic: str
    partitions: int
    available: Sequence[int]
    partitioner: str = "murmur2"

    def __post_init__(self) -> None:
        if self.partitions < 1:
            text = f"Topic {self.topic} has no partition to write to; create the topic, or correct its name"
            raise TOPIC_WITHOUT_PARTITIONS(text, topic=self.topic)
        if self.partitioner not in PARTITIONERS:
            text = f"There is no partitioner {self.partitioner!r}; choose one of {', '.join(PARTITIONERS)}"
            raise UNKNOWN_PARTITIONER(text, partitioner=self.partitioner)

    def route(
        self,
        rows: int,
        keys: ArrowColumn | None = None,
        explicit: ArrowColumn | None = None,
        start: int = 0,
        hash_keys: HashKeys = hash_keys,
    ) -> tuple[Hashes, int]:
        """Return the partition of each of `rows` rows, and the counter for the next batch.

        - `keys` are binary or string; null is a row without a key, and None means that no row has one.
        - `explicit` has the partitions that rows specify, as integers. They take precedence over keys. Null is none.
        - `start` is the counter of rows without a hash. Concurrent tasks should start at different counters, or else their
          first rows all go to the same partition.
        - `hash_keys` is the function of that name, or a faster equivalent.

        Raises InvalidRow (``PARTITION_OUT_OF_RANGE``) for the first explicit partition that does not exist, and OptionError
        (``BAD_KEY_TYPE``) for keys that are neither binary nor string.

        >>> import pyarrow as pa
        >>> router = Router("orders", partitions=6, available=[0, 1, 2, 4])
        >>> routed, counter = router.route(4, pa.array([b"a", None, b"b", None]), pa.array([None, None, 5, None]))
        >>> routed.tolist(), counter
        ([4, 0, 5, 1], 2)
        """
        routed = np.empty(rows, dtype=np.int32)
        unassigned = np.ones(rows, dtype=bool)
        if _has_values(keys) and self.partitioner != "roundrobin":
            routed[:] = _POSITIVE[self.partitioner](hash_keys(self.partitioner, keys)) % self.partitions
            unassigned = nulls(keys)
        if _has_values(explicit):
            unassigned &= self._assign_explicit(explicit, routed)
        count = int(np.count_nonzero(unassigned))
        targets = np.asarray(self.available if len(self.available) else range(self.partitions), dtype=np.int32)
        routed[unassigned] = targets[(np.arange(count, dtype=np.int64) + start % len(targets)) % len(targets)]
        return routed, start + count

    def _assign_explicit(self, explicit: ArrowColumn, routed: Hashes) -> npt.NDArray[np.bool_]:
        """Write the explicit partitions into `routed`. Return a mask of the rows that have none."""
        unassigned = nulls(explicit)
        requested = explicit.fill_null(0).to_numpy()
        wrong = np.flatnonzero(((requested < 0) | (requested >= self.partitions)) & ~unassigned)
        if wrong.size:
            row, partition = int(wrong[0]), int(requested[wrong[0]])
            raise PARTITION_OUT_OF_RANGE(
                f"Row {row} of the batch asks for partition {partition} of topic {self.topic}; the topic has "
                f"{self.partitions} partitions, 0 to {self.partitions - 1}; correct the column partition, or leave it null",
                topic=self.topic,
                row=row,
                partition=partition,
                partitions=self.partitions,
            )
        np.copyto(routed, requested, where=~unassigned, casting="unsafe")
        return unassigned


# Functions that make the hashes non-negative.
_POSITIVE: dict[str, Callable[[Hashes], npt.NDArray[np.integer]]] = {
    "murmur2": to_positive,
    "murmur3": to_positive,
    "crc32": lambda hashes: hashes.view(np.uint32),
    # In 64 bits: -2**31 becomes 2**31, as in librdkafka's unsigned modulo.
    "fnv1a": lambda hashes: np.abs(hashes.astype(np.int64)),
}
PARTITIONERS: tuple[str, ...] = (*_POSITIVE, "roundrobin")


def _has_values(column: ArrowColumn | None) -> TypeGuard[ArrowColumn]:
    return column is not None and column.null_count < len(column)
