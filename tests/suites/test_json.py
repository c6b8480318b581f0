"""JSONTestSuite's documents, next to the decoder of the format json and to Spark's from_json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_zkafka.formats.json import parse
from tests.support.public_suites import json_suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TYPES = ("array<string>", "map<string,string>", "struct<a: string, min: double, title: string>")


@pytest.fixture(scope="module")
def documents() -> dict[str, bytes]:
    """The documents by the names of their files."""
    return {file.name: file.read_bytes() for file in json_suite()}


def decoded(kind: str, documents: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, str]]:
    """Decode documents of these names. Returns the values, and the reasons of malformed records."""
    schema = parse(kind)
    found = schema.decoder(None, schema.type).decode(pa.array(list(documents.values()), pa.binary()))
    names = list(documents)
    malformed = {names[row]: why for row, why in found.malformed.items()}
    values = dict(zip(names, found.column.to_pylist(maps_as_pydicts="strict"), strict=True))
    return {name: value for name, value in values.items() if name not in malformed}, malformed


def form(document: bytes) -> str:
    """Return the first character: a brace for an object, a bracket for an array."""
    return document.decode("utf-8", "replace").strip()[:1]


def is_same(ours: Any, theirs: Any) -> bool:
    """Compare two values. Numbers as text keep their digits, and Spark writes some of them as a double's text."""
    return bool(ours == theirs or numbers(ours) == numbers(theirs) is not None)


def numbers(value: Any) -> Any:
    """Return the numbers of an array or map of texts. None if there is another text."""
    try:
        return {k: float(v) for k, v in (value.items() if isinstance(value, dict) else enumerate(value))}
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize("kind", TYPES)
def test_invalid_documents(documents: dict[str, bytes], kind: str) -> None:
    """Documents that are no JSON are malformed records, and the reason says that they are no JSON."""
    invalid = {name: document for name, document in documents.items() if name.startswith("n_")}
    assert len(invalid) > 180
    values, malformed = decoded(kind, invalid)
    assert not values
    assert [name for name, why in malformed.items() if "the bytes are no JSON" not in why] == []


@pytest.mark.parametrize("kind", TYPES)
def test_doubtful_documents(documents: dict[str, bytes], kind: str) -> None:
    """Documents that a parser may refuse become a value or a malformed record, alone and next to valid documents."""
    doubtful = {name: document for name, document in documents.items() if not name.startswith("n_")}
    values, malformed = decoded(kind, doubtful)
    assert len(values) + len(malformed) == len(doubtful) > 120
    for name, document in doubtful.items():
        alone = decoded(kind, {name: document})
        assert alone == (
            {name: values[name]} if name in values else {},
            {name: malformed[name]} if name in malformed else {},
        )


def test_valid_documents(documents: dict[str, bytes], spark: SparkSession) -> None:
    """Valid documents have the values of from_json, and are malformed only if their form is not the type's."""
    from pyspark.sql.functions import from_json

    valid = {name: document for name, document in documents.items() if name.startswith("y_")}
    assert len(valid) > 90
    frame = spark.createDataFrame(
        [(name, document.decode()) for name, document in valid.items()], "name string, text string"
    )
    for kind in TYPES:
        opening = "[" if kind.startswith("array") else "{"
        rows = frame.select("name", from_json("text", kind).alias("value")).collect()
        theirs = {row["name"]: row["value"] for row in rows if form(valid[row["name"]]) == opening}
        values, malformed = decoded(kind, valid)
        assert {form(valid[name]) for name in malformed} == {form(valid[name]) for name in valid} - {opening, "n"}
        assert values.pop("y_structure_lonely_null.json") is None
        assert values.keys() == theirs.keys()
        expected = {name: value.asDict() if kind.startswith("struct") else value for name, value in theirs.items()}
        assert [(values[name], value) for name, value in expected.items() if not is_same(values[name], value)] == []


def test_repeated_names(documents: dict[str, bytes], spark: SparkSession) -> None:
    """If an object repeats a name, a map has its last value. Spark's has all of them, which `collect` hides."""
    from pyspark.sql.functions import from_json, map_entries

    kind, repeated = "map<string,string>", documents["y_object_duplicated_key.json"]
    values, _ = decoded(kind, {"repeated": repeated})
    assert values == {"repeated": {"a": "c"}}
    row = spark.createDataFrame([(repeated.decode(),)], "text string").select(map_entries(from_json("text", kind))).first()
    assert row is not None
    assert [tuple(entry) for entry in row[0]] == [("a", "b"), ("a", "c")]
