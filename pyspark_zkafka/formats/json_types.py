"""Types of JSON documents, from JSON Schema or Spark's DDL, and the JSON Schema of a type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa

from pyspark_zkafka.conditions import FORMAT_LIBRARY_MISSING, INVALID_SCHEMA
from pyspark_zkafka.errors import listing
from pyspark_zkafka.formats.ddl import spark_type
from pyspark_zkafka.formats.types import (
    BINARIES,
    NOT_WANTED,
    RECORD,
    STRINGS,
    TypeLimits,
    array_of,
    inner_path,
    is_list,
    nullable_type,
)
from pyspark_zkafka.model.records import parts_of, shape_of
from pyspark_zkafka.model.spark_types import is_variant, spark_name

References = tuple[tuple[str, str], ...]

RAW = pa.null()
"""The internal type for values of several types. Spark gets their JSON text as a string."""

_CONSTRAINTS = (
    "required", "enum", "const", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "contains", "minProperties", "maxProperties",
    "propertyNames", "patternProperties", "dependencies", "dependentRequired", "dependentSchemas", "oneOf", "anyOf",
    "allOf", "not", "if",
)  # fmt: skip
"""Keywords that restrict values beyond their types. Types are checked once for a column."""

DECIMALS = Context(prec=1000, rounding=ROUND_HALF_UP)
"""The arithmetic of decimals. It is precise enough for all digits of a type."""

_FORMATS = {"date-time": pa.timestamp("us", "UTC"), "date-time-local": pa.timestamp("us"), "date": pa.date32()}
"""Types of strings by `format`. OpenAPI's registry of formats has date-time-local."""


def public_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark gets."""
    return nullable_type(kind, lambda kind: pa.string() if kind == RAW else kind)


def of_form(schema: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Return the schema's type, or the column's if the schema says nothing about its fields or elements."""
    return schema if (kind in STRINGS if schema == RAW else type(schema) is type(kind)) else kind


def exact_number(digits: str) -> int | Decimal:
    """Return a number without loss of digits, as an integer if it has at most 64 bits, like orjson's integers."""
    number = Decimal(digits)
    return int(number) if -(2**63) <= number < 2**64 and number == int(number) else number


# JSON Schema


def is_json_schema(text: str) -> bool:
    """Return whether the text is JSON Schema, and not DDL."""
    return text.lstrip()[:1] in {"{", "[", ""}


def title_of(text: str) -> str | None:
    """Return the title of a JSON Schema. None without a title, or if the text is DDL."""
    with suppress(ValueError, AttributeError):  # DDL, and documents that are no objects
        title: str | None = json.loads(text).get("title")
        return title
    return None


def check_text(text: str, references: Mapping[str, str]) -> None:
    """Raise INVALID_SCHEMA if a text is neither JSON Schema nor DDL, or a reference is no JSON Schema."""
    if is_json_schema(text):
        _loads(text, "schema")
        for name, other in references.items():
            _loads(other, name)
    else:
        spark_type(text)


@lru_cache(maxsize=256)
def type_of(text: str, references: References, wanted: pa.DataType | None = None) -> pa.DataType:
    """Return the type of documents, with RAW for parts with values of several types.

    Fields that a JSON Schema requires have metadata. With a `wanted` type, the other fields are `NOT_WANTED`.
    """
    limits = TypeLimits(wanted)
    if not is_json_schema(text):
        return spark_type(text, limits if limits.is_whole else None)
    try:
        document = _loads(text, "schema")
        return _SchemaTypes(limits).type_of(document, _registry(document, references)[1], "#", (id(document),))
    except RecursionError:
        raise _invalid("#", "it is nested too deeply") from None


def has_constraints(text: str, references: References) -> bool:
    """Return whether a JSON Schema may demand something beyond types."""
    return any(f'"{keyword}"' in given for keyword in _CONSTRAINTS for given in (text, *(other for _, other in references)))


