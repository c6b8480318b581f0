"""Recorder of librdkafka's own answers: the partitions of keys, and the names of configuration properties.

Recipe, with the package's environment (confluent-kafka's wheel brings librdkafka), from the root of this repository::

    python tests/vectors/record_librdkafka.py partitions > tests/vectors/librdkafka_partitions.json
    python tests/vectors/record_librdkafka.py names > tests/vectors/librdkafka_config_names.json

The partitioners are public functions of librdkafka (``rd_kafka_msg_partitioner_*`` in ``rdkafka.h``) that need no broker:
the recorder calls them in the library itself. Keys are those of ``murmur2.json``, and some whose FNV-1a is the lowest
integer. The list of properties is the library's own (``rd_kafka_conf_properties_show``), which omits hidden ones.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from importlib.metadata import files
from pathlib import Path

import confluent_kafka

PARTITIONERS = ("murmur2", "consistent", "fnv1a")
PARTITION_COUNTS = (1, 3, 7, 8, 12, 50, 100, 1000)
LOWEST_FNV1A = ("33a93ddc68", "eecf032328", "942f566ea8")


def librdkafka() -> ctypes.CDLL:
    """Return the library in confluent-kafka's wheel, whose file name contains a hash."""
    found = [f.locate() for f in files("confluent-kafka") or () if f.name.startswith("librdkafka")]
    return ctypes.CDLL(str(found[0]))


def partition(library: ctypes.CDLL, partitioner: str, key: bytes, count: int) -> int:
    """Return the partition that a partitioner of librdkafka chooses among `count`."""
    function = getattr(library, f"rd_kafka_msg_partitioner_{partitioner}")
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    function.restype = ctypes.c_int32
    return int(function(None, key, len(key), count, None, None))


def partitions() -> str:
    """Return the vectors of the partitioners as JSON, one key per line."""
    library = librdkafka()
    murmur2 = json.loads((Path(__file__).parent / "murmur2.json").read_text(encoding="utf-8"))
    keys = [*dict.fromkeys(row[0] for row in murmur2["keys"]), *LOWEST_FNV1A]
    rows = [
        json.dumps([key, *([partition(library, p, bytes.fromhex(key), n) for n in PARTITION_COUNTS] for p in PARTITIONERS)])
        for key in keys
    ]
    head = {
        "tool": f"librdkafka {confluent_kafka.libversion()[0]}: rd_kafka_msg_partitioner_*",
        "recipe": "tests/vectors/record_librdkafka.py partitions",
        "partition_counts": PARTITION_COUNTS,
        "columns": ["key (hexadecimal)", *(f"{p}: partition for each of partition_counts" for p in PARTITIONERS)],
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    return "\n".join(["{", *lines, '  "keys": [', ",\n".join(f"    {row}" for row in rows), "  ]", "}"])


def properties_text() -> str:
    """Return the table of properties that librdkafka prints for people."""
    libc, library = ctypes.CDLL(None), librdkafka()
    libc.fopen.restype, libc.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    with tempfile.NamedTemporaryFile() as file:
        stream = libc.fopen(file.name.encode(), b"w")
        library.rd_kafka_conf_properties_show(stream)
        libc.fclose(stream)
        return file.read().decode()


def names() -> str:
    """Return the names of the properties as JSON: C for consumers, P for producers, * for both."""
    lines = [line for line in properties_text().splitlines() if line.count("|") > 4]
    scopes: dict[str, set[str]] = {}
    for name, scope in ([cell.strip() for cell in line.split("|")[:2]] for line in lines):
        if scope in ("C", "P", "*"):
            scopes.setdefault(name, set()).add(scope)
    found = {
        "tool": f"librdkafka {confluent_kafka.libversion()[0]}: rd_kafka_conf_properties_show",
        "recipe": "tests/vectors/record_librdkafka.py names",
        "properties": {name: "*" if len(of) > 1 else min(of) for name, of in sorted(scopes.items())},
    }
    return json.dumps(found, indent=2)


if __name__ == "__main__":
    sys.stdout.write({"partitions": partitions, "names": names}[sys.argv[1]]() + "\n")
