"""Decoder of fetch responses: record batches in, Arrow columns and the next offset out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref, c_int32, c_int64
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.librdkafka_errors import from_kafka
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import COLUMNS, malformed_timestamp, malformed_utf8
from pyspark_zkafka.records.consumer import Poll, Unsupported
from pyspark_zkafka.records.native.decompression import CorruptRecords, decompress
from pyspark_zkafka.records.native.library import CArray, Decoded, Flaws, require, topic_argument
from pyspark_zkafka.records.native.library import Fed as CFed

# Of zkafka.h.
_COMPRESSED, _OTHER_FORMAT, _UNKNOWN_CODEC, _STRANGE_OFFSET, _WRONG_CHECKSUM, _MALFORMED, _NO_MEMORY = range(2, 9)

_UNSUPPORTED: dict[int, Callable[[Decoded], str]] = {
    _OTHER_FORMAT: lambda found: f"a record batch at offset {found.batch} of format {found.magic}",
    _UNKNOWN_CODEC: lambda found: f"a record batch at offset {found.batch} with an unknown compression",
    _STRANGE_OFFSET: lambda found: f"a record batch at offset {found.batch} with a record outside of its offsets",
}
_CORRUPT = {
    _WRONG_CHECKSUM: "its bytes do not have its CRC",
    _MALFORMED: "its lengths or counts do not fit its bytes",
}


_COLUMN_NUMBERS = {name: number for number, name in enumerate(COLUMNS)}
_UTF8_FLAWS: dict[str, Callable[[Flaws], int]] = {
    "key": lambda flaws: flaws.key_not_utf8,
    "value": lambda flaws: flaws.value_not_utf8,
    "headers": lambda flaws: flaws.header_not_utf8,
}


class Fed(NamedTuple):
    """The whole batches at the start of a response, up to the first one that cannot be read.

    Offsets and epoch are -1 if there is none: the offset of the first batch, that after the last batch, and the leader
    epoch of the last batch. `is_malformed` is True if the batch after them has a length that no batch can have, and
    `is_exhausted` if there is no whole batch, readable or not.
    """

    size: int
    first_offset: int
    next_offset: int
    last_epoch: int
    is_malformed: bool
    is_exhausted: bool


class RecordDecoder:
    """Gathers Arrow batches of one partition from the record batches of fetch responses.

    It decodes formats 0, 1 and 2, checks every CRC, skips control batches and aborted transactions, and trusts no length.
    Open for its ``with`` block. Not thread-safe, not pickle-safe. `position` is the next offset wanted: after the last
    batch that was read, whether it had records for the reader or not.
    """

    def __init__(self, partition: TopicPartition, schema: pa.Schema) -> None:
        self._native = require()
        self._partition = partition
        self._schema = schema
        self._open: int | None = None
        self._fed: pa.Buffer | None = None
        self._decompressed: pa.Buffer | None = None
        self.position = 0

    def __enter__(self) -> RecordDecoder:
        self._open = self._native.decoder_new(topic_argument(self._partition.topic), self._partition.partition)
        if self._open is None:
            raise MemoryError(f"no memory for a decoder of {self._partition}")
        count = len(self._schema)
        numbers = (c_int32 * count)(*(_COLUMN_NUMBERS[field.name] for field in self._schema))
        texts = (c_int32 * count)(*(field.type == pa.string() for field in self._schema))
        if not self._native.decoder_project(self._open, numbers, texts, count):
            self.__exit__()
            raise ValueError(f"not a projection of Kafka's columns: {self._schema}")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self._native.decoder_close(self._open)
            self._open = None
        self._forget()

    def seek(self, offset: int) -> None:
        """Set the position; forgets what was fed, but not what was gathered."""
        self._native.decoder_seek(self._handle, offset)
        self.position = offset
        self._forget()

    def feed(self, records: bytes | bytearray | memoryview, aborted: Sequence[tuple[int, int]] | None = None) -> Fed:
        """Start a response, in place of the one before: this partition's record batches, from the position on.

        They must not change until `is_exhausted`. `aborted` has the producer and the first offset of each aborted
        transaction in the response, in any order, for read_committed; None for read_uncommitted.
        """
        producers, first_offsets = _columns_of(sorted(aborted or (), key=lambda transaction: transaction[1]))
        self._fed, self._decompressed, found = pa.py_buffer(records), None, CFed()
        address, size = self._fed.address, self._fed.size
        if not self._native.decoder_feed(
            self._handle, address, size, producers, first_offsets, len(producers), byref(found)
        ):
            raise MemoryError(f"no memory for the aborted transactions of {self._partition}")
        if found.exhausted:
            self._forget()
        flags = bool(found.malformed), bool(found.exhausted)
        return Fed(found.size, found.first_offset, found.next_offset, found.last_epoch, *flags)

    def poll(self, most_records: int, most_bytes: int, until: int) -> Poll:
        """Add fed records before offset `until` to the batch: at most `most_records`, of about `most_bytes`.

        The bytes may be exceeded by one record. `last` of the result is the offset before the position, so that markers,
        gaps and aborted records advance a reader, too; `first` is that of the first record, or the position before if there
        was none. Both are None if the position has not moved.

        Records before a batch that cannot be read are gathered, and only a poll that starts at that batch raises:
        Unsupported, or ClusterStateError (KAFKA_ERROR) if it is corrupt, which librdkafka's consumer does not always
        survive. Gathered records can still be taken.
        """
        found = Decoded(first=-1, position=self.position)
        failure = None if self._fed is None else self._decode(self._fed, found, (most_records, most_bytes, until))
        before, self.position = self.position, found.position
        if failure is not None and not found.records and self.position == before:
            raise failure
        if found.exhausted:
            self._forget()
        return _poll_of(found, before)

    @property
    def is_exhausted(self) -> bool:
        """True if no whole batch is left in what was fed, and no record of the last one."""
        return self._fed is None

    def take(self) -> pa.RecordBatch:
        """Return the batch gathered so far, of at least one record, and begin another; raises as `build_batch`."""
        array, flaws = CArray(), Flaws()
        if not self._native.decoder_take(self._handle, array.address, byref(flaws)):
            raise MemoryError(f"no memory for a batch of {self._partition}")
        batch = array.batch(self._schema)
        self._require_readable(flaws)
        return batch

    def _require_readable(self, flaws: Flaws) -> None:
        """Raise for the first column, in the schema's order, with a value that Spark cannot represent."""
        for field in self._schema:
            if field.name == "timestamp" and flaws.timestamp_too_large >= 0:
                raise malformed_timestamp(self._partition, flaws.timestamp_too_large, flaws.timestamp_ms)
            offset = _UTF8_FLAWS[field.name](flaws) if field.name in _UTF8_FLAWS else -1
            if offset >= 0:
                raise malformed_utf8(field.name, self._partition, offset)

    def _decode(self, fed: pa.Buffer, found: Decoded, limits: tuple[int, int, int]) -> Exception | None:
        """Decode as far as the limits allow; the error for the batch at which it stopped, if that cannot be read."""
        while (status := self._call(fed, found, limits)) == _COMPRESSED:
            self._decompressed = None  # an error must not leave the records of the batch before
            try:
                self._decompressed = decompress(found.codec, fed.slice(found.begin, found.end - found.begin), found.magic)
            except CorruptRecords as error:
                return self._corrupt(found.batch, f"its records cannot be decompressed: {error}")
            except Unsupported as error:
                return error
        return self._failure(status, found)

    def _call(self, fed: pa.Buffer, found: Decoded, limits: tuple[int, int, int]) -> int:
        more = self._decompressed
        address, size = (None, 0) if more is None else (more.address, more.size)
        return int(self._native.decoder_decode(self._handle, fed.address, fed.size, address, size, *limits, byref(found)))

    def _failure(self, status: int, found: Decoded) -> Exception | None:
        if status == _NO_MEMORY:
            raise MemoryError(f"no memory for a batch of {self._partition}")
        if status in _UNSUPPORTED:
            return Unsupported(_UNSUPPORTED[status](found))
        return self._corrupt(found.batch, _CORRUPT[status]) if status in _CORRUPT else None

    def _corrupt(self, base_offset: int, flaw: str) -> ZKafkaError:
        """librdkafka's own error for a record batch whose bytes are damaged, with the place and the flaw."""
        text = f"record batch at offset {base_offset}: {flaw}"
        return from_kafka(KafkaError(KafkaError._BAD_MSG, text), f"reading {self._partition}")

    def _forget(self) -> None:
        self._fed = self._decompressed = None

    @property
    def _handle(self) -> int:
        if self._open is None:
            raise RuntimeError("RecordDecoder is used outside of its with block")
        return self._open


def _columns_of(transactions: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """Producers and first offsets of transactions, as C arrays."""
    numbers = c_int64 * len(transactions)
    return numbers(*(t[0] for t in transactions)), numbers(*(t[1] for t in transactions))


def _poll_of(found: Decoded, before: int) -> Poll:
    poll = Poll(found.records, found.bytes, ordered=not found.unordered)
    if found.records or found.position > before:
        poll.first = found.first if found.records else before
        poll.last = found.position - 1
    return poll
