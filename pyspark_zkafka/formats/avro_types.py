"""Avro schemas: their types, and the Spark types of both directions.

Follows the parser of Avro 1.12 and Spark 4.3's `SchemaConverters`. Spark's types have the form of `to_arrow_type`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.engines import HAS_TIMES
from pyspark_zkafka.errors import OptionError, excerpt, listing
from pyspark_zkafka.formats.types import NOT_WANTED, RECORD, STRINGS, TypeLimits, TypeVisitor
from pyspark_zkafka.model.spark_types import spark_name

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_MOST_DIGITS = 38
REST = -1
"""The size of bytes without a length prefix: they extend to the end of the payload."""

UNITS_NS = {"millis": 1_000_000, "micros": 1000, "nanos": 1}
"""Units of the logical types for times, by the last part of the name."""

_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "custom-decimal",
        *(f"{kind}-{unit}" for kind in ("timestamp", "local-timestamp") for unit in UNITS_NS),
    ),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}
_PLAIN = {"null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32()}
_PLAIN |= {"double": pa.float64(), "bytes": pa.binary(), "string": pa.string()}
_OF_KIND = {**_PLAIN, "enum": pa.string(), "fixed": pa.binary()}
_OF_LOGICAL = {
    "date": pa.date32(),
    **({"time-micros": pa.time64("ns")} if HAS_TIMES else {}),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "interval": pa.duration("us"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|/\*.*?\*/|//[^\n]*', re.DOTALL)


@dataclass(eq=False, slots=True)
class AvroType:
    """A type of an Avro schema. A recursive schema is a graph with cycles.

    `logical` is empty for a logical type that is unknown or does not fit its kind. `size` is the size of fixed, or `REST`.
    `branches` are the types of a union. `items` are the items of an array or the values of a map.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    items: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)

    @property
    def is_decimal(self) -> bool:
        """True for Avro's decimals, and for Spark's decimals of other sizes."""
        return self.logical.endswith("decimal")

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    @property
    def values(self) -> list[AvroType]:
        """The branches of a union that are not null. For another type, the type itself."""
        return [branch for branch in self.branches if branch.kind != "null"] if self.kind == "union" else [self]

    @property
    def is_nullable(self) -> bool:
        """True if null is a value of the type."""
        return any(branch.kind == "null" for branch in self.branches or [self])

    @property
    def item(self) -> AvroType:
        """The type of an array's items or of a map's values."""
        if self.items is None:
            raise ValueError(f"a type without items: {self.kind}")
        return self.items

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record. `default` is a value in JSON. It counts only with `has_default`."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


def invalid(problem: str) -> OptionError:
    """Return the error of a schema that cannot be used."""
    return INVALID_SCHEMA(f"The Avro schema cannot be used: {problem}. Correct the schema")


# --- Parsing -----------------------------------------------------------------------------------------------------------


@lru_cache(512)
def parse_type(text: str, references: tuple[tuple[str, str], ...]) -> AvroType:
    """Return the type of a schema. The references are other schemas, by name. Raises OptionError (INVALID_SCHEMA)."""
    try:
        return _Parser(references).parse(text)
    except RecursionError:
        raise invalid("it is nested too deeply") from None


