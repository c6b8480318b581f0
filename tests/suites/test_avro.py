"""Avro's own tests of schemas and their resolution, against our decoder.

Two packages of Apache Avro bring their tests: the Java library's jar of tests, and the Python library, which pip installs
into the cache. Their schemas are resolved pair by pair by Java's reader and by ours. Python's tests run with our decoder in
the place of theirs.
"""

from __future__ import annotations

import json
import subprocess
import unittest
import warnings
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats import avro
from pyspark_zkafka.formats.avro_types import AvroType, wider_kind
from pyspark_zkafka.testing import fetch_jars
from pyspark_zkafka.testing.jars import fetch_archive, find_java
from tests.support.documentation import ROOT
from tests.support.packages import package_folder

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("avro-suites"), pytest.mark.filterwarnings("ignore")]

JAVA_AVRO = "org.apache.avro:avro:1.12.0"  # the last version with a jar of its tests
PYTHON_AVRO = "1.12.1"
PEER = ROOT / "tests/support/AvroPeer.java"
JAVA_CLASSES = ("org.apache.avro.TestSchemas",)

ACCEPTED_NAMES = {
    '{"type": "fixed", "size": 314, "name": "dr. spaceman"}',
    '{"type": "enum", "name": "AVRO2174", "symbols": ["white space"]}',
    '{"type": "enum", "name": "int", "symbols": ["A", "B"]}',
}
"""Schemas that Avro refuses for their names. We read by them: names of other characters do no harm."""


