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

The partition is the hash modulo the number of all partitions, also partitions without a leader, so that a key keeps its
partition when a broker goes down. Rows without a hash go in turn to the partitions that have a leader.

Murmur2 and FNV-1a run over numpy arrays and take 20 to 30 ns for a key of 10 bytes. Murmur3 and CRC-32 call a C function
for each key and take about 100 ns.

An empty key has a hash. (librdkafka's ``consistent`` sends null keys to partition 0; here they go to the next partition.)

References
----------
``org.apache.kafka.clients.producer.internals.BuiltInPartitioner`` and ``org.apache.kafka.common.utils.Utils`` of
kafka-clients 3.9.1; ``DefaultPartitioner`` of kafka-clients 2.3.1 for null keys; ``rd_kafka_msg_partitioner_*``,
``rd_crc32`` and ``rd_fnv1a`` of librdkafka 2.16.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_zkafka.conditions import BAD_KEY_TYPE, PARTITION_OUT_OF_RANGE, TOPIC_WITHOUT_PARTITIONS, UNKNOWN_PARTITIONER

ArrowColumn: TypeAlias = "pa.Array | pa.ChunkedArray"
Hashes: TypeAlias = "npt.NDArray[np.int32]"
HashKeys: TypeAlias = "Callable[[str, ArrowColumn], Hashes]"
"""Hashes keys by the name of the hash (murmur2, murmur3, crc32, fnv1a): 32 bits, signed, 0 for a null."""
_Positions: TypeAlias = "npt.NDArray[np.int64]"
_Words: TypeAlias = "npt.NDArray[np.uint32]"

# Below this many rows, a numpy call costs more than the rows' own arithmetic in Python.
_FEW_ROWS = 24
# Rows hashed at a time: their working arrays stay in the processor's cache.
_BLOCK_ROWS = 16_384

_KEY_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_M = 0x5BD1E995
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_UINT32 = 0xFFFFFFFF


def hash_keys(name: str, keys: ArrowColumn) -> Hashes:
    """Hash each key in Python and numpy, as `HashKeys` describes; raises as `check_keys` does.

    >>> hash_keys("murmur2", pa.array([b"21", b"foobar", b""])).tolist()
    [-973932308, -790332482, 275646681]
    """
    if name in _OF_BLOCKS:
        return _over_blocks(keys, _OF_BLOCKS[name])
    if name == "crc32":
        return _over_keys(keys, zlib.crc32)
    import mmh3  # few writes need it, and every task would load it

    return _over_keys(keys, mmh3.hash)


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
    # The sign bit is cleared as by kafka-clients' Utils.toPositive, which differs from the absolute value.
    **dict.fromkeys(("murmur2", "murmur3"), lambda hashes: hashes & np.int32(0x7FFFFFFF)),
    "crc32": lambda hashes: hashes.view(np.uint32),
    # In 64 bits: -2**31 becomes 2**31, as in librdkafka's unsigned modulo.
    "fnv1a": lambda hashes: np.abs(hashes.astype(np.int64)),
}
PARTITIONERS: tuple[str, ...] = (*_POSITIVE, "roundrobin")


def _has_values(column: ArrowColumn | None) -> TypeGuard[ArrowColumn]:
    return column is not None and column.null_count < len(column)


def nulls(column: ArrowColumn) -> npt.NDArray[np.bool_]:
    """Return a mask that is True where a column is null."""
    if not column.null_count:
        return np.zeros(len(column), dtype=bool)
    mask = column.is_null()
    found: npt.NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask.to_numpy()
    return found


def check_keys(keys: ArrowColumn) -> None:
    """Raise OptionError (BAD_KEY_TYPE) for keys that are neither binary nor string."""
    if keys.type not in _KEY_TYPES:
        text = f"A column key of type {keys.type} cannot be hashed; cast it to binary or string"
        raise BAD_KEY_TYPE(text, type=str(keys.type))


def _chunks(keys: ArrowColumn) -> list[pa.Array]:
    check_keys(keys)
    return list(keys.chunks) if isinstance(keys, pa.ChunkedArray) else [keys]


def _over_keys(keys: ArrowColumn, hash_of: Callable[[bytes], int]) -> Hashes:
    """Call `hash_of`, whose results are signed or not, for each key."""
    cells = (key for chunk in _chunks(keys) for key in chunk.cast(pa.large_binary()).to_pylist())
    found = (0 if key is None else hash_of(key) & _UINT32 for key in cells)
    return np.fromiter(found, dtype=np.uint32, count=len(keys)).view(np.int32)