def validator(text: str, references: References) -> Any:
    """Return a validator of documents. None for DDL."""
    if not is_json_schema(text):
        return None
    from jsonschema.validators import Draft7Validator, validator_for

    document = _loads(text, "schema")
    return validator_for(document, default=Draft7Validator)(document, registry=_registry(document, references)[0])


def _loads(text: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_float=Decimal)  # so that validation is exact
        json.dumps(found, default=str, ensure_ascii=False).encode()  # no name has half of a surrogate pair
    except RecursionError:
        raise _invalid("#", "it is nested too deeply") from None
    except ValueError as exc:
        raise INVALID_SCHEMA(f"The JSON Schema {name} is no JSON: {exc}; correct the text") from exc
    if not isinstance(found, dict) or not all(isinstance(found.get(key, ""), str) for key in ("$id", "$schema")):
        raise _invalid("#", f"{name} is no object, or its $id or $schema is no string")
    return found


def _registry(document: dict[str, Any], references: References) -> tuple[Any, Any]:
    """Return the documents by name and by id, and a resolver of the schema's references."""
    try:
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7
    except ImportError as exc:
        raise FORMAT_LIBRARY_MISSING(f"JSON Schema needs {exc.name}; run pip install 'pyspark-zkafka[json]'") from exc

    base = str(document.get("$id", ""))
    found = {name: Resource.from_contents(_loads(text, name), default_specification=DRAFT7) for name, text in references}
    others = {uri: r for name, r in found.items() for uri in (name, urljoin(base, name), r.id()) if uri}
    registry: Any = Registry().with_resources(others.items())
    return registry, registry.resolver_with_root(Resource.from_contents(document, default_specification=DRAFT7))


class _SchemaTypes:
    """The types of the parts of one JSON Schema. `outer` has the ids of the parts that enclose a part."""

    def __init__(self, limits: TypeLimits) -> None:
        self._limits = limits

    def type_of(self, node: Any, resolver: Any, path: str, outer: tuple[int, ...]) -> pa.DataType:
        if isinstance(node, bool):
            return RAW
        if not isinstance(node, dict):
            raise _invalid(path, f"{node!r} is no schema")
        if "$ref" in node:
            return self._type_of_reference(node["$ref"], resolver, path, outer)
        for keyword in ("oneOf", "anyOf"):
            if keyword in node:
                variants = _variants(node, keyword, path)
                if len(variants) == 1:
                    kinds = [self.type_of(variants[0][1], resolver, variants[0][0], outer)]
                else:  # comparing variants needs all of their fields
                    kinds = [self._inner(variant, resolver, where, outer, is_whole=True) for where, variant in variants]
                if any(kind != RAW for kind in kinds):  # otherwise, they only demand more of the schema's own type
                    own = self._inner(_without(node, keyword), resolver, path, outer)
                    common = kinds[0] if all(kind == kinds[0] for kind in kinds) else RAW
                    is_both = own != RAW and common != RAW and pa.types.is_struct(own) == pa.types.is_struct(common)
                    return _combined([own, common], own) if is_both else common
        if "allOf" in node:
            variants = [*_variants(node, "allOf", path), (path, _without(node, "allOf"))]
            kinds = [self._inner(variant, resolver, where, outer) for where, variant in variants]
            return _combined(kinds, kinds[-1])
        return self._type_of_keywords(node, resolver, path, outer)

    def _type_of_reference(self, reference: Any, resolver: Any, path: str, outer: tuple[int, ...]) -> pa.DataType:
        from referencing.exceptions import Unresolvable

        try:
            found = resolver.lookup(reference)
        except (Unresolvable, AttributeError, TypeError, ValueError) as exc:
            raise _invalid(path, f"$ref {reference!r} leads nowhere: {exc}; add the reference") from exc
        if id(found.contents) in outer:  # a recursive type has no end
            return RAW
        return self.type_of(found.contents, found.resolver, path, (*outer, id(found.contents)))

    def _type_of_keywords(self, node: dict[str, Any], resolver: Any, path: str, outer: tuple[int, ...]) -> pa.DataType:
        named = node.get("type")
        found = named if isinstance(named, list) else _types_of_values(node) if named is None else [named]
        names = set(map(str, found)) - {"null"}
        if len(names) != 1:
            return pa.float64() if names == {"integer", "number"} else RAW
        (name,) = names
        if name == "object":
            return self._object(node, resolver, path, outer)
        if name == "array":
            items = node.get("items", True)
            is_tuple = isinstance(items, list) or "prefixItems" in node
            return array_of(RAW if is_tuple else self._inner(items, resolver, f"{path}/items", outer, "element"))
        if name == "string":
            if node.get("contentEncoding") == "base64":
                return pa.binary()
            return _FORMATS.get(str(node.get("format")), pa.string())
        kind = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}.get(name)
        if kind is None:
            raise _invalid(path, f"{name!r} is no type")
        return kind

    def _object(self, node: dict[str, Any], resolver: Any, path: str, outer: tuple[int, ...]) -> pa.DataType:
        properties = node.get("properties", {})
        if not isinstance(properties, dict):
            raise _invalid(path, "properties is no object")
        if properties:
            required = set(map(str, listed)) if isinstance(listed := node.get("required"), list) else set()
            fields = []
            for name, inner in properties.items():
                where = f"{path}/properties/{name}"
                kind = self._inner(inner, resolver, where, outer, name) if self._limits.wants(name) else NOT_WANTED
                fields.append(pa.field(name, kind, metadata={"required": ""} if name in required else None))
            return pa.struct(fields)
        others = node.get("additionalProperties", True)
        if isinstance(others, dict) and not node.get("patternProperties"):
            return pa.map_(pa.string(), self._inner(others, resolver, f"{path}/additionalProperties", outer, "value"))
        return RAW

    def _inner(
        self, node: Any, resolver: Any, path: str, outer: tuple[int, ...], *part: str, is_whole: bool = False
    ) -> pa.DataType:
        with self._limits.level(*part, is_whole=is_whole):
            return self.type_of(node, resolver, path, outer)


