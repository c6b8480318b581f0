"""Schemas, payloads and rows for `record_protobuf`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

VARINT, FIXED64, LENGTH, GROUP, END, FIXED32 = range(6)
_FOLDER = Path(__file__).with_name("protobuf")
FILES = {name: (_FOLDER / f"{name}.proto").read_text(encoding="utf-8") for name in ("proto3", "proto2", "edition2023")}


# The wire


def varint(value: int) -> bytes:
    bits, data = value & (1 << 64) - 1, bytearray()
    while bits >= 0x80:
        data.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*data, bits])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def v(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def ld(number: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return tag(number, LENGTH) + varint(len(data)) + data


def group(number: int, data: bytes) -> bytes:
    return tag(number, GROUP) + data + tag(number, END)


def f32(number: int, value: int | float) -> bytes:
    return tag(number, FIXED32) + struct.pack("<f" if isinstance(value, float) else "<I", value)


def f64(number: int, value: int | float) -> bytes:
    return tag(number, FIXED64) + struct.pack("<d" if isinstance(value, float) else "<Q", value)


def time(seconds: int, nanos: int) -> bytes:
    return (v(1, seconds) if seconds else b"") + (v(2, nanos) if nanos else b"")


# What is read

VARINTS = (1, 2, 3, 4, 5, 6, 13, 16)
INTEGERS = (
    0, 1, 2, 127, 128, -1, -2, -5, -6, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, -(2**63),
    -(2**31), -(2**31) - 1,
)  # fmt: skip
RAW_VARINTS = (
    b"\x81\x80\x00", b"\x80" * 9 + b"\x00", b"\xff" * 9 + b"\x7f", b"\x80" * 9 + b"\x02", b"\x80" * 10 + b"\x00",
    b"\x80" * 4 + b"\x10", b"\xff" * 4 + b"\x7f", b"\x80", b"",
)  # fmt: skip
BITS32 = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7F800000, 0xFF800000, 0x3DCCCCCD)
BITS64 = (
    0, 1, 2**63 - 1, 2**63, 2**64 - 1, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, 0x7FF0 << 48, 0xFFF0 << 48,
    0x3FB999999999999A,
)  # fmt: skip
TEXTS = (
    b"", b"a", "żółw 🐢".encode(), b"\0", b"\xef\xbf\xbf", b"\xef\xbb\xbfx", b"\xed\xa0\x80", b"\xed\xa0\xbd\xed\xb0\xa2",
    b"\xc0\x80", b"\xc1\xbf", b"\xf4\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xe2\x82", b"ab\xff\xfecd", b"\x80",
    b"\xf0\x9f\x90",
)  # fmt: skip


def scalar_payloads() -> Iterator[bytes]:
    """Values of each wire type in every field that has it, every other wire type, and what ends too early."""
    yield b""
    for value in INTEGERS:
        yield b"".join(v(number, value) for number in VARINTS)
    for raw in RAW_VARINTS:
        yield from (tag(number, VARINT) + raw for number in (VARINTS if len(raw) in (3, 10) else (1, 4, 6)))
    for bits in BITS32:
        yield b"".join(f32(number, bits) for number in (7, 9, 11))
    for bits in BITS64:
        yield b"".join(f64(number, bits) for number in (8, 10, 12))
    for text in TEXTS:
        yield ld(14, text) + ld(15, text)
    for number in range(1, 17):
        yield from (v(number, 1), f64(number, 1), ld(number, b"\x01"), group(number, b""), f32(number, 1))
    yield from (v(1, 5) + v(1, 0), v(1, 0) + v(1, 5), ld(14, "a") + ld(14, ""), f32(11, -0.0) + f64(12, -0.0))
    yield from unknown_payloads(v(1, 7))
    yield from (f32(7, 5)[:-1], f64(8, 5)[:-1], ld(14, "abc")[:-1], ld(15, "abc") + tag(1, VARINT))


def unknown_payloads(known: bytes) -> Iterator[bytes]:
    """Fields that the schema does not have, whole and broken."""
    for more in (v(99, 5), f32(99, 1), f64(99, 1), ld(99, "x"), group(99, v(1, 1) + ld(2, "x")), v(2**29 - 1, 1)):
        yield more + known
        yield known + more[:-1]
    yield from (tag(0, VARINT) + b"\1", b"\x0e\1", b"\x0f\1", tag(99, END), tag(99, GROUP) + tag(98, END))
    yield from (b"\xff" * 5 + b"\1", group(99, b"\x07"), varint(2**32 + 8) + b"\1" + known)
    yield from (tag(2**29, VARINT) + b"\1", ld(99, "")[:-1] + b"\xff" * 4)
    yield from (ld(99, "")[:-1] + b"\xff" * 9 + b"\1", ld(14, "")[:-1] + b"\xff" * 9 + b"\1", b"\0")
    for depth in (90, 110):
        yield tag(99, GROUP) * depth + tag(99, END) * depth + known


def repeated_payloads() -> Iterator[bytes]:
    yield b""
    for number in (*VARINTS, 7, 8, 9, 10, 11, 12):
        wire = v if number in VARINTS else f32 if number in (7, 9, 11) else f64
        values = [wire(number, value) for value in (0, 1, 3, 2**31)]
        packed = b"".join(value[len(tag(number, 0)) :] for value in values)
        yield b"".join(values)
        yield ld(number, packed) + values[1] + ld(number, "") + ld(number, packed)
        yield ld(number, packed[:-1])
        yield from (group(number, b""), (f64 if wire is v else v)(number, 1))
    for number in (14, 15):
        yield ld(number, "b") + ld(number, "") + ld(number, "a")
        yield ld(number, "b") + ld(number, b"\xff")
        yield from (v(number, 1), f32(number, 1))


def nested_payloads() -> Iterator[bytes]:
    yield from (b"", ld(1, ""), ld(1, v(1, 5)) + ld(1, ld(2, "x")) + ld(1, v(1, 0)), ld(1, v(3, 1)) + ld(1, v(3, 2)))
    yield from (ld(1, v(4, 0)) + ld(1, ""), ld(2, "") + ld(2, v(1, 1)) + ld(2, v(1, 2)), ld(3, ""), ld(3, ld(1, "")))
    yield from (ld(3, ld(1, ld(1, "")) + ld(2, "") + ld(2, ld(1, "ab"))), ld(4, v(1, 3)) + ld(1, v(1, 2)))
    yield from (v(1, 1), f32(2, 1))
    yield from (ld(1, ld(1, "x")), ld(1, f64(2, 1)), ld(1, ld(2, b"\xff")), ld(1, v(99, 1)), ld(1, b"\x08"), ld(2, b"\xff"))
    yield from (ld(1, "")[:-1] + b"\5\x08\1", group(1, v(1, 1)), ld(1, group(99, b"")), ld(1, tag(1, END)))
    yield from (ld(1, v(1, 2**40 + 1)), ld(3, ld(1, v(1, 1))), ld(2, ld(3, b"\1\2") + v(3, 3)))


def map_payloads() -> Iterator[bytes]:
    yield from (b"", ld(1, ""), ld(1, ld(1, "k")), ld(1, v(2, 5)), ld(1, v(2, 5) + ld(1, "k")), ld(1, ld(1, "k") + v(2, 0)))
    yield ld(1, ld(1, "b") + v(2, 1)) + ld(1, ld(1, "a") + v(2, 2))
    yield ld(1, ld(1, "a") + v(2, 1)) + ld(1, ld(1, "a") + v(2, 2))
    yield ld(1, ld(1, "a") + ld(1, "b") + v(2, 1) + v(2, 2)) + ld(1, ld(1, "k") + v(2, 1) + v(9, 9))
    yield ld(2, v(1, 1) + ld(2, "t")) + ld(2, v(1, 0) + ld(2, "f"))
    yield ld(2, v(1, 2) + ld(2, "t"))
    yield ld(3, v(1, 2**64 - 1) + f64(2, 0.5)) + ld(3, v(1, 1) + f64(2, float("nan"))) + ld(3, "")
    yield ld(4, v(1, -1) + ld(2, v(1, 5))) + ld(4, v(1, 1)) + ld(4, v(1, 0) + ld(2, ""))
    yield ld(4, v(1, 1) + ld(2, v(1, 5)) + ld(2, ld(2, "x")))
    yield ld(5, ld(1, "a") + v(2, 1)) + ld(5, ld(1, "b") + v(2, 77)) + ld(5, ld(1, "c"))
    yield ld(6, ld(1, "a") + ld(2, time(1, 2000))) + ld(6, ld(1, "b"))
    yield ld(7, f32(1, 2**32 - 1) + ld(2, b"\xff")) + ld(7, f32(1, 1))
    yield from (v(1, 1), ld(1, ld(1, b"\xff")), ld(1, v(1, 1)), ld(1, ld(1, "k") + ld(2, "x")), ld(1, b"\x0a"))
    yield ld(4, f64(2, 1))
    yield from (ld(2, v(1, 1) + ld(2, b"\xff")), ld(7, f32(1, 1) + v(2, 1)))


def oneof_payloads() -> Iterator[bytes]:
    members = [v(1, 0), ld(2, ""), ld(3, ""), v(4, 0), v(5, 0), ld(6, ""), ld(7, ""), v(1, 7), v(4, 99), ld(3, v(1, 5))]
    yield from (b"", *members)
    yield from (first + second for first in members[:4] for second in (v(1, 3), ld(3, v(1, 2)), ld(2, "x")))
    yield from (ld(3, v(1, 5)) + ld(3, ld(2, "x")), ld(3, v(1, 5)) + v(1, 1) + ld(3, ld(2, "x")), v(1, 5) + ld(1, "x"))
    yield from (v(1, 5) + v(9, 1), v(1, 5) + ld(3, b"\x08"), v(1, 1) + v(2, 1), v(1, 5) + v(99, 1))


SECONDS = (
    0, 1, -1, 1_700_000_000, -62_135_596_800, 253_402_300_799, 9_223_372_036_854, 9_223_372_036_855, -9_223_372_036_854,
    -9_223_372_036_855, -9_223_372_036_856, 2**53, 2**61, 2**62, 2**63 - 1, -(2**63), 18_446_744_073_709_552,
)  # fmt: skip
NANOS = (0, 1, 999, 1000, 999_999_999, -1, -999, -1000, -999_999_999, 10**9, 2**31 - 1, -(2**31), 775_807_000, 775_808_000)


def time_payloads() -> Iterator[bytes]:
    yield from (b"", ld(1, "") + ld(2, ""), ld(5, time(1, 1000)))
    for seconds in SECONDS:
        yield from (ld(number, time(seconds, 0)) for number in (1, 2))
    for nanos in NANOS:
        yield ld(1, time(0, nanos)) + ld(2, time(0, nanos)) + ld(3, time(-5, nanos)) + ld(4, time(5, nanos))
    most = 9_223_372_036_854
    for seconds, nanos in (
        (most, 775_807_000), (most, 775_808_000), (-most, -775_808_000), (-most - 1, 224_192_000), (-most, -775_809_000),
    ):  # fmt: skip
        yield from (ld(number, time(seconds, nanos)) for number in (1, 4))
    yield from (ld(3, time(1, 0)) + ld(3, "") + ld(3, time(2**62, 0)), ld(1, v(1, 1)) + ld(1, v(2, 5000)), v(1, 1))
    yield from (ld(1, ld(1, "x")), ld(1, v(9, 1)), ld(1, b"\x08"))


def odd_time_payloads() -> Iterator[bytes]:
    yield from (b"", v(3, 1), ld(1, ""), ld(1, ld(1, "5")), ld(2, v(1, 5)), ld(2, "") + v(3, 2))


def wrapper_payloads() -> Iterator[bytes]:
    yield from (b"", *(ld(number, "") for number in range(1, 11)))
    yield b"".join(ld(number, v(1, 0)) for number in (1, 2, 3, 4, 7))
    yield b"".join(ld(number, v(1, -1)) for number in (1, 2, 3, 4, 7))
    yield (
        ld(5, f32(1, 0.0))
        + ld(6, f64(1, -0.0))
        + ld(8, ld(1, ""))
        + ld(9, ld(1, b"\xff"))
        + ld(10, ld(1, "a"))
        + ld(10, "")
    )
    yield from (v(1, 1), ld(1, ld(1, "x")), ld(8, ld(1, b"\xff")), ld(1, v(1, 1)) + ld(1, v(1, 2)))


def other_payloads() -> Iterator[bytes]:
    yield from (
        b"",
        ld(1, ""),
        ld(1, ld(1, "type.googleapis.com/v.Inner") + ld(2, b"\x08\1")),
        ld(1, ld(1, "?") + ld(2, b"\xff")),
    )
    yield from (
        ld(2, ld(1, "a.b") + ld(1, "c")),
        ld(2, ""),
        ld(3, "") + v(6, 0),
        ld(3, v(1, 1)),
        ld(4, "") + ld(5, ld(1, "x")),
    )
    yield from (v(3, 1), ld(3, b"\x08"), v(4, 1))


def enum_payloads() -> Iterator[bytes]:
    for value in (0, 1, 3, -5, 7, 2**32 + 1, 2**31):
        yield from (v(1, value), v(2, value), v(4, value), v(5, 9) + v(4, value), v(4, value) + v(5, 9))
        yield from (ld(3, ld(1, "k") + v(2, value)), ld(3, ld(1, "a") + v(2, 1)) + ld(3, ld(1, "k") + v(2, value)))
        yield from (
            ld(6, v(1, value) + v(3, 1)),
            ld(6, v(2, 1) + v(2, value) + v(2, 3)),
            ld(7, v(1, value)) + ld(7, v(1, 1)),
        )
        yield from (v(1, 1) + v(1, value), v(1, value) + v(1, 1))
    yield from (
        b"",
        ld(2, b"\1\3"),
        ld(2, b"\1\7\3"),
        ld(6, ld(2, b"\1\7\3")),
        ld(3, ld(1, "k")),
        ld(3, ""),
        ld(6, ld(1, "x")),
    )


def required_payloads() -> Iterator[bytes]:
    yield from (
        b"",
        v(1, 5),
        v(3, 1),
        v(1, 5) + v(3, 1),
        v(1, 0) + v(3, 7),
        v(1, 5) + v(3, 1) + ld(2, b"\xff"),
        v(1, 5) + v(3, 3),
    )
    yield from (ld(1, "x") + v(3, 1), v(3, 1) + v(1, 2) + v(1, 3))


def inside_payloads() -> Iterator[bytes]:
    whole, part = v(1, 5) + v(3, 1), v(1, 5)
    q = ld(4, whole)
    yield from (b"", q, q + ld(1, whole), q + ld(1, part), q + ld(1, part) + ld(1, v(3, 3)), q + ld(2, whole) + ld(2, part))
    yield from (
        q + ld(3, ld(1, "k") + ld(2, whole)),
        q + ld(3, ld(1, "k") + ld(2, part)),
        q + ld(3, ld(1, "k")),
        ld(4, part),
    )
    yield from (q + ld(1, v(1, 5) + v(3, 7)), q + ld(3, ""), ld(4, v(1, 5)) + ld(4, v(3, 1)))
    entries = [ld(3, ld(1, key) + ld(2, whole)) for key in ("a", b"\xff")]
    yield from (q + entries[1], q + entries[0] + entries[1])


def group_payloads() -> Iterator[bytes]:
    yield from (
        b"",
        group(1, v(1, 5) + ld(2, "x")),
        group(1, b"") + v(3, 1),
        group(2, v(1, 1)) + group(2, v(1, 2)),
        group(2, b""),
    )
    yield from (ld(1, v(1, 5)), ld(2, v(1, 5)), group(1, v(1, 5)) + group(1, ld(2, "y")), group(1, v(1, 5))[:-1])
    yield from (tag(1, GROUP) + v(1, 5) + tag(2, END), tag(1, GROUP) + v(1, 5) + tag(3, END), group(1, group(9, v(1, 1))))
    yield from (group(1, ld(1, "x")), group(1, ld(2, b"\xff")), tag(1, END), group(2, v(1, 5)) + tag(2, END))


def default_payloads() -> Iterator[bytes]:
    yield from (b"", v(1, 0) + v(2, 0) + f32(3, 0.0) + f64(4, 0.0) + v(5, 0) + ld(6, "") + ld(7, "") + v(8, 3) + v(9, 0))
    yield from (v(10, 0), v(8, 7), v(8, 1), v(99, 1))


def feature_payloads() -> Iterator[bytes]:
    q = v(3, 0)
    yield from (b"", q, q + v(1, 0) + v(2, 0), q + v(1, 1) + v(2, 1), q + ld(4, b"\1\2") + v(4, 3), q + ld(5, b"a\xff"))
    yield from (
        q + group(6, v(1, 5)),
        q + ld(6, v(1, 5)),
        q + v(7, 1),
        q + v(7, 9),
        q + v(8, 9),
        q + v(8, 0),
        q + ld(9, ""),
    )
    yield q + ld(9, b"\xff")


READS: dict[tuple[str, str], Callable[[], Iterable[bytes]]] = {
    ("proto3", "Scalars"): scalar_payloads,
    ("proto3", "Optional"): scalar_payloads,
    ("proto2", "Optional"): scalar_payloads,
    ("proto3", "Repeated"): repeated_payloads,
    ("proto2", "Repeated"): repeated_payloads,
    ("proto3", "Unpacked"): lambda: (ld(1, b"\1\2") + v(1, 3), ld(2, b"\1\x63") + v(2, 0), v(2, 99)),
    ("proto2", "Packed"): lambda: (ld(1, b"\1\2") + v(1, 3), ld(2, b"\1\x63"), v(2, 99), v(2, 3) + ld(2, b"\1\1")),
    ("proto3", "Nested"): nested_payloads,
    ("proto3", "Maps"): map_payloads,
    ("proto3", "Outer"): lambda: (ld(1, ld(1, ld(1, "k") + v(2, 1))), ld(1, ld(1, ld(1, "k") + v(2, 1) + v(9, 9)))),
    ("proto3", "OneOf"): oneof_payloads,
    ("proto3", "Times"): time_payloads,
    ("proto3", "OddTimes"): odd_time_payloads,
    ("proto3", "Wrappers"): wrapper_payloads,
    ("proto3", "Others"): other_payloads,
    ("proto3", "Struct"): lambda: (b"",),
    ("proto3", "Value"): lambda: (b"",),
    ("proto3", "Tree"): lambda: (b"",),
    ("proto3", "Forest"): lambda: (b"",),
    ("proto3", "Ping"): lambda: (b"",),
    ("proto3", "NoFields"): lambda: (b"",),
    ("proto3", "OnlyEmpty"): lambda: (b"",),
    ("proto3", "Cases"): lambda: (b"", v(1, 1) + v(2, 2)),
    ("proto2", "Defaults"): default_payloads,
    ("proto2", "Required"): required_payloads,
    ("proto2", "Inside"): inside_payloads,
    ("proto2", "Enums"): enum_payloads,
    ("proto2", "Groups"): group_payloads,
    ("proto2", "Extended"): lambda: (v(1, 1), v(1, 1) + v(100, 5) + ld(101, "x"), ld(100, "x"), ld(101, b"\xff")),
    ("edition2023", "Features"): feature_payloads,
}


# What is written: columns, and rows

_ALL = (
    "i32 int, i64 bigint, u32 int, u64 bigint, s32 int, s64 bigint, f32 int, f64 bigint, sf32 int, sf64 bigint, f float, "
    "d double, b boolean, s string, y binary, e string"
)
_NUMBERS = ("i32", "i64", "u32", "u64", "s32", "s64", "f32", "f64", "sf32", "sf64")
_ROWS: list[Any] = [
    {},
    {**dict.fromkeys(_NUMBERS, 0), "f": "0.0", "d": "0.0", "b": False, "s": "", "y": "", "e": "GREEN"},
    {**dict.fromkeys(_NUMBERS, -1), "f": "-0.0", "d": "-0.0", "b": True, "s": "żółw 🐢\0", "y": "00ff", "e": "BLUE"},
    {name: -(2**31) if "32" in name else -(2**63) for name in _NUMBERS} | {"f": "nan", "d": "inf", "e": "RED"},
    {name: 2**31 - 1 if "32" in name else 2**63 - 1 for name in _NUMBERS} | {"f": "0.10000000149011612", "d": "0.1"},
    {"e": "PINK"},
]
_LISTS = ", ".join(f"{name} array<{kind}>" for name, kind in (column.split() for column in _ALL.split(", ")))
_LIST_ROWS: list[Any] = [
    {},
    {column.split()[0]: [] for column in _ALL.split(", ")},
    {name: [0, -1, 5] for name in _NUMBERS}
    | {"f": ["0.5"], "d": ["nan"], "b": [True, False], "s": ["", "a"], "y": ["ff", ""]},
    {"e": ["GREEN", "RED"]},
    {"i32": [1, None]},
    {"s": [None]},
    {"y": [None]},
]
_TIMES = (
    0, 1, 999, 1000, 1_000_000, 1_500_000, 1_500_999, -1, -999, -1000, -1001, -1_000_000, -1_500_000,
    253_402_300_799_999_000,
)  # fmt: skip


def _scalar(column: str, *values: Any) -> tuple[str, str, str, list[Any]]:
    """One column of the message of scalars."""
    return "proto3", "Scalars", column, [{column.split()[0]: value} for value in values]


def _wrapper(column: str, value: Any) -> tuple[str, str, str, list[Any]]:
    return "proto3", "Wrappers", column, [{column.split()[0]: value}]


WRITES: list[tuple[str, str, str, list[Any]]] = [
    ("proto3", "Scalars", _ALL, _ROWS),
    ("proto3", "Optional", _ALL, _ROWS),
    ("proto2", "Optional", _ALL, _ROWS),
    ("proto3", "Repeated", _LISTS, _LIST_ROWS),
    ("proto2", "Repeated", _LISTS, _LIST_ROWS),
    ("proto3", "Unpacked", "i array<int>, e array<string>", [{"i": [1, 2], "e": ["BLUE"]}]),
    ("proto2", "Packed", "i array<int>, e array<string>", [{"i": [1, 2], "e": ["BLUE"]}]),
    _scalar("e string", "CRIMSON", "AZURE", "", "UNKNOWN_ENUM_VALUE_Color_5"),
    _scalar("e int", 1, 2),
    *(_scalar(column, 5) for column in ("i32 tinyint", "i32 smallint", "i64 int", "u32 tinyint", "u64 smallint")),
    *(_scalar(column, 5) for column in ("i32 date", "u32 date", "i64 date", "I32 int", "more int", "s int")),
    *(_scalar(f"{name} bigint", 5, -1, 2**31, 2**32 - 1, 2**32) for name in ("i32", "u32", "f32", "s32")),
    _scalar("u64 decimal(20,0)", "5", "18446744073709551615"),
    _scalar("d float", "0.5"),
    _scalar("f double", "0.5"),
    _scalar("s binary", "61"),
    _scalar("y string", "a"),
    _scalar("b int", 1),
    _scalar("i32 array<int>", [1]),
    ("proto3", "Repeated", "i32 int", [{"i32": 1}]),
    (
        "proto3", "Nested", "inner struct<i int, s string, l array<int>, o int>, inners array<struct<i int>>, "
        "deep struct<deeper struct<y binary>>",
        [
            {}, {"inner": {}},
            {"inner": {"i": 0, "s": "", "l": [1], "o": 0}, "inners": [{}, {"i": 2}], "deep": {"deeper": {"y": "ff"}}},
            {"inners": [None]},
        ],
    ),
    ("proto3", "Nested", "inner struct<more int>", [{"inner": {"more": 1}}]),
    (
        "proto3", "Maps", "si map<string, int>, bs map<boolean, string>, ud map<bigint, double>, "
        "im map<int, struct<i int>>, se map<string, string>, st map<string, timestamp>, fy map<int, binary>",
        [
            {}, {"si": [], "im": []}, {"si": [["k", 0], ["", 5]]}, {"si": [["b", 1], ["a", 2]]},
            {"bs": [[True, ""]], "ud": [[-1, "0.5"]], "im": [[0, {}], [1, {"i": 1}]]},
            {"im": [[-1, {"i": 0}]], "se": [["a", "GREEN"], ["b", "RED"]], "st": [["k", 1_000_000]], "fy": [[-1, "ff"]]},
            {"si": [["k", None]]}, {"im": [[1, None]]}, {"se": [["k", None]]}, {"se": [["k", "PINK"]]},
        ],
    ),
    (
        "proto3", "OneOf", "i int, s string, m struct<i int>, other int",
        [{}, {"i": 0}, {"s": ""}, {"m": {}}, {"i": 1, "other": 2}, {"i": 1, "s": "x"}, {"i": 0, "m": {"i": 1}}],
    ),
    (
        "proto3", "Times", "t timestamp, d interval day to second, ts array<timestamp>, ds array<interval day to second>",
        [{}, *({"t": n, "d": n, "ts": [n], "ds": [n]} for n in (*_TIMES, 2**63 - 1, 808 - 2**63))],
    ),
    ("proto3", "Times", "t timestamp_ntz", [{"t": 0}]),
    ("proto3", "Times", "d interval hour to second", [{"d": 90_061_000_000}]),
    ("proto3", "Times", "own timestamp", [{"own": 1_500_000}]),
    ("proto3", "Times", "t struct<seconds bigint, nanos int>", [{"t": {"seconds": 1, "nanos": 5}}, {"t": {}}]),
    ("proto3", "Times", "t bigint", [{"t": 1}]),
    (
        "proto3", "Wrappers", "i32 struct<value int>, u64 struct<value bigint>, s struct<value string>, "
        "b struct<value boolean>, ss array<struct<value string>>",
        [
            {}, {"i32": {}},
            {
                "i32": {"value": 0}, "u64": {"value": -1}, "s": {"value": ""}, "b": {"value": False},
                "ss": [{}, {"value": "x"}],
            },
        ],
    ),
    *(_wrapper(f"{name} int", -1) for name in ("i32", "u32")),
    *(_wrapper(f"{name} bigint", -1) for name in ("i64", "u64")),
    *(_wrapper(column, "0.5") for column in ("f float", "d double")),
    _wrapper("b boolean", False),
    _wrapper("s string", ""),
    _wrapper("y binary", "ff"),
    (
        "proto3", "Others", "any struct<type_url string, value binary>, mask struct<paths array<string>>, i int",
        [{}, {"any": {}}, {"any": {"type_url": "x", "value": "ff"}, "mask": {"paths": ["a", "b"]}, "i": 0}],
    ),
    ("proto3", "Tree", "i int, left struct<i int, left struct<i int>>", [{"i": 1, "left": {"i": 2, "left": {"i": 3}}}]),
    ("proto3", "NoFields", "i int", [{"i": 1}]),
    ("proto2", "Defaults", "i int, s string", [{}, {"i": -7, "s": "x"}]),
    (
        "proto2", "Required", "i int, s string, e string",
        [{"i": 1, "e": "RED"}, {"i": 1}, {"e": "GREEN"}, {}, {"i": 0, "e": "PINK"}],
    ),
    ("proto2", "Required", "s string", [{"s": "x"}]),
    ("proto2", "Required", "i int, e string", [{"i": 1, "e": "RED"}]),
    ("proto2", "Inside", "q struct<i int, e string>, r struct<i int>", [{"q": {"i": 1, "e": "RED"}}]),
    (
        "proto2", "Inside", "q struct<i int, e string>, l array<struct<i int, e string>>",
        [{"q": {"i": 1, "e": "RED"}}, {}, {"q": {"i": 1, "e": "RED"}, "l": [{"i": 2, "e": "GREEN"}]}],
    ),
    (
        "proto2", "Enums", "e string, l array<string>, m map<string, string>, a string, "
        "n struct<e string, l array<string>>",
        [
            {"e": "RED", "l": ["GREEN", "RED"], "m": [["k", "DARK"]], "a": "RED", "n": {"e": "RED", "l": []}},
            {"m": [["k", None]]},
        ],
    ),
    (
        "proto2", "Groups", "one struct<i int, s string>, many array<struct<i int>>, after int",
        [{}, {"one": {}, "many": [{"i": 1}], "after": 0}, {"one": {"i": 5, "s": "x"}}, {"many": [{}]}],
    ),
    ("proto2", "Extended", "i int, more int", [{"i": 1, "more": 2}]),
    (
        "edition2023", "Features", "explicit int, implicit int, required int, expanded array<int>, "
        "delimited struct<i int>, closed string",
        [
            {"required": 0}, {},
            {"explicit": 0, "implicit": 0, "required": 1, "expanded": [1, 2], "delimited": {"i": 5}, "closed": "B"},
        ],
    ),
]  # fmt: skip
"""File, message, the column's fields, and its rows, in the form of `plain_values`."""

RANDOM = {
    ("proto3", "Everything"): 60, ("proto2", "Everything"): 60, ("proto3", "Maps"): 8, ("proto2", "Enums"): 8,
    ("proto2", "Groups"): 8, ("proto2", "Inside"): 12, ("edition2023", "Features"): 8,
}  # fmt: skip
"""Messages of which random ones are read, and how many."""
