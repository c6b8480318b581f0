"""Hash of a batch's rows, regardless of their order."""

from __future__ import annotations

from ctypes import c_uint64

from pyspark_zkafka.protocol.rows import OutgoingBatch
from pyspark_zkafka.transport.native.arrays import CArray
from pyspark_zkafka.transport.native.library import require, topic_argument
from pyspark_zkafka.transport.native.producer import c_headers

__all__ = ["hash_rows"]


def hash_rows(batch: OutgoingBatch) -> tuple[int, int]:
    """The same numbers as `pyspark_zkafka.protocol.row_digests.hash_rows`, in some 50 ns for 100 bytes."""
    value, key, partitions, timestamps, headers = (
        CArray.of(a) for a in (batch.value, batch.key, batch.partition, batch.timestamp_ms, c_headers(batch))
    )
    sums = (c_uint64 * 2)()
    done = require().hash_rows(
        topic_argument(batch.topic),
        value.address,
        value.is_large,
        key.address,
        key.is_large,
        partitions.address,
        timestamps.address,
        headers.address,
        sums,
    )
    if not done:
        raise MemoryError(f"no memory to hash the rows of {batch.topic}")
    return sums[0], sums[1]