class _Parser:
    """Parses a schema and its references, which share their named types."""

    def __init__(self, references: tuple[tuple[str, str], ...]) -> None:
        self._pending = dict(references)
        self._named: dict[str, AvroType] = {}

    def parse(self, text: str, what: str = "") -> AvroType:
        try:
            # Avro's parser allows comments, such as the licence on top of a file.
            found = json.loads(_TEXT_OR_COMMENT.sub(lambda part: part[1] or " ", text))
            json.dumps(found, ensure_ascii=False).encode()  # no name has half of a surrogate pair
        except ValueError as error:
            raise invalid(f"{what or 'its text'} is not JSON ({error})") from None
        return self._type(found, "", "")

    def _type(self, found: Any, space: str, path: str) -> AvroType:
        """Return the type of a part of the JSON. `space` is the enclosing namespace, `path` the field."""
        if isinstance(found, str):
            return AvroType(found) if found in PRIMITIVES else self._lookup(found, space, path)
        if isinstance(found, list):
            branches = [self._type(branch, space, path) for branch in found]
            keys = [branch.name or branch.kind for branch in branches]
            if "union" in keys or len({*keys}) < len(keys):
                raise invalid(f"{_at(path)}the union of {listing(keys)} has a union or repeats a type")
            return AvroType("union", branches=branches)
        if not isinstance(found, dict) or "type" not in found:
            raise invalid(f"{_at(path)}{excerpt(json.dumps(found))} is not a type")
        kind = found["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._named_type("record" if kind == "error" else kind, found, space, path)
        if kind in ("array", "map"):
            items = found.get("items" if kind == "array" else "values")
            return AvroType(kind, items=self._type(items, space, f"{path}.element" if kind == "array" else f"{path}.value"))
        if isinstance(kind, str) and kind not in PRIMITIVES:
            return self._lookup(kind, space, path)
        made = self._type(kind, space, path)
        return _with_logical(made, found) if isinstance(kind, str) else made

    def _lookup(self, name: str, space: str, path: str) -> AvroType:
        names = [f"{space}.{name}", name] if space and "." not in name else [name.lstrip(".")]
        # A reference usually has the name of its type. If not, parse all references.
        for wanted in (*names, *self._pending, ""):
            if (found := next((self._named[n] for n in names if n in self._named), None)) is not None:
                return found
            if (text := self._pending.pop(wanted, None)) is not None:
                self.parse(text, f"the reference {wanted}")
        raise invalid(f"{_at(path)}the type {excerpt(json.dumps(name))} is not defined")

    def _named_type(self, kind: str, found: dict[str, Any], space: str, path: str) -> AvroType:
        name = found.get("name")
        if not isinstance(name, str) or not name:
            raise invalid(f"{_at(path)}a type of kind {kind} has no name")
        if "." not in name:
            space = found["namespace"] if isinstance(found.get("namespace"), str) else space
            name = f"{space}.{name}"
        name = name.lstrip(".")
        space = name.rpartition(".")[0]
        if name in self._named:
            raise invalid(f"{_at(path)}the type {name} is defined twice")
        aliases = tuple(a if "." in a or not space else f"{space}.{a}" for a in _texts(found, "aliases", name))
        made = self._named[name] = AvroType(kind, name, aliases)
        if kind == "fixed":
            made.size = found.get("size", -1)
            if type(made.size) is not int or not 0 <= made.size < 1 << 31:
                raise invalid(f"{_at(path)}the size of {name} is {excerpt(json.dumps(found.get('size')))}")
            return _with_logical(made, found)
        if kind == "enum":
            made.symbols, made.default = tuple(_texts(found, "symbols", name)), found.get("default")
            if len({*made.symbols}) < len(made.symbols) or (made.default is not None and made.default not in made.symbols):
                raise invalid(f"{_at(path)}the enum {name} repeats a symbol, or its default is none of its symbols")
            return made
        fields = found.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) and isinstance(f.get("name"), str) for f in fields):
            raise invalid(f"{_at(path)}the record {name} has no list of named fields")
        for each in fields:
            inner = f"{path}.{each['name']}" if path else each["name"]
            kind_of = self._type(each.get("type"), space, inner)
            aliases = tuple(_texts(each, "aliases", inner))
            made.fields.append(AvroField(each["name"], kind_of, aliases, "default" in each, each.get("default")))
        if len({f.name for f in made.fields}) < len(made.fields):
            raise invalid(f"{_at(path)}the record {name} has two fields of one name")
        return made


def _with_logical(made: AvroType, found: Mapping[str, Any]) -> AvroType:
    """Add the logical type if it fits the type. Avro ignores a logical type that does not fit."""
    logical = found.get("logicalType")
    if logical in ("decimal", "custom-decimal"):
        made.precision, made.scale = precision, scale = found.get("precision", 0), found.get("scale", 0)
        most = math.inf if made.kind != "fixed" else math.floor(math.log10(2) * (8 * made.size - 1)) if made.size else 0
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not 0 < precision <= most:
            return made
    if logical in _LOGICAL.get(made.kind, ()):
        made.logical = str(logical)
    elif made.kind == "long" and str(found.get("spark.sql.catalyst.type", "")).startswith("interval"):
        made.logical = "interval"
    return made


def _texts(found: Mapping[str, Any], key: str, name: str) -> list[str]:
    texts = found.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise invalid(f"the {key} of {name} are not a list of names")
    return texts


def _at(path: str) -> str:
    return f"in field {path.lstrip('.')}, " if path else ""


# --- Avro to Spark -----------------------------------------------------------------------------------------------------


def arrow_type(avro: AvroType, wanted: pa.DataType | None = None) -> pa.DataType:
    """Return the type that from_avro gives a column, with `NOT_WANTED` for fields that a frame's `wanted` type lacks.

    Raises OptionError (INVALID_SCHEMA) if Spark has no such type.
    """
    return _type(avro, "", (), TypeLimits(wanted))


