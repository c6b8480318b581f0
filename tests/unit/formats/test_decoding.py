"""Frames with formats: columns, schemas that give the types, and decoding of batches in each mode."""

from __future__ import annotations

import logging
import pickle

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError, UnreadableRecord
from pyspark_zkafka.formats import decoding
from pyspark_zkafka.formats.decoding import BatchDecoder, PinnedFormats, decoded_schema, pin_formats
from pyspark_zkafka.formats.registry import StoredSchema
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.records import COLUMNS, RAW_HEADERS
from pyspark_zkafka.options.batch import parse_read
from tests.support import fake_format

READ = {"kafka.bootstrap.servers": "k:9092", "subscribe": "t"}
CONFLUENT = {"value.format": "avro-confluent", "schema.registry.url": "http://registry:8081"}
T0 = TopicPartition("t", 0)


class Subjects:
    """Subjects and their versions, oldest first."""

    def __init__(self, **subjects: list[str]) -> None:
        self.subjects = subjects

    def subject(self, subject: str, version: int | None = None) -> StoredSchema:
        """Return a version of a subject."""
        found = self.subjects[subject.replace("-", "_")]
        return StoredSchema(found[-1 if version is None else version - 1], "AVRO", id=7)


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_format.use(monkeypatch)


def subjects(monkeypatch: pytest.MonkeyPatch, **found: list[str]) -> None:
    monkeypatch.setattr(decoding, "open_registry", lambda options: Subjects(**found))


def pinned(**options: str) -> PinnedFormats:
    given = {name.replace("_", "."): value for name, value in options.items()}
    found = pin_formats(parse_read({**READ, **given}))
    assert found is not None
    return pickle.loads(pickle.dumps(found))  # type: ignore[no-any-return]


def batch(*rows: tuple[int, bytes | None, bytes | None]) -> pa.RecordBatch:
    """Return rows of offset, key and value."""
    columns = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(column, type) for column, type in zip(columns, (pa.int64(), pa.binary(), pa.binary()), strict=True)],
        ["offset", "key", "value"],
    )


BATCH = ((5, b"1", b"1"), (6, b"2", b"bad"), (7, None, None), (9, b"bad", b"bad"), (11, b"bad", b"4"))
NUMBERS = {"value_format": "avro", "value_schema": "x", "key_format": "avro", "key_schema": "k"}


def decoder(schema: str, mode: str) -> BatchDecoder:
    types = {"key": pa.struct([("k", pa.int64())]), "value": pa.struct([("x", pa.int64())])}
    types |= {"_corrupt_record": pa.binary(), "_corrupt_reason": pa.string(), "offset": pa.int64()}  # type: ignore[dict-item]
    return BatchDecoder(pinned(**NUMBERS, mode=mode), pa.schema([(name, types[name]) for name in schema.split()]))


class TestSchemas:
    """Schemas that give the types of columns."""

    def test_no_formats(self) -> None:
        """Without formats, no schemas are looked up."""
        assert pin_formats(parse_read(READ)) is None

    def test_given(self) -> None:
        """A schema in the options needs no registry."""
        assert pinned(value_format="avro", value_schema="x").types == {"value": pa.struct([("x", pa.int64())])}

    def test_text_that_cannot_be_parsed(self) -> None:
        """A schema that cannot be parsed is an error that names the option."""
        with pytest.raises(OptionError, match=r"INVALID_SCHEMA\] value\.schema cannot be used: 'a b' is no name"):
            pinned(value_format="avro", value_schema="a b")

    def test_latest_and_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The subject's latest version, or the version in the options, gives the type."""
        subjects(monkeypatch, t_value=["a", "b"], other=["c"])
        given = parse_read({**READ, **CONFLUENT, "value.schema.version": "1"})
        for options, name in ((parse_read({**READ, **CONFLUENT}), "b"), (given, "a")):
            found = pin_formats(options)
            assert found is not None
            assert found.types == {"value": pa.struct([(name, pa.int64())])}
        named = pin_formats(parse_read({**READ, **CONFLUENT, "value.subject": "other"}))
        assert named is not None
        assert named.types == {"value": pa.struct([("c", pa.int64())])}

    def test_columns_that_are_not_declared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A column that a declared frame lacks needs no schema."""
        subjects(monkeypatch, t_key=["a"])
        both = {**READ, **CONFLUENT, "key.format": "avro-confluent"}
        found = pin_formats(parse_read(both), ["key", "offset"])
        assert found is not None
        assert found.types == {"key": pa.struct([("a", pa.int64())])}

    def test_several_topics(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All topics need the same schema, or the options must name one."""
        subjects(monkeypatch, t_value=["a"], u_value=["a"], v_value=["b"])
        assert pin_formats(parse_read({**READ, **CONFLUENT, "subscribe": "t,u"})) is not None
        assigned = {name: value for name, value in READ.items() if name != "subscribe"}
        with pytest.raises(OptionError, match=r"subject t-value has another schema than v-value; set value\.subject"):
            pin_formats(parse_read({**assigned, **CONFLUENT, "assign": '{"v": [0], "t": [1]}'}))


