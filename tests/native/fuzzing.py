"""The decoder of record batches under the sanitizers, with damaged responses."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pyspark_zkafka.records.native.record_decoder import decompress
from tests.support.compiler import SOURCES, compile_c
from tests.support.message_sets import MessageSet
from tests.support.record_batches import HEADER_BYTES, Row
from tests.support.recorded_responses import recorded_logs

__all__ = ["Fuzzer"]

_CHECKS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
_SOURCES = ("record_batches", "messages", "aborted_transactions", "columns", "crc32c")


class Fuzzer:
    """The program ``fuzz_record_batches.c`` with a corpus of real responses, built in a folder."""

    def __init__(self, folder: Path) -> None:
        self._corpus = folder / "corpus"
        self._corpus.write_bytes(b"".join(struct.pack("<I", len(part)) + part for part in _corpus()))
        sources = [SOURCES / f"{name}.c" for name in _SOURCES]
        self._program = compile_c(folder / "fuzz", *_CHECKS, Path(__file__).with_name("fuzz_record_batches.c"), *sources)

    def run(self, seed: int, rounds: int, *more: str) -> subprocess.CompletedProcess[str]:
        """Decode `rounds` damaged responses; prints the number of decoded records, and of stops for each reason."""
        command = [str(self._program), str(self._corpus), str(seed), str(rounds), *more]
        environment = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def _corpus() -> Iterator[bytes]:
    """Yield recorded responses, the records of their compressed batches, and old message sets."""
    for log in recorded_logs():
        yield log.records
        for codec, batch in _batches(log.records):
            if codec:
                yield bytes(decompress(codec, pa.py_buffer(batch[HEADER_BYTES:])))
    for magic in (0, 1):
        rows = tuple(Row(n, b"k" * (n % 3), b"v" * n, n) for n in range(6))
        yield MessageSet(rows, magic).encode()
        yield MessageSet(rows[:3], magic, "gzip").encode() + MessageSet(rows[3:], magic, "snappy").encode()


def _batches(records: bytes) -> Iterator[tuple[int, bytes]]:
    while len(records) > HEADER_BYTES:
        end = 12 + int.from_bytes(records[8:12], "big")
        yield records[22] & 7, records[:end]
        records = records[end:]
