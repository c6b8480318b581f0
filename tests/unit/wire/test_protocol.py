"""Primitive types of Kafka's protocol, versions of requests, and headers of responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.records.direct.fetch import FETCH
from pyspark_zkafka.wire import metadata_messages, protocol
from pyspark_zkafka.wire.protocol import MalformedResponse, Reader, Unsupported

PLAIN_VALUES: list[tuple[bytes, Callable[[Reader], Any], Any]] = [
    (protocol.int8(-1), Reader.int8, -1),
    (protocol.int16(-300), Reader.int16, -300),
    (protocol.int32(2**31 - 1), Reader.int32, 2**31 - 1),
    (protocol.int64(-(2**63)), Reader.int64, -(2**63)),
    (protocol.unsigned_varint(0), Reader.unsigned_varint, 0),
    (protocol.unsigned_varint(127), Reader.unsigned_varint, 127),
    (protocol.unsigned_varint(128), Reader.unsigned_varint, 128),
    (protocol.unsigned_varint(2**32 - 1), Reader.unsigned_varint, 2**32 - 1),
    (protocol.string("grün"), Reader.string, "grün"),
    (protocol.string(None), Reader.string, None),
    (protocol.string("t"), Reader.required_string, "t"),
    (protocol.nullable_bytes(b"\x00\xff"), Reader.nullable_bytes, b"\x00\xff"),
    (b"\xff\xff\xff\xff", Reader.nullable_bytes, b""),
    (protocol.int32(2) + protocol.int8(5) + protocol.int8(6), lambda r: r.array(r.int8), [5, 6]),
    (b"\xff\xff\xff\xff", lambda r: r.array(r.int8), []),
    (protocol.no_tags(False) + protocol.int8(1), lambda r: (r.tags(), r.int8()), ({}, 1)),
]
COMPACT_VALUES: list[tuple[bytes, Callable[[Reader], Any], Any]] = [
    (protocol.string("t" * 200, True), Reader.string, "t" * 200),
    (protocol.string(None, True), Reader.string, None),
    (protocol.string("t", True), Reader.required_string, "t"),
    (protocol.nullable_bytes(b"ab", True), Reader.nullable_bytes, b"ab"),
    (b"\x00", Reader.nullable_bytes, b""),
    (protocol.array([protocol.int8(5)], True), lambda r: r.array(r.int8), [5]),
    (b"\x02\x00\x01a\x07\x02bc", Reader.tags, {0: b"a", 7: b"bc"}),
    (protocol.no_tags(True) + protocol.int8(1), lambda r: (r.tags(), r.int8()), ({}, 1)),
]


@pytest.mark.parametrize(
    ("encoded", "read", "value", "flexible"),
    [*((*case, False) for case in PLAIN_VALUES), *((*case, True) for case in COMPACT_VALUES)],
)
def test_values(encoded: bytes, read: Callable[[Reader], Any], value: Any, flexible: bool) -> None:
    """An encoded value is read back to its last byte; one byte less raises an error."""
    reader = Reader(encoded, flexible=flexible)
    assert read(reader) == value
    reader.finish()
    with pytest.raises(MalformedResponse):
        read(Reader(encoded[:-1], flexible=flexible))


@pytest.mark.parametrize(
    ("reader", "read", "problem"),
    [
        (Reader(b"\xff" * 6), Reader.unsigned_varint, "more than 5 bytes"),
        (Reader(protocol.int16(5) + b"abcd"), Reader.string, "a field of 5 bytes where 4 are left"),
        (Reader(protocol.int16(-2)), Reader.string, "a field of -2 bytes"),
        (Reader(protocol.int16(-1)), Reader.required_string, "a field of -1 bytes"),
        (Reader(protocol.int32(2**31 - 1)), Reader.nullable_bytes, "a field of 2147483647 bytes where 0 are left"),
        (Reader(protocol.int16(1) + b"\xff"), Reader.string, "not UTF-8"),
        (
            Reader(protocol.int32(2**31 - 1) + b"ab"),
            lambda r: r.array(r.int8),
            "an array of 2147483647 elements where 2 bytes",
        ),
        (Reader(protocol.int32(-2) + b"ab"), Reader.nullable_bytes, "a length of -2"),
        (Reader(protocol.int32(-2) + b"ab"), lambda r: r.array(r.int8), "a length of -2"),
        (Reader(b"\x00", flexible=True), Reader.required_string, "a field of -1 bytes"),
        (Reader(b"\xff\xff\xff\xff\x0fab", flexible=True), lambda r: r.array(r.int8), "elements where 2 bytes"),
    ],
)
def test_lengths_beyond_the_bytes(reader: Reader, read: Callable[[Reader], Any], problem: str) -> None:
    """A length beyond the available bytes raises an error before memory is allocated for it."""
    with pytest.raises(MalformedResponse, match=problem):
        read(reader)


def test_bytes_left() -> None:
    """Bytes after the last field raise an error."""
    reader = Reader(b"\x00\x01")
    reader.int8()
    with pytest.raises(MalformedResponse, match="1 bytes follow"):
        reader.finish()


@pytest.mark.parametrize(("high", "newest", "expected"), [(4, None, 4), (11, None, 11), (99, None, 17), (17, 12, 12)])
def test_newest_common_version(high: int, newest: int | None, expected: int) -> None:
    """The newest version that both sides have and the caller allows is used."""
    assert FETCH.version({1: (0, high)}, newest) == expected


@pytest.mark.parametrize(("ranges", "newest"), [({}, None), ({1: (18, 20)}, None), ({1: (13, 17)}, 12)])
def test_no_common_version(ranges: dict[int, tuple[int, int]], newest: int | None) -> None:
    """A broker without a common version, or without one up to the caller's limit, is left to librdkafka."""
    with pytest.raises(Unsupported, match="Fetch"):
        FETCH.version(ranges, newest)


def test_response_to_another_request() -> None:
    """A response to another request is malformed."""
    request = metadata_messages.metadata_request(7, ["t"])
    request.read_header(Reader(protocol.int32(5)), 5)
    with pytest.raises(MalformedResponse, match="request 6 where that to 5"):
        request.read_header(Reader(protocol.int32(6)), 5)
