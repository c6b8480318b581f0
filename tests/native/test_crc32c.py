"""CRC-32C by the processor's instructions and by tables."""

from __future__ import annotations

import random
from ctypes import byref, c_uint32

import pytest

from pyspark_zkafka.records.native.library import require
from tests.support import record_batches

# RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
PUBLISHED = {
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
}


def crc32c(data: bytes, *, by_table: bool) -> int:
    found = c_uint32()
    if not require().crc32c(by_table, data, len(data), byref(found)):
        pytest.skip("this processor has no instructions for CRC-32C")
    return found.value


@pytest.mark.parametrize("by_table", [True, False], ids=["table", "instructions"])
class TestChecksums:
    """Both ways of summing."""

    @pytest.mark.parametrize("data", PUBLISHED, ids=repr)
    def test_published_values(self, by_table: bool, data: bytes) -> None:
        """The values that the standard gives."""
        assert crc32c(data, by_table=by_table) == PUBLISHED[data] == record_batches.crc32c(data)

    def test_all_short_lengths(self, by_table: bool) -> None:
        """Every length up to some steps of eight bytes, at every alignment."""
        text = random.Random(1).randbytes(80)
        for begin in range(8):
            for size in range(72):
                part = text[begin : begin + size]
                assert crc32c(part, by_table=by_table) == record_batches.crc32c(part)

    def test_lengths_about_lanes(self, by_table: bool) -> None:
        """Lengths about those at which several lanes are summed side by side."""
        text = random.Random(2).randbytes(5000)
        for size in (511, 512, 513, 1535, 1536, 1537, 3071, 3072, 3073, 4607, 4608, 4609, 5000):
            assert crc32c(text[:size], by_table=by_table) == record_batches.crc32c(text[:size])
