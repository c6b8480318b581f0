"""Encoder of rows into record batches (format 2), and hashes of keys and rows, in compiled code."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from ctypes import addressof, byref, c_uint8, c_uint64
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.partitioners import ArrowColumn, Hashes, check_keys
from pyspark_zkafka.model.producing import Batch, ProducerId
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.library import CArray, OpenBatch, headers_argument, require, topic_argument

HEADER_BYTES = 61
_FIRST_BYTES = 2 * 1024
_MORE_BYTES = 10
"""How much a record can grow in another batch: 9 bytes for its time since the first record, and 1 for its length."""
_LZ4_HEAD = bytes.fromhex("04224d18604082")  # independent blocks of 64 KiB, without a checksum of the content
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_PLAIN = 1 << 31
_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_TRANSACTIONAL = 0x10
_HASHES = {"murmur2": 0, "murmur3": 1, "crc32": 2, "fnv1a": 3}


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec by Kafka's name, and its level. None selects the codec's default level."""

    codec: str = "none"
    level: int | None = None

    def compressor(self) -> Callable[[memoryview], Any] | None:
        """Return the function that compresses the records of a batch. None leaves the records as they are."""
        if self.codec == "none":
            return None
        if self.codec == "lz4":
            return _lz4_frame
        found = pa.Codec(self.codec, compression_level=self.level)
        return lambda records: found.compress(pa.py_buffer(records))

    def decompressed(self, records: memoryview, size: int) -> memoryview:
        """Return the records of a batch as they were before compression, of `size` bytes."""
        if self.codec == "none":
            return records
        return memoryview(pa.Codec(self.codec).decompress(pa.py_buffer(records), size))


def _lz4_frame(records: memoryview) -> bytes:
    """Compress records into a frame of independent blocks: Java's consumers refuse the linked blocks of Arrow's codec."""
    codec = pa.Codec("lz4_raw")
    parts: list[Any] = [_LZ4_HEAD]
    for start in range(0, len(records), _LZ4_BLOCK_BYTES):
        block = records[start : start + _LZ4_BLOCK_BYTES]
        packed = codec.compress(pa.py_buffer(block))
        if len(packed) < len(block):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(block) | _LZ4_PLAIN).to_bytes(4, "little"), block)
    return b"".join([*parts, bytes(4)])


@dataclass(eq=False, slots=True)
class EncodedBatch:
    """A closed batch: a header, which `sealed` fills in, and records, which have `plain_bytes` before compression."""

    data: memoryview
    attributes: int
    plain_bytes: int
    records: int
    base_timestamp_ms: int
    max_timestamp_ms: int

    def sealed(self, producer: ProducerId, sequence: int) -> memoryview:
        """Fill in the header for a producer and a first sequence. Returns the batch: the same bytes in each call."""
        require().close_batch(
            addressof(c_uint8.from_buffer(self.data)),
            len(self.data),
            self.attributes,
            self.records,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            producer.number,
            producer.epoch,
            sequence,
        )
        return self.data


class _Open:
    """A batch to which rows are appended. Its memory grows up to `most_bytes`, the size of a full batch."""

    def __init__(self, room: int, most_bytes: int, opened_at: float) -> None:
        self.most_bytes = most_bytes
        self.opened_at = opened_at
        self.state = OpenBatch(used=HEADER_BYTES)
        self._use(np.empty(room, np.uint8))

    def grow(self, room: int) -> None:
        """Give the batch more memory, and keep its content."""
        larger = np.empty(room, np.uint8)
        larger[: self.state.used] = self.memory[: self.state.used]
        self._use(larger)

    def _use(self, memory: npt.NDArray[np.uint8]) -> None:
        self.memory = memory
        self.state.data, self.state.capacity = memory.ctypes.data, len(memory)