def _without(node: dict[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != keyword}


def _merged(kinds: list[pa.DataType], own: pa.DataType) -> pa.DataType:
    by_name: dict[str, list[pa.Field]] = {}
    for field in (field for kind in kinds for field in kind):
        by_name.setdefault(field.name, []).append(field)
    owned = {field.name: field.type for field in own} if pa.types.is_struct(own) else {}
    merged = []
    for name, fields in by_name.items():
        kind = _combined([field.type for field in fields], owned.get(name, RAW))
        merged.append(pa.field(name, kind, metadata=next((field.metadata for field in fields if field.metadata), None)))
    return pa.struct(merged)


def _combined(kinds: list[pa.DataType], own: pa.DataType) -> pa.DataType:
    """Return the type of values that several schemas describe. Ignores RAW: it may only add constraints.

    Combines structs, arrays and maps. If other types differ, the schema's `own` type decides, or else the last type.
    """
    kinds = [kind for kind in kinds if kind != RAW]
    kinds = [kind for kind in kinds if kind != pa.string()] or kinds  # a variant may leave out the format of a string
    if len(kinds) < 2:
        return kinds[0] if kinds else RAW
    if all(pa.types.is_struct(kind) for kind in kinds):
        return _merged(kinds, own)
    if all(pa.types.is_list(kind) for kind in kinds):
        return array_of(_combined([kind.value_type for kind in kinds], own.value_type if pa.types.is_list(own) else RAW))
    if all(pa.types.is_map(kind) for kind in kinds):
        return pa.map_(pa.string(), _combined([k.item_type for k in kinds], own.item_type if pa.types.is_map(own) else RAW))
    if pa.types.is_nested(kinds[0]) and any(kind.id != kinds[0].id for kind in kinds) and own not in kinds:
        return kinds[0]  # a base type, and types that refine it
    return own if own in kinds else kinds[-1]


def _variants(node: dict[str, Any], keyword: str, path: str) -> list[tuple[str, Any]]:
    """Return the paths and schemas of a keyword. Except for allOf, leaves out schemas of null."""
    if not isinstance(node[keyword], list):
        raise _invalid(path, f"{keyword} is no array")
    variants = [(f"{path}/{keyword}/{i}", variant) for i, variant in enumerate(node[keyword])]
    return [v for v in variants if keyword == "allOf" or not (isinstance(v[1], dict) and v[1].get("type") == "null")]


def _types_of_values(node: dict[str, Any]) -> list[str]:
    """Return the types that a schema without `type` implies."""
    if "properties" in node:
        return ["object"]
    if "items" in node:
        return ["array"]
    values = node.get("enum", [node["const"]] if "const" in node else [])
    names = {str: "string", int: "integer", Decimal: "number", bool: "boolean", type(None): "null"}
    return [names.get(type(value), "any") for value in (values if isinstance(values, list) else [])]


def _invalid(path: str, reason: str) -> Exception:
    return INVALID_SCHEMA(f"The JSON Schema is not valid at {path}: {reason}; correct the schema")


# Forms of types


def form(kind: pa.DataType) -> dict[str, Any]:
    """Return the JSON Schema of a type that is not nested. Empty if JSON has no form for the type."""
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "number"}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time" if kind.tz else "date-time-local"}
    if kind == pa.date32():
        return {"type": "string", "format": "date"}
    if kind in BINARIES:
        return {"type": "string", "contentEncoding": "base64"}
    return {"type": "string"} if kind in STRINGS else {}


