"""Memory accesses of the C code while it decodes damaged Avro payloads, and encodes the rows."""

from __future__ import annotations

import io
import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from pyspark_zkafka.formats import avro
from tests.support.compiler import SOURCES, compile_c
from tests.support.tiers import seldom

Fuzz = Callable[..., "subprocess.CompletedProcess[str]"]
_CHECKS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]

_LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
_ALL = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "number", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "part", "type": "float"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 25, "scale": 2}},
        {"name": "small", "type": {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 4}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "any", "type": ["int", "null", {"type": "map", "values": ["null", "string"]}, "bytes"]},
        {"name": "rows", "type": {"type": "array", "items": {"type": "record", "name": "Row", "fields": [
            {"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "amount", "type": "double"}]}}},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
        {"name": "list", "type": _LIST},
    ],
}  # fmt: skip
_READER = {
    "type": "record",
    "name": "All",
    "fields": [
        *_ALL["fields"][5:6],
        {"name": "number", "type": "double"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "added", "type": {"type": "array", "items": "string"}, "default": ["x", "y"]},
        {"name": "rows", "type": {"type": "array", "items": {"type": "record", "name": "Row", "fields": [
            {"name": "amount", "type": "double"}, {"name": "more", "type": ["null", "int"], "default": None}]}}},
        {"name": "any", "type": [{"type": "map", "values": ["null", "string"]}, "long", "null"]},
    ],
}  # fmt: skip


def _value(n: int) -> dict[str, Any]:
    deep: dict[str, Any] | None = None
    for _ in range(n % 5):
        deep = {"next": deep}
    return {
        "flag": n % 2 == 0,
        "number": n * 1_000_003 % 2**31 - 2**30,
        "at": n * 10**11,
        "part": n / 4,
        "price": (-1) ** n * n**9,
        "small": n * 11,
        "kind": "ABC"[n % (2 if n % 3 else 3)],
        "note": None if n % 4 == 0 else "ö" * n,
        "any": [n, None, {"k": None, "l": "m" * n}][n % 3],
        "rows": [{"tags": ["t"] * i, "amount": i / 3} for i in range(n % 4)],
        "nothing": [None] * n,
        "list": {"next": deep},
    }


def _payload(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def _corpus() -> Iterator[bytes]:
    """Yield programs for whole types, projections, other readers and skipped values, each with its payloads."""
    plain = {**_ALL, "fields": [field for field in _ALL["fields"] if field["name"] != "list"]}
    physical = json.loads(json.dumps(_ALL).replace('"logicalType"', '"was"'))
    values = [_value(n) for n in range(24)]
    shortest = []
    for value in values:
        value["small"] = value["small"].to_bytes(3, "big", signed=True)
        size = 1 + (value["price"] ^ value["price"] >> 127).bit_length() // 8
        shortest.append({**value, "price": value["price"].to_bytes(size, "big", signed=True)})
        value["price"] = value["price"].to_bytes(11, "big", signed=True)
    whole = [_payload(physical, value) for value in values]
    readable = [payload for payload, value in zip(whole, values, strict=True) if value["kind"] != "C"]
    without_list = json.loads(json.dumps(plain).replace('"logicalType"', '"was"'))
    cases: list[tuple[Any, Any, list[bytes]]] = [
        (plain, plain, [_payload(without_list, value) for value in shortest]),
        (plain, plain, [_payload(without_list, value) for value in values]),
        (_ALL, plain, whole),
        (_ALL, _READER, readable),
        (_ALL, {"type": "record", "name": "All", "fields": []}, whole),
        (["null", "string"], ["null", "string"], [b"\0", b"\2\6abc"]),
        ("bytes", "string", [b"", b"abc"]),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "float"}, [b"\0", b"\2\2a\x80\1\0", b"\1\6\2b\2\0"]),
    ]
    for number, (writer, reader, payloads) in enumerate(cases):
        schema = avro.parse(json.dumps(reader))
        decoder = schema.decoder(avro.parse(json.dumps(writer)), schema.type, confluent=True)
        programs = *decoder.program, *schema.encoder(schema.type, confluent=True).program
        for block in (*(part.tobytes() for part in programs), bytes([number == 0]), bytes([len(payloads)]), *payloads):
            yield struct.pack("<I", len(block)) + block


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Fuzz:
    """The decoder as a program under the sanitizers."""
    folder = tmp_path_factory.mktemp("avro")
    corpus = folder / "corpus"
    corpus.write_bytes(b"".join(_corpus()))
    sources = [SOURCES / f"{name}.c" for name in ("avro", "avro_encoder", "columns")]
    program = compile_c(folder / "fuzz", *_CHECKS, Path(__file__).with_name("fuzz_avro.c"), *sources)

    def run(seed: int, rounds: int, *more: str) -> subprocess.CompletedProcess[str]:
        environment = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        command = [str(program), str(corpus), str(seed), str(rounds), *more]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    return run


@pytest.mark.parametrize(("seed", "rounds"), [(1, 60_000), *seldom((2, 500_000))])
def test_no_fault_of_memory(fuzz: Fuzz, seed: int, rounds: int) -> None:
    """Decoding damaged payloads accesses no foreign memory, leaks none, spoils no other rows, and meets every flaw.

    The rows are encoded to the payloads that they had.
    """
    done = fuzz(seed, rounds)
    assert done.returncode == 0
    assert done.stderr == ""
    decoded, *flaws = map(int, done.stdout.split())
    assert decoded > rounds
    assert all(flaws), done.stdout


def test_the_watch_is_on(fuzz: Fuzz) -> None:
    """The sanitizers find a deliberate access beyond a payload."""
    done = fuzz(1, 1, "crash")
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
