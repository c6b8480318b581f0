"""Hashes of key columns, and of the rows of a batch regardless of their order, in C."""

from __future__ import annotations

from ctypes import c_uint64

import numpy as np
import pyarrow as pa

from pyspark_zkafka.model.partitioners import ArrowColumn, Hashes, check_keys
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.library import CArray, headers_argument, require, topic_argument

_KINDS = {"murmur2": 0, "murmur3": 1, "crc32": 2, "fnv1a": 3}


def hash_keys(name: str, keys: ArrowColumn) -> Hashes:
    """As `pyspark_zkafka.model.partitioners.hash_keys`, in some ns per key."""
    check_keys(keys)
    hashes = np.zeros(len(keys), dtype=np.uint32)
    done = 0
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        place = CArray.of(chunk)
        require().hash(_KINDS[name], *place.column, hashes[done:].ctypes.data)
        done += len(chunk)
    return hashes.view(np.int32)


def hash_rows(batch: OutgoingBatch) -> tuple[int, int]:
    """As `pyspark_zkafka.model.row_digests.hash_rows`, in some 50 ns per 100 bytes."""
    value, key, partitions, timestamps, headers = (
        CArray.of(a) for a in (batch.value, batch.key, batch.partition, batch.timestamp_ms, headers_argument(batch.headers))
    )
    sums = (c_uint64 * 2)()
    done = require().hash_rows(
        topic_argument(batch.topic),
        *value.column,
        *key.column,
        partitions.address,
        timestamps.address,
        headers.address,
        sums,
    )
    if not done:
        raise MemoryError(f"no memory to hash the rows of {batch.topic}")
    return sums[0], sums[1]