@pytest.fixture(scope="module")
def suite() -> Iterator[SimpleNamespace]:
    """The modules of Python's Avro and of its tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(package_folder("avro", PYTHON_AVRO)))
        names = ("io", "errors", "schema", "compatibility", "test.test_io", "test.test_schema", "test.test_compatibility")
        yield SimpleNamespace(**{name.rpartition(".")[2]: import_module(f"avro.{name}") for name in names})


# --- Java's reader -----------------------------------------------------------------------------------------------------


class JavaResolution:
    """Java's view of some schemas: which ones it refuses, and what each reader gets from each writer's payloads."""

    def __init__(self, schemas: Iterable[str]) -> None:
        jars = [*fetch_jars(JAVA_AVRO), *fetch_archive(f"{JAVA_AVRO}:jar:tests").glob("*.jar")]
        lines = [json.dumps(json.loads(text)) if is_json(text) else text.replace("\n", " ") for text in schemas]
        command = [str(find_java()), "-cp", ":".join(map(str, jars)), str(PEER), *JAVA_CLASSES]
        done = subprocess.run(
            command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        valid, invalid, *rows = done.stdout.rstrip("\n").split("\n")
        self.texts: list[str] = json.loads(valid)
        self.invalid: list[str] = json.loads(invalid)
        self.payloads: dict[tuple[int, int], list[tuple[bytes, Any]]] = defaultdict(list)
        for writer, reader, payload, value in map(json.loads, rows):
            self.payloads[writer, reader].append((bytes.fromhex(payload), value))


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.fixture(scope="module")
def java(suite: SimpleNamespace) -> JavaResolution:
    """Java's resolution of the schemas in both packages' tests."""
    (jar,) = fetch_archive(f"{JAVA_AVRO}:jar:tests").glob("*.jar")
    with zipfile.ZipFile(jar) as files:
        schemas = [files.read(name).decode() for name in sorted(files.namelist()) if name.endswith(".avsc")]
    found = vars(suite.test_compatibility).values()
    schemas += [str(value) for value in found if isinstance(value, suite.schema.Schema)]
    schemas += [str(example) for example in suite.test_schema.VALID_EXAMPLES + suite.test_schema.INVALID_EXAMPLES]
    schemas += [schema for schema, _ in suite.test_io.SCHEMAS_TO_VALIDATE]
    return JavaResolution(schemas)


def test_valid_and_invalid_schemas(java: JavaResolution) -> None:
    """We parse the schemas that Java parses, and refuse the schemas that Java refuses, apart from three names."""
    for text in java.texts:
        avro.parse(text)
    assert len(java.texts) > 150
    assert {text for text in java.invalid if is_accepted(text)} == ACCEPTED_NAMES
    assert len(java.invalid) > 20


def is_accepted(text: str) -> bool:
    try:
        avro.parse(text)
    except OptionError:
        return False
    return True


def test_every_pair_of_schemas(java: JavaResolution) -> None:
    """A payload of each writer's schema has Java's value by each reader's schema, or both refuse it.

    There are two differences. We refuse bytes that are no UTF-8 for a string. We match enums of a union by their names
    without namespaces, as the specification says, where Java compares full names. Not compared: schemas of logical types,
    for which Java's reader returns plain numbers, and recursive schemas, which need a declared frame.
    """
    schemas = [avro.parse(text) for text in java.texts]
    is_left_out = ["logicalType" in text or not has_type(schema) for text, schema in zip(java.texts, schemas, strict=True)]
    counts = Counter[str]()
    for (writer, reader), payloads in java.payloads.items():
        if is_left_out[writer] or is_left_out[reader]:
            continue
        texts, root = (java.texts[writer], java.texts[reader]), schemas[reader].root
        ours = decoded(schemas[writer], schemas[reader], [payload for payload, _ in payloads])
        for (payload, theirs), (value, reason) in zip(payloads, ours, strict=True):
            if reason.endswith("is not UTF-8"):
                kind = "not UTF-8"
                assert "�" in json.dumps(theirs, ensure_ascii=False), (texts, payload)
            elif theirs is None and not reason:
                kind = "enum of another namespace"
                assert schemas[writer].root.kind == "enum", (texts, payload)
                assert root.kind == "union", (texts, payload)
                assert schemas[writer].root.name not in [branch.name for branch in root.branches], (texts, payload)
            else:
                kind = "refused" if reason else "decoded"
                assert (theirs is None) == bool(reason), (texts, payload, theirs, reason)
                if theirs is not None:
                    assert dicts(root, value) == expected(root, theirs[0]), (texts, payload)
            counts[kind] += 1
    assert counts["decoded"] > 2_500
    assert counts["refused"] > 25_000
    assert counts.keys() == {"decoded", "refused", "not UTF-8", "enum of another namespace"}


def has_type(schema: avro.AvroSchema) -> bool:
    """False for a recursive schema."""
    try:
        return schema.type is not None
    except OptionError:
        return False


def decoded(writer: avro.AvroSchema, reader: avro.AvroSchema, payloads: list[bytes]) -> list[tuple[Any, str]]:
    """Return the value of each payload, and the reason for which it is refused; empty for a value."""
    try:
        done = reader.decoder(writer, reader.type).decode(pa.array(payloads, pa.binary()))
    except OptionError as error:
        return [(None, str(error))] * len(payloads)
    return [(value, done.malformed.get(row, "")) for row, value in enumerate(done.column.to_pylist())]


def expected(avro_type: AvroType, value: Any) -> Any:
    """Return the value of a column for a plain value of Java."""
    kind = avro_type.kind
    if kind == "union":
        number, inner = value
        branch, values = avro_type.branches[number], avro_type.values
        if branch.kind == "null":
            return None
        if len(values) == 1:
            return expected(branch, inner)
        if (wider := wider_kind(values)) is not None:
            return float(inner) if wider == "double" else inner
        return {f"member{i}": expected(each, inner) if each is branch else None for i, each in enumerate(values)}
    if kind in ("bytes", "fixed"):
        return value.encode("iso-8859-1")
    if kind == "array":
        return [expected(avro_type.item, item) for item in value]
    if kind == "map":
        return {key: expected(avro_type.item, item) for key, item in value.items()}
    if kind == "record":
        return {field.name: expected(field.type, value[field.name]) for field in avro_type.fields}
    return value


def dicts(avro_type: AvroType, value: Any) -> Any:
    """Return a value of a column with its maps as dicts."""
    kind, values = avro_type.kind, avro_type.values
    if value is None or (kind == "union" and wider_kind(values) is not None):
        return value
    if kind == "union" and len(values) == 1:
        return dicts(values[0], value)
    if kind == "union":
        return {name: dicts(branch, inner) for branch, (name, inner) in zip(values, value.items(), strict=True)}
    if kind == "array":
        return [dicts(avro_type.item, item) for item in value]
    if kind == "map":
        return {key: dicts(avro_type.item, item) for key, item in value}
    if kind == "record":
        return {field.name: dicts(field.type, value[field.name]) for field in avro_type.fields}
    return value


# --- Python's tests ----------------------------------------------------------------------------------------------------

_NUMBER = "the type is a number in Spark"
_RECURSIVE = "a recursive schema needs a declared frame"
_NO_UTF8 = "the package reads the default as UTF-8; by the specification, each byte has a character"
DIFFERENT = {
    "io_round_trip int time-millis": _NUMBER,
    "io_round_trip record Lisp": _RECURSIVE,
    "io_round_trip record record": _RECURSIVE,
    "io_round_trip record ns.long": _RECURSIVE,
    "check_default_value bytes": _NO_UTF8,
    "check_default_value fixed F": _NO_UTF8,
    "check_default_value float": "the package does not round the default 1.1 to a float",
}
"""Tests of the Python library that fail with our decoder, and why."""

PER_VALUE = {"missing_enum_symbols", "missing_union_branch"}
"""Incompatibilities that may refuse only some values, as in Java: other records can be read."""


def plain(avro_type: AvroType, value: Any) -> Any:
    """Return a value of a column as Python's reader returns it: without the members of unions, and with maps as dicts."""
    values = avro_type.values
    if value is None or avro_type.kind != "union" or wider_kind(values) is not None:
        found = dicts(avro_type, value)
    elif len(values) == 1:
        return plain(values[0], value)
    else:
        [(branch, inner)] = [(b, i) for b, i in zip(values, value.values(), strict=True) if i is not None]
        return plain(branch, inner)
    return {f.name: plain(f.type, value[f.name]) for f in avro_type.fields} if avro_type.kind == "record" else found