class TestFrames:
    """Columns of frames."""

    def test_columns(self) -> None:
        """Decoded columns have the types of their schemas, and PERMISSIVE adds two columns."""
        frame = decoded_schema(pinned(value_format="avro", value_schema="x", mode="PERMISSIVE"), include_headers=True)
        assert frame.field("value").type == pa.struct([("x", pa.int64())])
        assert frame.field("key").type == pa.binary()
        assert frame.names[-3:] == ["headers", "_corrupt_record", "_corrupt_reason"]

    def test_unknown_type(self) -> None:
        """JSON without a schema needs a declared type."""
        with pytest.raises(OptionError, match=r"UNKNOWN_COLUMN_TYPE.*set value\.schema, or declare it"):
            decoded_schema(pinned(value_format="json"), include_headers=False)
        declared = pa.schema([("value", pa.struct([("x", pa.int64())]))])
        found = BatchDecoder(pinned(value_format="json"), declared).decode(batch((0, None, b"3")), T0)
        assert found.to_pylist() == [{"value": {"x": 3}}]


class TestModes:
    """Records that cannot be decoded."""

    def test_failing(self) -> None:
        """FAILFAST reports the first malformed record."""
        with pytest.raises(UnreadableRecord) as caught:
            decoder("value key", "FAILFAST").decode(batch(*BATCH), T0)
        expected = "The record of t-0 at offset 6 does not have value.format=avro; value: b'bad' is no number. Correct"
        assert expected in str(caught.value)
        assert caught.value.parameters == {"column": "value", "partition": T0, "offset": 6}

    def test_permissive(self) -> None:
        """PERMISSIVE returns null, the bytes and the reason, and reports the value before the key."""
        found = decoder("_corrupt_reason value offset _corrupt_record key", "PERMISSIVE").decode(batch(*BATCH), T0)
        reason = "value: b'bad' is no number"
        expected = [
            (None, {"x": 1}, 5, None, {"k": 1}),
            (reason, None, 6, b"bad", {"k": 2}),
            (None, None, 7, None, None),
            (reason, None, 9, b"bad", None),
            ("key: b'bad' is no number", {"x": 4}, 11, b"bad", None),
        ]
        assert [tuple(row.values()) for row in found.to_pylist()] == expected
        assert found.schema.names == ["_corrupt_reason", "value", "offset", "_corrupt_record", "key"]

    def test_dropping(self, caplog: pytest.LogCaptureFixture) -> None:
        """DROPMALFORMED leaves malformed records out, and warns once per task."""
        dropping = decoder("offset key value", "DROPMALFORMED")
        with caplog.at_level(logging.WARNING), dropping.reporting():
            found = [row["offset"] for _ in range(2) for row in dropping.decode(batch(*BATCH), T0).to_pylist()]
        assert found == [5, 7, 5, 7]
        (warning,) = caplog.messages
        assert warning == (
            "6 record(s) that cannot be decoded are left out, because mode is DROPMALFORMED. The first is t-0 at offset 6: "
            "value: b'bad' is no number"
        )

    def test_a_column_that_is_not_read(self) -> None:
        """A column that the frame lacks is not decoded."""
        found = decoder("offset key", "FAILFAST").decode(batch((5, b"1", b"bad")), T0)
        assert found.to_pylist() == [{"offset": 5, "key": {"k": 1}}]
        assert decoder("offset", "DROPMALFORMED").decode(batch((5, b"bad", b"bad")), T0).to_pylist() == [{"offset": 5}]

    def test_raw_columns(self) -> None:
        """The raw columns have keys and values as bytes, and the offset for error messages."""
        assert decoder("value _corrupt_record", "PERMISSIVE").raw.names == ["value", "offset"]
        assert decoder("offset key", "FAILFAST").raw.types == [pa.int64(), pa.binary()]

    def test_headers_for_ids(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Headers are added for the ids of schemas, and then their names may be any bytes."""
        subjects(monkeypatch, t_value=["x"])
        found, struct = pinned(**{k.replace(".", "_"): v for k, v in CONFLUENT.items()}), pa.struct([("x", pa.int64())])
        own = BatchDecoder(found, pa.schema([("value", struct)]))
        names = [{"key": b"\xff", "value": b""}, {"key": b"__value_schema_id", "value": b"\0\0\0\0\7"}]
        columns = [pa.array([b"\0\0\0\0\x075", b"6"]), pa.array([None, names], RAW_HEADERS), pa.array([1, 2])]
        decoded = own.decode(pa.record_batch(columns, ["value", "headers", "offset"]), T0)
        assert decoded.to_pylist() == [{"value": {"x": 5}}, {"value": {"x": 6}}]
        assert own.raw.field("headers").type == RAW_HEADERS
        asked = BatchDecoder(found, pa.schema([("value", struct), ("headers", COLUMNS["headers"][0])]))
        assert asked.raw.field("headers").type == COLUMNS["headers"][0]