def check_forms(kind: pa.DataType) -> None:
    """Raise INVALID_SCHEMA if JSON cannot represent a part of a column's type."""
    problems = list(_formless(kind, ""))
    if problems:
        raise INVALID_SCHEMA(f"JSON has no form of these columns: {listing(problems, separator='; ')}; change their types")


def _formless(kind: pa.DataType, path: str) -> Iterator[str]:
    if is_variant(kind):
        yield f"{path or 'the column'} is variant"
        return
    if pa.types.is_map(kind) and kind.key_type not in STRINGS:
        yield f"{inner_path(path, 'key')} is {spark_name(kind.key_type)}"
    if not pa.types.is_nested(kind) and not form(kind):
        yield f"{path or 'the column'} is {spark_name(kind)}"
    for field in parts_of(kind):
        yield from _formless(field.type, inner_path(path, field.name))


def mismatches(column: pa.DataType, schema: pa.DataType, path: str) -> Iterator[str]:
    """Yield a text for each part of a column that does not have the form of the schema's type."""
    if schema == RAW:
        return
    if pa.types.is_nested(column) and column.id == schema.id:
        known = {field.name: field.type for field in parts_of(schema)}
        for field in parts_of(column):
            inner = inner_path(path, field.name)
            if field.name in known:
                yield from mismatches(field.type, known[field.name], inner)
            else:
                yield f"{inner} is no property of the schema"
        return
    given, wanted = form(column).get("type", ""), form(schema).get("type")
    if given != wanted and (given, wanted) != ("integer", "number"):
        yield f"{path or 'the column'} is {spark_name(column)}, and the schema has {shape_of(schema)}"


def schema_of(type: pa.DataType) -> str:
    """Return the JSON Schema of a column's type. Raises INVALID_SCHEMA if JSON has no form for it."""
    check_forms(type)
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": RECORD, **_schema_of(type)}
    return json.dumps(schema, indent=2)


def json_schema_of(text: str) -> str:
    """Return a JSON Schema, which the text may give as DDL."""
    return text if is_json_schema(text) else schema_of(spark_type(text))


def _schema_of(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):  # null fields are left out, so that their schemas need no null
        return {"type": "object", "properties": {field.name: _schema_of(field.type) for field in kind}}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _nullable(_schema_of(kind.item_type), kind.item_field.nullable)}
    if is_list(kind):
        return {"type": "array", "items": _nullable(_schema_of(kind.value_type), kind.value_field.nullable)}
    return form(kind)


def _nullable(schema: dict[str, Any], nullable: bool) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]} if nullable else schema
