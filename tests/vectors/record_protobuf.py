"""Recorder of protobuf.json: the types, rows and bytes of Spark's ``from_protobuf`` and ``to_protobuf``.

Recipe, with the package's environment, Java 17, and on the class path JARS a jar of Spark's connector/protobuf, built from
its source, with protobuf-java and protobuf-java-util 4.33.5, from the root of this repository::

    python -m tests.vectors.record_protobuf JARS COMMIT > tests/vectors/protobuf.json

COMMIT is the source's commit in apache/spark, for the record. The options are Spark's defaults, with the mode PERMISSIVE,
which returns null for a record that the mode FAILFAST refuses.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.protobuf.functions import from_protobuf, to_protobuf
from pyspark.sql.types import StructType

from pyspark_zkafka.formats.protobuf import ProtobufSchema, parse
from tests.support.plain_values import array_of, plain_values
from tests.vectors.protobuf_cases import FILES, RANDOM, READS, WRITES

# Random messages


def random_messages(schema: ProtobufSchema, seed: int, count: int) -> Iterator[bytes]:
    """Random messages, and each of them again with one or two bytes changed, inserted, removed, or cut off."""
    chance = random.Random(seed)
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.files).file:
        pool.AddSerializedFile(file.SerializeToString())
    message_class = GetMessageClass(pool.FindMessageTypeByName(schema.message))
    for _ in range(count):
        message = message_class()
        fill(message, chance, 3)
        data = message.SerializePartialToString(deterministic=True)
        yield data
        for _ in range(4):
            yield mutated(data, chance)


def fill(message: Any, chance: random.Random, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.7 and not field.is_required:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name
            items = getattr(message, field.name)
            for _ in range(chance.randrange(3)):
                key = some(entry["key"], chance)
                if entry["value"].message_type is None:
                    items[key] = some(entry["value"], chance)
                else:
                    fill(items[key], chance, depth - 1)
        elif field.message_type is not None:
            if depth:
                parts = [getattr(message, field.name)]
                if field.is_repeated:
                    parts = [parts[0].add() for _ in range(chance.randrange(3))]
                else:
                    parts[0].SetInParent()
                for part in parts:
                    fill(part, chance, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(some(field, chance) for _ in range(chance.randrange(4)))
        else:
            setattr(message, field.name, some(field, chance))


def some(field: Any, chance: random.Random) -> Any:
    kind = field.cpp_type
    if kind in (1, 2):
        return chance.choice([0, 1, -1, chance.randrange(-(2**31), 2**31)])
    if kind in (3, 4):
        return chance.choice([0, 1, chance.randrange(2**32)])
    if kind in (5, 6):
        return chance.choice([0.0, -0.0, 0.5, float("inf")])
    if kind == 7:
        return chance.random() < 0.5
    if kind == 8:
        return chance.choice(field.enum_type.values).number
    return chance.choice(["", "a", "ó"]) if field.type == 9 else chance.choice([b"", b"\xff\0"])


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2])):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                changed[at:at] = bytes([chance.randrange(256)])
            case 2:
                del changed[at : at + 1]
            case 3:
                del changed[at:]
    return bytes(changed)


# Recording


def read(spark: SparkSession, schema: ProtobufSchema, payloads: list[bytes]) -> dict[str, Any]:
    """Spark's type of a message, and its row of each payload, null where it is malformed."""

    def decoded(payloads: list[bytes], mode: str) -> DataFrame:
        column = from_protobuf("payload", schema.message, options={"mode": mode}, binaryDescriptorSet=schema.files)
        return spark.createDataFrame(pa.table({"payload": pa.array(payloads, pa.binary())})).select(column.alias("value"))

    def values(frame: DataFrame) -> list[Any]:
        # Arrow refuses a null struct whose fields are not null.
        nullable = frame.select(frame["value"].cast(StructType.fromJson(json.loads(text.replace(":false", ":true")))))
        return plain_values(nullable.toArrow().column(0).combine_chunks())

    try:
        frame = decoded(payloads, "PERMISSIVE")
        type = frame.schema["value"].dataType
    except PySparkException as exc:
        return {"refused": exc.getCondition()}
    text = type.json()
    if not type.fields:  # type: ignore[attr-defined]
        return {"type": type.jsonValue(), "rows": []}
    rows = values(frame)
    fine = [payload for payload, row in zip(payloads, rows, strict=True) if row is not None]
    assert values(decoded(fine, "FAILFAST")) == [row for row in rows if row is not None]
    for malformed in [payload for payload, row in zip(payloads, rows, strict=True) if row is None][:1]:
        with pytest.raises((PySparkException, Py4JJavaError), match="MALFORMED_PROTOBUF_MESSAGE"):
            values(decoded([malformed], "FAILFAST"))
    return {"type": type.jsonValue(), "rows": [[p.hex(), row] for p, row in zip(payloads, rows, strict=True)]}


def write(spark: SparkSession, schema: ProtobufSchema, columns: str, rows: list[Any]) -> dict[str, Any]:
    """Spark's bytes of each row, null where to_protobuf fails."""
    type = StructType.fromDDL(columns)
    kind = to_arrow_type(type, timezone="UTC")

    def encoded(row: Any) -> str | None:
        table = pa.table({"value": array_of([row], kind)})
        frame = spark.createDataFrame(table, StructType().add("value", type))
        column = to_protobuf("value", schema.message, binaryDescriptorSet=schema.files)
        try:
            return bytes(frame.select(column).collect()[0][0]).hex()
        except (PySparkException, Py4JJavaError):
            return None

    return {"type": type.jsonValue(), "rows": [[row, encoded(row)] for row in rows]}


def main() -> None:
    jars, commit = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.extraClassPath", jars)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    schemas = {name: parse(FILES[name[0]], message=f"v.{name[1]}") for name in (*READS, *RANDOM)}
    reads = [{"file": name[0], "message": name[1], **read(spark, schemas[name], [*READS[name]()])} for name in READS]
    for name, count in RANDOM.items():
        payloads = [*dict.fromkeys(random_messages(schemas[name], 1, count))]
        reads.append({"file": name[0], "message": name[1], **read(spark, schemas[name], payloads)})
    writes = [
        {"file": file, "message": message, **write(spark, schemas[file, message], columns, rows)}
        for file, message, columns, rows in WRITES
    ]
    head = {
        "tool": f"from_protobuf and to_protobuf of apache/spark {commit}, connector/protobuf, on Spark {spark.version}",
        "recipe": "python -m tests.vectors.record_protobuf JARS COMMIT",
        "columns": {
            "reads": "payload (hexadecimal), and the row of from_protobuf, or null if it is malformed",
            "writes": "row, and the bytes of to_protobuf (hexadecimal), or null if it fails",
            "values": "see tests/support/plain_values.py",
            "file": "a schema in tests/vectors/protobuf",
        },
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    lines += [*section("reads", reads)[:-1], "  ],", *section("writes", writes)]
    sys.stdout.write("\n".join(["{", *lines, "}"]) + "\n")


def section(name: str, tables: list[dict[str, Any]]) -> list[str]:
    """The lines of a list of tables, with one row a line."""

    def table(given: dict[str, Any]) -> str:
        head = json.dumps({key: value for key, value in given.items() if key != "rows"})[:-1]
        rows = ",\n".join(f"      {json.dumps(row, ensure_ascii=False)}" for row in given.get("rows", []))
        return f'    {head}, "rows": [\n{rows}\n    ]}}'

    return [f'  "{name}": [', ",\n".join(map(table, tables)), "  ]"]


if __name__ == "__main__":
    main()