def _over_blocks(keys: ArrowColumn, hash_block: Callable[[_Block], _Words]) -> Hashes:
    hashes = np.empty(len(keys), dtype=np.uint32)
    done = 0
    for chunk in _chunks(keys):
        for first in range(0, len(chunk), _BLOCK_ROWS):
            block = chunk.slice(first, _BLOCK_ROWS)
            hashes[done : done + len(block)] = hash_block(_Block.of(block))
            done += len(block)
    if keys.null_count:
        hashes[nulls(keys)] = 0
    return hashes.view(np.int32)


@dataclass(frozen=True, slots=True)
class _Block:
    """The bytes of some keys, and the start and the length of each.

    `data` ends with four zero bytes after the last key, so that four bytes can be read from any position in a key.
    """

    data: npt.NDArray[np.uint8]
    starts: _Positions
    lengths: _Positions

    @classmethod
    def of(cls, keys: pa.Array) -> _Block:
        """Copy the bytes of a slice from an Arrow array's buffers."""
        wide = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
        _, offsets, data = keys.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)[keys.offset : keys.offset + len(keys) + 1]
        padded = np.zeros(int(bounds[-1] - bounds[0]) + 4, dtype=np.uint8)
        if data is not None:
            padded[:-4] = np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]
        return cls(padded, (bounds[:-1] - bounds[0]).astype(np.int64), np.diff(bounds).astype(np.int64))


# By the number of bytes after the last whole word: the mask of these bytes in the next word, and the last factor.
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)
_TAIL_FACTORS = np.array([1, _MURMUR2_M, _MURMUR2_M, _MURMUR2_M], dtype=np.uint32)


def _murmur2_block(block: _Block) -> _Words:
    # The little-endian word at each byte: word `i` is the bytes `[i, i + 4)`.
    words: _Words = np.ndarray((len(block.data) - 3,), dtype="<u4", buffer=block.data, strides=(1,))

    def step(hashes: _Words, at: _Positions) -> None:
        mixed = words[at] * np.uint32(_MURMUR2_M)
        mixed ^= mixed >> np.uint32(24)
        mixed *= np.uint32(_MURMUR2_M)
        hashes *= np.uint32(_MURMUR2_M)
        hashes ^= mixed

    def rest(hashed: int, key: npt.NDArray[np.uint8]) -> int:
        for word in key.view("<u4").tolist():
            mixed = word * _MURMUR2_M & _UINT32
            mixed = (mixed ^ mixed >> 24) * _MURMUR2_M & _UINT32
            hashed = hashed * _MURMUR2_M & _UINT32 ^ mixed
        return hashed

    hashes: _Words = block.lengths.astype(np.uint32) ^ np.uint32(_MURMUR2_SEED)
    _fold(block, 4, hashes, step, rest)
    tails = block.lengths & 3
    hashes ^= words[block.starts + (block.lengths - tails)] & _TAIL_MASKS[tails]
    hashes *= _TAIL_FACTORS[tails]
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(_MURMUR2_M)
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _fnv1a_block(block: _Block) -> _Words:
    def step(hashes: _Words, at: _Positions) -> None:
        hashes ^= block.data[at]
        hashes *= np.uint32(_FNV_PRIME)

    def rest(hashed: int, key: npt.NDArray[np.uint8]) -> int:
        for byte in key.tolist():
            hashed = (hashed ^ byte) * _FNV_PRIME & _UINT32
        return hashed

    hashes = np.full(len(block.starts), _FNV_OFFSET, dtype=np.uint32)
    _fold(block, 1, hashes, step, rest)
    return hashes


_OF_BLOCKS = {"murmur2": _murmur2_block, "fnv1a": _fnv1a_block}


def _fold(
    block: _Block,
    width: int,
    hashes: _Words,
    step: Callable[[_Words, _Positions], None],
    rest: Callable[[int, npt.NDArray[np.uint8]], int],
) -> None:
    """Fold each key's whole units of `width` bytes into its hash, in place, one unit of all keys in each step.

    Keys are sorted by their number of units, so that step `i` works on a suffix: the keys that have a unit `i`. The last
    few keys are finished one by one, so that the cost is proportional to the bytes even if the lengths of the keys differ.
    """
    units = block.lengths // width
    # numpy sorts 16-bit integers by radix, several times faster than wider ones.
    order = np.argsort(units.astype(np.uint16) if int(units.max()) <= 0xFFFF else units, kind="stable")
    units, at, folded = units[order], block.starts[order], hashes[order]
    together = int(units[-_FEW_ROWS]) if len(units) >= _FEW_ROWS else 0
    for first in np.searchsorted(units, np.arange(together), side="right").tolist():
        step(folded[first:], at[first:])
        at[first:] += width
    for row in np.flatnonzero(units > together).tolist():
        end = at[row] + (units[row] - together) * width
        folded[row] = rest(int(folded[row]), block.data[at[row] : end])
    hashes[order] = folded
