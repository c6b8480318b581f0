"""CRC-32C by processor instructions and by tables."""

from __future__ import annotations

import random
from collections.abc import Callable
from ctypes import CDLL, CFUNCTYPE, c_char_p, c_size_t, c_uint32

import pytest

from tests.support import record_batches
from tests.support.compiler import SOURCES, compile_c

Checksum = Callable[[bytes], int]
FUNCTION = CFUNCTYPE(c_uint32, c_char_p, c_size_t)

# RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
PUBLISHED = {
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
}


@pytest.fixture(params=["table", "instructions"], scope="module")
def crc32c(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checksum:
    """One of the two functions of ``crc32c.c``."""
    library = CDLL(
        str(compile_c(tmp_path_factory.mktemp("crc32c") / "crc32c.so", "-shared", "-fPIC", SOURCES / "crc32c.c"))
    )
    if request.param == "table":
        function = FUNCTION(("crc32c_by_table", library))
    else:
        library.crc32c_by_instructions.restype = FUNCTION
        function = library.crc32c_by_instructions()
        if not function:
            pytest.skip("this processor has no instructions for CRC-32C")
    return lambda data: function(data, len(data))


class TestChecksums:
    """Checksums of both functions."""

    @pytest.mark.parametrize("data", PUBLISHED, ids=repr)
    def test_published_values(self, crc32c: Checksum, data: bytes) -> None:
        """The published checksums are computed."""
        assert crc32c(data) == PUBLISHED[data] == record_batches.crc32c(data)

    def test_all_short_lengths(self, crc32c: Checksum) -> None:
        """Data of every length below 72 bytes, at every alignment, have the right checksum."""
        text = random.Random(1).randbytes(80)
        for begin in range(8):
            for size in range(72):
                part = text[begin : begin + size]
                assert crc32c(part) == record_batches.crc32c(part)

    def test_lengths_about_lanes(self, crc32c: Checksum) -> None:
        """Data around the lengths at which several lanes are summed in parallel have the right checksum."""
        text = random.Random(2).randbytes(9999)
        for size in (511, 512, 513, 1535, 1536, 1537, 3071, 3072, 3073, 4607, 4608, 4609, 5000, 9999):
            assert crc32c(text[:size]) == record_batches.crc32c(text[:size])