def _type(avro: AvroType, path: str, within: tuple[str, ...], limits: TypeLimits) -> pa.DataType:
    """Return the type. `within` are the names of the records around it."""

    def field(name: str, inner: AvroType) -> pa.Field:
        with limits.level(name):
            return pa.field(name, _type(inner, f"{path}.{name}", within, limits), inner.is_nullable)

    if avro.is_decimal:
        if avro.precision > _MOST_DIGITS:
            raise INVALID_SCHEMA(
                f"The Avro schema has no type in Spark: {_at(path)}a decimal has {avro.precision} digits, and Spark's "
                f"have at most {_MOST_DIGITS}; declare the frame's schema without this field, or set the option for "
                f"the schema to a copy with precision {_MOST_DIGITS}"
            )
        return pa.decimal128(avro.precision, avro.scale)
    if avro.kind == "array":
        return pa.list_(field("element", avro.item))
    if avro.kind == "map":
        return pa.map_(pa.field("key", pa.string(), False), field("value", avro.item))
    if avro.kind == "record":
        if avro.name in within and limits.is_whole:
            raise INVALID_SCHEMA(
                f"The Avro schema has no type in Spark: {_at(path)}the record {avro.name} is in itself; declare the "
                "frame's schema without this field"
            )
        within = (*within, avro.name)
        return pa.struct([field(f.name, f.type) if limits.wants(f.name) else (f.name, NOT_WANTED) for f in avro.fields])
    if avro.kind != "union":
        return _OF_LOGICAL.get(avro.logical) or _OF_KIND[avro.kind]
    values = avro.values
    if len(values) == 1:
        return _type(values[0], path, within, limits)
    if (wider := wider_kind(values)) is not None:
        return _PLAIN[wider]
    members = [(f"member{i}", value) for i, value in enumerate(values)]
    return pa.struct([(name, field(name, value).type if limits.wants(name) else NOT_WANTED) for name, value in members])


def wider_kind(values: list[AvroType]) -> str | None:
    """Return the wider kind of a union of int and long, or of float and double. None for other unions."""
    kinds = {value.kind for value in values} if len(values) == 2 else set()
    return "long" if kinds == {"int", "long"} else "double" if kinds == {"float", "double"} else None


# --- Spark to Avro -----------------------------------------------------------------------------------------------------

_TO_AVRO: dict[pa.DataType, Any] = {
    **{type: kind for kind, type in _PLAIN.items()},
    pa.int8(): "int",
    pa.int16(): "int",
    pa.large_string(): "string",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.time64("ns"): {"type": "long", "logicalType": "time-micros", "spark.sql.catalyst.type": "time(6)"},
    pa.duration("us"): {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
}


def schema_of(type: pa.DataType) -> str:
    """Return the schema that to_avro gives a column without nulls. Raises INVALID_SCHEMA with all problems."""
    schemas = _Schemas()
    made = schemas.visit(type, False, RECORD)
    if schemas.problems:
        raise INVALID_SCHEMA(f"The column has no Avro schema: {listing(schemas.problems, separator='; ')}. Rename or cast")
    return json.dumps(made)


def evolving_schema_of(type: pa.DataType) -> str:
    """Return the schema of a column for a registry: `schema_of`, with null as the default of nullable fields.

    A later schema may then add or leave out such fields, as compatibility BACKWARD demands.
    """
    return json.dumps(json.loads(schema_of(type), object_hook=_with_default))


def _with_default(part: dict[str, Any]) -> dict[str, Any]:
    if isinstance(part["type"], list):  # a field, as types are never lists elsewhere
        return part | {"type": part["type"][::-1], "default": None}  # the default belongs to the first type
    return part | {"default": None} if part["type"] == "null" else part


class _Schemas(TypeVisitor[bool, Any]):
    """Makes the JSON of types, given whether they are nullable. `problems` collects types that Avro lacks.

    The path of a struct is the full name of its record, and so distinguishes it from other records.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []

    def visit(self, type: pa.DataType, nullable: bool, path: str = "") -> Any:
        made = super().visit(type, nullable, path)
        return [made, "null"] if nullable and made != "null" else made

    def of_struct(self, type: pa.DataType, nullable: bool, path: str) -> Any:
        self.problems += [
            f"the name {f.name!r} has other characters than A-Z, a-z, 0-9 and _"
            for f in type
            if not _NAME.fullmatch(f.name)
        ]
        space, _, name = path.rpartition(".")
        fields = [{"name": f.name, "type": self.visit(f.type, f.nullable, f"{path}.{f.name}")} for f in type]
        return {"type": "record", "name": name, **({"namespace": space} if space else {}), "fields": fields}

    def of_list(self, type: pa.DataType, nullable: bool, path: str) -> Any:
        return {"type": "array", "items": self.visit(type.value_type, type.value_field.nullable, path)}

    def of_map(self, type: pa.DataType, nullable: bool, path: str) -> Any:
        if type.key_type not in STRINGS:
            return self._lacking(type, path)
        return {"type": "map", "values": self.visit(type.item_type, type.item_field.nullable, path)}

    def of_scalar(self, type: pa.DataType, nullable: bool, path: str) -> Any:
        if pa.types.is_decimal128(type):
            size = next(n for n in range(1, 17) if 2 ** (8 * n - 1) - 1 >= 10**type.precision - 1)
            made = {"type": "fixed", "name": "fixed", "namespace": path, "size": size, "logicalType": "decimal"}
            return made | {"precision": type.precision, "scale": type.scale}
        if pa.types.is_timestamp(type) and type.tz is not None and type.unit == "us":
            return {"type": "long", "logicalType": "timestamp-micros"}
        return _TO_AVRO.get(type) or self._lacking(type, path)

    def _lacking(self, type: pa.DataType, path: str) -> str:
        self.problems.append(f"{path} has the type {spark_name(type)}, which Avro lacks")
        return ""
