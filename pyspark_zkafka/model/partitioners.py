"""Partitioners: the hash of each key and the partition of each row, computed on whole Arrow arrays.

===========  =========================================================  ================================================
partitioner  hash of a non-null key                                     the same as
===========  =========================================================  ================================================
murmur2      Kafka's variant of MurmurHash2, sign bit cleared           Java's default; librdkafka's ``murmur2_random``
murmur3      MurmurHash3_x86_32 with seed 0, sign bit cleared           clients that hash with the common murmur3
crc32        CRC-32 (zlib's), unsigned                                  librdkafka's ``consistent``
fnv1a        32-bit FNV-1a, absolute value of the signed result         librdkafka's ``fnv1a``; Sarama's default
roundrobin   none: keys are ignored                                     Java's ``RoundRobinPartitioner``
===========  =========================================================  ================================================

The partition is the hash modulo the number of all partitions. Partitions without a leader count, too, so that a key keeps
its partition when a broker goes down. Rows without a hash go in turn to the partitions that have a leader.

An empty key has a hash. A null key has no hash. (librdkafka's ``consistent`` sends null keys to partition 0.)

References
----------
``org.apache.kafka.clients.producer.internals.BuiltInPartitioner`` and ``org.apache.kafka.common.utils.Utils`` of
kafka-clients 3.9.1; ``DefaultPartitioner`` of kafka-clients 2.3.1 for null keys; ``rd_kafka_msg_partitioner_*``,
``rd_crc32`` and ``rd_fnv1a`` of librdkafka 2.16.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_zkafka.conditions import BAD_KEY_TYPE, PARTITION_OUT_OF_RANGE, TOPIC_WITHOUT_PARTITIONS, UNKNOWN_PARTITIONER
from pyspark_zkafka.model.spark_types import spark_name

ArrowColumn: TypeAlias = "pa.Array | pa.ChunkedArray"
Hashes: TypeAlias = "npt.NDArray[np.int32]"
HashKeys: TypeAlias = "Callable[[str, ArrowColumn], Hashes]"
"""Function from the name of a hash (murmur2, murmur3, crc32, fnv1a) and keys to hashes: 32 bits, signed, 0 for null."""

_KEY_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_M = 0x5BD1E995
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_UINT32 = 0xFFFFFFFF

# Functions that make the hashes non-negative.
_POSITIVE: dict[str, Callable[[Hashes], npt.NDArray[np.integer]]] = {
    # The sign bit is cleared as by kafka-clients' Utils.toPositive, which differs from the absolute value.
    **dict.fromkeys(("murmur2", "murmur3"), lambda hashes: hashes & np.int32(0x7FFFFFFF)),
    "crc32": lambda hashes: hashes.view(np.uint32),
    # In 64 bits: -2**31 becomes 2**31, as in librdkafka's unsigned modulo.
    "fnv1a": lambda hashes: np.abs(hashes.astype(np.int64)),
}

PARTITIONERS: tuple[str, ...] = (*_POSITIVE, "roundrobin")


def hash_keys(name: str, keys: ArrowColumn) -> Hashes:
    """Hash each key in Python, as `HashKeys` describes; raises as `check_keys` does.

    >>> hash_keys("murmur2", pa.array([b"21", b"foobar", b""])).tolist()
    [-973932308, -790332482, 275646681]
    """
    check_keys(keys)
    hash_of = _HASHES[name]
    cells = keys.cast(pa.large_binary()).to_pylist()
    found = (0 if key is None else hash_of(key) & _UINT32 for key in cells)
    return np.fromiter(found, dtype=np.uint32, count=len(keys)).view(np.int32)


def _murmur2(key: bytes) -> int:
    hashed = _MURMUR2_SEED ^ len(key)
    whole = len(key) & ~3
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        mixed = word * _MURMUR2_M & _UINT32
        mixed = (mixed ^ mixed >> 24) * _MURMUR2_M & _UINT32
        hashed = hashed * _MURMUR2_M & _UINT32 ^ mixed
    if rest := key[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MURMUR2_M & _UINT32
    hashed = (hashed ^ hashed >> 13) * _MURMUR2_M & _UINT32
    return hashed ^ hashed >> 15


def _murmur3(key: bytes) -> int:
    import mmh3  # few writes need it, and every task would load it

    return mmh3.hash(key)


def _fnv1a(key: bytes) -> int:
    hashed = _FNV_OFFSET
    for byte in key:
        hashed = (hashed ^ byte) * _FNV_PRIME & _UINT32
    return hashed


_HASHES: dict[str, Callable[[bytes], int]] = {
    "murmur2": _murmur2,
    "murmur3": _murmur3,
    "crc32": zlib.crc32,
    "fnv1a": _fnv1a,
}


@dataclass(frozen=True, slots=True)
class Router:
    """Router of the rows of one topic: immutable, pickle-safe, made once on the driver and used by every task.

    `partitions` is the number of the topic's partitions. `available` has the partitions with a leader. If it is empty, rows
    without a hash go to all partitions in turn, as in Java. `partitioner` is one of `PARTITIONERS`. `topic` appears only in
    error texts.

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

        - `keys` are binary or string. Null is a row without a key, and None means that no row has a key.
        - `explicit` has the partitions that rows specify, as integers. They take precedence over keys. Null specifies no
          partition.
        - `start` is the counter of rows without a hash. Concurrent tasks should start at different counters, or else their
          first rows all go to the same partition.
        - `hash_keys` is the function of that name, or a faster equivalent.

        Raises InvalidRow (``PARTITION_OUT_OF_RANGE``) for the first explicit partition that does not exist, and OptionError
        (``BAD_KEY_TYPE``) for keys that are neither binary nor string, unless all are null, or with roundrobin.

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
        """Write the explicit partitions into `routed`. Return a mask of the rows without an explicit partition."""
        unassigned = nulls(explicit)
        requested = explicit.fill_null(0).to_numpy()
        wrong = np.flatnonzero(((requested < 0) | (requested >= self.partitions)) & ~unassigned)
        if wrong.size:
            row, partition = int(wrong[0]), int(requested[wrong[0]])
            raise PARTITION_OUT_OF_RANGE(
                f"Row {row} of the batch asks for partition {partition} of topic {self.topic}; the topic has "
                f"{self.partitions} partitions, 0 to {self.partitions - 1}. Correct the column partition, or leave it null",
                topic=self.topic,
                row=row,
                partition=partition,
                partitions=self.partitions,
            )
        np.copyto(routed, requested, where=~unassigned, casting="unsafe")
        return unassigned


def _has_values(column: ArrowColumn | None) -> TypeGuard[ArrowColumn]:
    return column is not None and column.null_count < len(column)


def nulls(column: ArrowColumn) -> npt.NDArray[np.bool_]:
    """Return a mask that is True where a column is null."""
    if not column.null_count:
        return np.zeros(len(column), dtype=bool)
    mask: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def check_keys(keys: ArrowColumn) -> None:
    """Raise OptionError (BAD_KEY_TYPE) for keys that are neither binary nor string."""
    if keys.type not in _KEY_TYPES:
        text = f"A column key of type {spark_name(keys.type)} cannot be hashed; cast it to binary or string"
        raise BAD_KEY_TYPE(text, type=spark_name(keys.type))
