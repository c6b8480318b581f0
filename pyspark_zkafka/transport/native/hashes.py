"""Hash function of whole key columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_zkafka.protocol.key_hashes import Column, Hashes, check_keys
from pyspark_zkafka.transport.native.arrays import CArray
from pyspark_zkafka.transport.native.library import require

__all__ = ["hash_keys"]

_KINDS = {"murmur2": 0, "murmur3": 1, "crc32": 2, "fnv1a": 3}


def hash_keys(name: str, keys: Column) -> Hashes:
    """The same numbers as `pyspark_zkafka.protocol.key_hashes.hash_keys`, in some ns per key."""
    check_keys(keys)
    hashes = np.zeros(len(keys), dtype=np.uint32)
    done = 0
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        place = CArray.of(chunk)
        require().hash(_KINDS[name], place.address, place.is_large, hashes[done:].ctypes.data)
        done += len(chunk)
    return hashes.view(np.int32)