class RecordEncoder:
    """Encodes rows into the open batches of their partitions, and closes full ones. Not thread-safe.

    Parameters
    ----------
    batch_bytes : int
        The size at which a batch is full, before compression. A larger row gets a batch of its own.
    batch_records : int
        The number of records at which a batch is full.
    """

    def __init__(
        self,
        batch_bytes: int,
        batch_records: int,
        compression: Compression,
        *,
        transactional: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._batch_bytes = max(batch_bytes, HEADER_BYTES + 1)
        self._batch_records = batch_records
        self._compression = compression
        self._compress = compression.compressor()
        self._attributes = _CODECS[compression.codec] | (_TRANSACTIONAL if transactional else 0)
        self._clock = clock
        self._now_ms = now_ms
        self._open: dict[TopicPartition, _Open] = {}
        self._last_bytes: dict[TopicPartition, int] = {}  # sizes of the last batches
        self._smaller: dict[str, int] = {}  # sizes of full batches, for topics that refused larger ones
        self.open_bytes = 0  # of their content

    def begin(self) -> None:
        """Forget the topics that refused batches: their limits may have been raised since the last task."""
        self._smaller.clear()

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions with open batches."""
        return self._open.keys()

    def add(self, rows: OutgoingBatch, partitions: npt.NDArray[np.int32]) -> Iterator[Batch]:
        """Append rows to the batches of their partitions, in order. Yields batches that are full and no longer change."""
        if not len(partitions):
            return
        order = np.argsort(partitions, kind="stable").astype(np.int32)
        numbers, starts = np.unique(partitions[order], return_index=True)
        value, key, timestamps, headers = map(
            CArray.of, (rows.value, rows.key, rows.timestamp_ms, headers_argument(rows.headers))
        )
        columns = (*value.column, *key.column, timestamps.address, headers.address, self._now_ms())
        address = order.ctypes.data
        for number, start, stop in zip(numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            partition = TopicPartition(rows.topic, number)
            while start < stop:
                batch = self._open.get(partition)
                if batch is None:
                    batch = self._open[partition] = self._new(partition)
                count = min(stop - start, self._batch_records - batch.state.records)
                self.open_bytes -= batch.state.used
                start += require().encode(byref(batch.state), address + 4 * start, count, *columns)
                self.open_bytes += batch.state.used
                if start < stop and not self._has_made_room(batch):
                    yield self._close(partition)

    def close_all(self, opened_before: float = math.inf) -> Iterator[Batch]:
        """Close the batches that were opened before a time, oldest first. By default, close all batches."""
        due = [tp for tp, batch in self._open.items() if batch.opened_at < opened_before]
        for partition in sorted(due, key=lambda tp: self._open[tp].opened_at):
            yield self._close(partition)

    def halves(self, batch: Batch) -> tuple[Batch, Batch]:
        """Split a closed batch in two. Later batches of its topic get at most half of its bytes, before compression."""
        topic, encoded = batch.partition.topic, batch.data
        half_bytes = HEADER_BYTES + max(encoded.plain_bytes // 2, 1)
        self._smaller[topic] = min(half_bytes, self._smaller.get(topic, self._batch_bytes))
        records = self._compression.decompressed(encoded.data[HEADER_BYTES:], encoded.plain_bytes)
        address = np.frombuffer(records, np.uint8).ctypes.data

        def part(start: int, count: int) -> tuple[Batch, int]:
            half = _Open(HEADER_BYTES + len(records) - start + _MORE_BYTES * count, 0, 0.0)
            size = require().encode_again(byref(half.state), address + start, count, encoded.base_timestamp_ms)
            if size < 0:
                raise RuntimeError("the records of a batch do not fit into two")
            return self._closed(batch.partition, half), start + size

        first, middle = part(0, batch.records // 2)
        return first, part(middle, batch.records - first.records)[0]

    def _new(self, partition: TopicPartition) -> _Open:
        most_bytes = self._smaller.get(partition.topic, self._batch_bytes)
        room = self._last_bytes.get(partition, _FIRST_BYTES) * 17 // 16  # most batches of a partition have similar sizes
        found = _Open(min(room, most_bytes), most_bytes, self._clock())
        self.open_bytes += found.state.used
        return found

    def _has_made_room(self, batch: _Open) -> bool:
        """Grow a batch for the next row; False if the batch is full."""
        needed = batch.state.used + batch.state.needed
        if batch.state.records >= self._batch_records or (needed > batch.most_bytes and batch.state.records):
            return False
        batch.grow(max(needed, min(2 * len(batch.memory), batch.most_bytes)))
        return True

    def _close(self, partition: TopicPartition) -> Batch:
        batch = self._open.pop(partition)
        self.open_bytes -= batch.state.used
        self._last_bytes[partition] = batch.state.used
        return self._closed(partition, batch)

    def _closed(self, partition: TopicPartition, batch: _Open) -> Batch:
        state = batch.state
        memory = batch.memory[: state.used]
        if 10 * state.used < 9 * len(batch.memory):
            memory = memory.copy()  # this frees the rest of the memory
        data = memory.data
        if self._compress is not None:
            records = self._compress(data[HEADER_BYTES:])
            smaller = bytearray(HEADER_BYTES + len(records))
            smaller[HEADER_BYTES:] = memoryview(records)
            data = memoryview(smaller)
        plain_bytes = state.used - HEADER_BYTES
        times = state.base_timestamp_ms, state.max_timestamp_ms
        encoded = EncodedBatch(data, self._attributes, plain_bytes, state.records, *times)
        return Batch(partition, state.records, len(data), self._clock(), encoded)


def hash_keys(name: str, keys: ArrowColumn) -> Hashes:
    """Hash keys like `pyspark_zkafka.model.partitioners.hash_keys`, in some ns per key."""
    check_keys(keys)
    hashes = np.zeros(len(keys), dtype=np.uint32)
    done = 0
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        argument = CArray.of(chunk)
        require().hash(_HASHES[name], *argument.column, hashes[done:].ctypes.data)
        done += len(chunk)
    return hashes.view(np.int32)


def hash_rows(batch: OutgoingBatch) -> tuple[int, int]:
    """Hash rows like `pyspark_zkafka.model.rows.hash_rows`, in some 50 ns per 100 bytes."""
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