def our_reader(suite: SimpleNamespace) -> type:
    """Return a class with the interface of Python's reader, which decodes by our decoder."""

    class Refused(suite.errors.SchemaResolutionException, suite.errors.InvalidAvroBinaryEncoding):
        """The tests expect the one or the other."""

    class Reader:
        def __init__(self, writer: Any, reader: Any = None) -> None:
            self._writer, self._reader = (avro.parse(str(schema)) for schema in (writer, reader or writer))

        def read(self, decoder: Any) -> Any:
            [(value, reason)] = decoded(self._writer, self._reader, [decoder.reader.read()])
            if reason:
                raise Refused(reason)
            return plain(self._reader.root, value)

    return Reader


def run_tests(cases: unittest.TestSuite) -> tuple[int, dict[str, str]]:
    """Run tests, and return how many ran, and each failure's error by method and schema."""
    result = unittest.TestResult()
    cases.run(result)
    return result.testsRun, {name_of(case): error for case, error in [*result.failures, *result.errors]}


def name_of(case: Any) -> str:
    schema = getattr(case, "test_schema", getattr(case, "field_type", ""))
    if is_json(str(schema)):
        schema = json.loads(str(schema))
    if isinstance(schema, dict):
        name = schema.get("logicalType", ".".join(schema[key] for key in ("namespace", "name") if key in schema))
        schema = f"{schema['type']} {name}"
    return f"{case.id().rpartition('.')[2]} {schema}".strip()


def test_python_reader(suite: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's tests of its reader pass with our decoder: values, promotions, defaults, projections and refusals."""
    monkeypatch.setattr(suite.io, "DatumReader", our_reader(suite))
    with warnings.catch_warnings(record=True):  # xdist fails on warnings of the package's own classes
        count, failed = run_tests(suite.test_io.load_tests(unittest.defaultTestLoader, None, ""))
    assert count > 140
    assert failed.keys() == DIFFERENT.keys(), failed


def test_python_compatibility(suite: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python's tests of compatibility, we resolve the pairs of schemas that are compatible, and refuse the other pairs.

    A record's own name makes no difference to us, as to Java's reader. Incompatible symbols and branches of unions may
    refuse only some values.
    """
    verdicts = []

    class Checker(suite.compatibility.ReaderWriterCompatibilityChecker):
        def get_compatibility(self, reader: Any, writer: Any, *rest: Any) -> Any:
            result = super().get_compatibility(reader, writer, *rest)
            if not rest:
                found = {kind.name for kind in result.incompatibilities}
                if reader.type == writer.type == "record" and reader.name != writer.name:
                    found.discard("name_mismatch")
                verdicts.append((str(reader), str(writer), found))
            return result

    monkeypatch.setattr(suite.test_compatibility, "ReaderWriterCompatibilityChecker", Checker)
    _, failed = run_tests(unittest.defaultTestLoader.loadTestsFromModule(suite.test_compatibility))
    assert not failed
    assert len(verdicts) > 130
    for reader, writer, incompatibilities in verdicts:
        schemas = avro.parse(writer), avro.parse(reader)
        is_refused = decoded(*schemas, [b""])[0][1].startswith("[INVALID_SCHEMA]")
        per_value = incompatibilities if schemas[0].root.kind == "union" else PER_VALUE
        wrong = incompatibilities if is_refused else incompatibilities - per_value
        assert is_refused == bool(wrong), (reader, writer, incompatibilities)
