"""Types of Spark's DDL, as schemas of JSON documents."""

from __future__ import annotations

import re
from collections import deque
from contextlib import nullcontext
from itertools import islice

import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.formats.types import TypeLimits, array_of

_NAMES = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(), "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(),
    "real": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ltz": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|([A-Za-z0-9_]+)|([<>(),:]))")


def spark_type(text: str, limits: TypeLimits | None = None) -> pa.DataType:
    """Return the type of Spark's DDL: fields, or one type such as ``array<int>``. All parts may be null.

    Limits are optional, because a type is not larger than its text.

    >>> spark_type("id bigint, tags array<string>")
    StructType(struct<id: int64, tags: list<element: string>>)
    """
    parser = _Ddl(text, limits)
    is_type = any(parser.starts_with(name, "<") for name in ("struct", "array", "map"))
    try:
        kind = parser.type() if is_type else parser.fields(end=None)
    except RecursionError:
        raise INVALID_SCHEMA(f"The schema {text[:200]!r} is nested too deeply; correct the schema") from None
    if parser.tokens:
        raise parser.error()
    return kind


class _Ddl:
    def __init__(self, text: str, limits: TypeLimits | None) -> None:
        self._text = text
        self._limits = limits
        self.tokens: deque[str] = deque()
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.error()
            quoted, comment, word, mark = found.groups()
            self.tokens.append(quoted.replace("``", "`") if quoted else comment or word or mark)
            at = found.end()

    def error(self) -> Exception:
        where = f"near {' '.join(islice(self.tokens, 5))!r}" if self.tokens else "at its end"
        return INVALID_SCHEMA(
            f"The schema {self._text[:200]!r} is neither JSON nor Spark's DDL, which cannot be read "
            f"{where}; write it as `id bigint, name string`"
        )

    def take(self, *expected: str) -> str:
        if not self.tokens or (expected and self.tokens[0].lower() not in expected):
            raise self.error()
        return self.tokens.popleft()

    def starts_with(self, *expected: str) -> bool:
        return [token.lower() for token in islice(self.tokens, len(expected))] == [*expected]

    def fields(self, end: str | None) -> pa.DataType:
        kinds: dict[str, pa.DataType] = {}
        while True:
            name = self.take()
            if name in kinds:
                raise INVALID_SCHEMA(f"In the schema {self._text[:200]!r}, the field {name} is there twice; rename one")
            if self.starts_with(":"):
                self.take()
            kinds[name] = self._inner()
            for words in ("not", "null"), ("comment",):
                if self.starts_with(*words):
                    self.take(), self.take()
            if not self.tokens or self.tokens[0] == end:
                return pa.struct(list(kinds.items()))
            self.take(",")

    def type(self) -> pa.DataType:
        name = self.take().lower()
        if name == "array":
            self.take("<")
            kind = array_of(self._inner())
        elif name == "map":
            self.take("<")
            if self.take().lower() != "string":
                raise INVALID_SCHEMA("The keys of a map in JSON are strings; write map<string, ...>")
            self.take(",")
            kind = pa.map_(pa.string(), self._inner())
        elif name == "struct":
            self.take("<")
            kind = self.fields(end=">")
        elif name in {"decimal", "dec", "numeric"}:
            return self._decimal()
        elif name in _NAMES:
            return _NAMES[name]
        else:
            self.tokens.appendleft(name)
            raise self.error()
        self.take(">")
        return kind

    def _inner(self) -> pa.DataType:
        with self._limits.level() if self._limits else nullcontext():
            return self.type()

    def _decimal(self) -> pa.DataType:
        if not self.starts_with("("):
            return pa.decimal128(10, 0)
        self.take()
        try:
            precision, scale = int(self.take()), 0
            if self.take(",", ")") == ",":
                scale = int(self.take())
                self.take(")")
        except ValueError:
            raise self.error() from None
        if not 1 <= precision <= 38 or scale > precision:
            raise INVALID_SCHEMA(
                f"decimal({precision},{scale}) is no type: the precision is 1 to 38 and the scale at most that; "
                "correct the schema"
            )
        return pa.decimal128(precision, scale)
