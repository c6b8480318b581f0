"""Formats of keys and values on real brokers and a real schema registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pyspark_zkafka.testing import LocalSchemaRegistry
from tests.support.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]

FIRST = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "string"], "default": null}]}"""
SECOND = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "amount", "type": "double", "default": 0.5},
    {"name": "customer", "type": ["null", "string"], "default": null}]}"""
MESSAGE = (
    'syntax = "proto3"; package shop; message Other { int32 x = 1; } message Order { int64 id = 1; string customer = 2; }'
)
DOCUMENT = """{"title": "Order", "type": "object",
    "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}}}"""

BAD = b"caf\xe9"
REASON = "value: byte 3 is not UTF-8"


@pytest.fixture
def bad_text(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic with three values: text, bytes that are not text, and a tombstone."""
    topic = new_topic()
    zkafka_cluster.produce(topic, [{"key": b"a", "value": "é".encode()}, {"value": BAD}, {"key": b"c", "value": None}])
    return topic


class TestText:
    """The format string."""

    def test_failing(self, read: Read, bad_text: str) -> None:
        """By default, a record that is not UTF-8 fails the read, with its offset and the reason."""
        frame = read({"subscribe": bad_text, "value.format": "string"})
        assert frame.schema["value"].simpleString() == "value:string"
        assert frame.columns[-1] == "timestampType"
        expected = rf"MALFORMED_RECORD.*{bad_text}-0 at offset 1 .*value\.format=string; {REASON}"
        with pytest.raises(Exception, match=expected):
            frame.collect()

    def test_permissive(self, read: Read, bad_text: str) -> None:
        """With PERMISSIVE, the frame has the bytes and the reason of an undecodable record."""
        frame = read({"subscribe": bad_text, "value.format": "string", "mode": "permissive"})
        assert frame.columns[-2:] == ["_corrupt_record", "_corrupt_reason"]
        rows = frame.select("key", "value", "_corrupt_record", "_corrupt_reason").collect()
        assert [tuple(row) for row in rows] == [
            (b"a", "é", None, None),
            (None, None, BAD, REASON),
            (b"c", None, None, None),
        ]

    def test_dropping(self, read: Read, bad_text: str) -> None:
        """With DROPMALFORMED, the frame lacks the undecodable record and keeps tombstones."""
        options = {"subscribe": bad_text, "value.format": "string", "mode": "DROPMALFORMED"}
        frame = read(options, schema="offset bigint, value string")
        assert [tuple(row) for row in frame.collect()] == [(0, "é"), (2, None)]

    @pytest.mark.only_on("spark")
    def test_a_view_in_sql(self, spark: SparkSession, zookeeper: dict[str, str], bad_text: str) -> None:
        """SQL creates a view with formats."""
        options = {
            **zookeeper,
            "subscribe": bad_text,
            "value.format": "string",
            "key.format": "string",
            "mode": "PERMISSIVE",
        }
        listed = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
        spark.sql(f"CREATE OR REPLACE TEMP VIEW formats USING zkafka OPTIONS ({listed})")
        rows = spark.sql("SELECT key, value FROM formats WHERE _corrupt_reason IS NULL ORDER BY offset").collect()
        assert [tuple(row) for row in rows] == [("a", "é"), ("c", None)]

    def test_a_schema_that_does_not_fit(self, read: Read, bad_text: str) -> None:
        """A declared schema that does not fit the format raises one error with all problems."""
        declared = "value struct<a int>, key int, _corrupt_reason string"
        with pytest.raises(Exception, match=r"INVALID_SCHEMA.*value cannot be.*key cannot be.*only mode=PERMISSIVE has it"):
            read({"subscribe": bad_text, "value.format": "string"}, schema=declared).collect()

    @pytest.mark.only_on("spark")
    def test_a_stream_keeps_bad_records(
        self,
        stream: Callable[..., Stream],
        spark: SparkSession,
        zookeeper: dict[str, str],
        bad_text: str,
        new_topic: NewTopic,
    ) -> None:
        """A function for micro-batches sends bad records to a dead-letter topic, and passes good ones on."""
        dead = new_topic()

        def sort_out(frame: Any, number: int) -> None:
            reasons = "array(named_struct('key', 'reason', 'value', cast(_corrupt_reason as binary))) as headers"
            bad = frame.where("_corrupt_reason is not null").selectExpr("key", "_corrupt_record as value", reasons)
            bad.write.format("zkafka").options(**zookeeper, topic=dead).mode("append").save()

        query = stream(
            {"subscribe": bad_text, "value.format": "string", "mode": "PERMISSIVE", "startingOffsets": "earliest"}
        )
        query.in_batch = sort_out
        query.run()
        assert [row.value for row in query.rows if row._corrupt_reason is None] == ["é", None]
        letters = spark.read.format("zkafka").options(**zookeeper, subscribe=dead, includeHeaders="true").load().collect()
        assert [(row.value, row.headers[0].value) for row in letters] == [(BAD, REASON.encode())]


def test_no_format(read: Read, bad_text: str) -> None:
    """Without a format, values are bytes by default, and text if the schema declares it."""
    assert [row.value for row in read({"subscribe": bad_text}).collect()] == ["é".encode(), BAD, None]
    with pytest.raises(Exception, match="MALFORMED_UTF8"):
        read({"subscribe": bad_text}, schema="value string").collect()


@pytest.fixture
def registry(zkafka_schema_registry: LocalSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the real registry."""
    with SchemaRegistryClient({"url": zkafka_schema_registry.url}) as client:
        yield client


@pytest.fixture
def confluent(zkafka_schema_registry: LocalSchemaRegistry) -> dict[str, str]:
    """Options for Avro in Confluent's format."""
    return {"value.format": "avro-confluent", "schema.registry.url": zkafka_schema_registry.url}


class Orders:
    """A topic with orders written by Confluent's serializer, with two versions of the schema."""

    def __init__(self, cluster: LocalCluster, registry: SchemaRegistryClient, topic: str) -> None:
        self.topic = topic
        self._cluster = cluster
        self._registry = registry

    def payloads(self, schema: str, *values: dict[str, Any] | None) -> list[bytes | None]:
        """Serialize values, and register the schema."""
        serialize = AvroSerializer(self._registry, schema)
        context = SerializationContext(self.topic, MessageField.VALUE)
        return [None if value is None else serialize(value, context) for value in values]

    def produce(self, schema: str, *values: dict[str, Any] | None) -> None:
        """Append records."""
        self._cluster.produce(self.topic, [{"value": payload} for payload in self.payloads(schema, *values)])


@pytest.fixture
def orders(zkafka_cluster: LocalCluster, registry: SchemaRegistryClient, new_topic: NewTopic) -> Orders:
    """A topic with one order of the first version."""
    made = Orders(zkafka_cluster, registry, new_topic())
    made.produce(FIRST, {"id": 1, "customer": "a"})
    return made


def values(frame: DataFrame) -> list[Any]:
    return [None if row.value is None else row.value.asDict() for row in frame.orderBy("offset").collect()]


class TestReadsWithARegistry:
    """Reads of records that Confluent's serializers wrote."""

    def test_versions(self, read: Read, orders: Orders, confluent: dict[str, str]) -> None:
        """Records of two schema versions are read with the latest version, or with the one given."""
        orders.produce(SECOND, {"id": 2, "amount": 2.0, "customer": None}, None)
        orders.produce(FIRST, {"id": 3, "customer": "c"})
        latest = read({"subscribe": orders.topic, **confluent})
        assert latest.schema["value"].simpleString() == "value:struct<id:bigint,amount:double,customer:string>"
        assert values(latest) == [
            {"id": 1, "amount": 0.5, "customer": "a"},
            {"id": 2, "amount": 2.0, "customer": None},
            None,
            {"id": 3, "amount": 0.5, "customer": "c"},
        ]
        first = read({"subscribe": orders.topic, **confluent, "value.schema.version": "1"})
        assert values(first) == [{"id": 1, "customer": "a"}, {"id": 2, "customer": None}, None, {"id": 3, "customer": "c"}]

    @pytest.mark.only_on("spark")
    def test_a_frame_keeps_its_type(self, read: Read, orders: Orders, confluent: dict[str, str]) -> None:
        """A frame keeps the columns of the schema that was latest when it was created."""
        frame = read({"subscribe": orders.topic, **confluent})
        orders.produce(SECOND, {"id": 2, "amount": 2.0, "customer": "b"})
        assert values(frame) == [{"id": 1, "customer": "a"}, {"id": 2, "customer": "b"}]

    def test_projection(self, read: Read, orders: Orders, confluent: dict[str, str]) -> None:
        """A declared schema selects some fields, in any order; an unknown field is refused."""
        frame = read({"subscribe": orders.topic, **confluent}, schema="offset bigint, value struct<customer: string>")
        assert values(frame) == [{"customer": "a"}]
        with pytest.raises(Exception, match=r"INVALID_SCHEMA.*no field value\.price; there are id, customer"):
            read({"subscribe": orders.topic, **confluent}, schema="value struct<price: double>").collect()

    def test_unusable_records(
        self, read: Read, orders: Orders, confluent: dict[str, str], zkafka_cluster: LocalCluster
    ) -> None:
        """With PERMISSIVE, records without a known schema keep their bytes and the reason."""
        bad = [b"\0\x7f\xff\xff\xff\x02", b"{}", b"\0\0"]
        zkafka_cluster.produce(orders.topic, [{"value": payload} for payload in bad])
        frame = read({"subscribe": orders.topic, **confluent, "mode": "PERMISSIVE"}).orderBy("offset")
        found = [tuple(row) for row in frame.select("_corrupt_record", "_corrupt_reason").collect()]
        assert found == [
            (None, None),
            (bad[0], "value: the registry has no schema id 2147483647"),
            (bad[1], "value: the payload has 2 bytes, and the schema id alone takes 5"),
            (bad[2], "value: the payload has 2 bytes, and the schema id alone takes 5"),
        ]

    def test_several_topics(
        self, read: Read, orders: Orders, confluent: dict[str, str], registry: SchemaRegistryClient, new_topic: NewTopic
    ) -> None:
        """Topics with different schemas need value.subject."""
        other = new_topic()
        registry.register_schema(f"{other}-value", Schema(SECOND))
        both = {"subscribe": f"{orders.topic},{other}", **confluent}
        with pytest.raises(Exception, match=r"UNKNOWN_COLUMN_TYPE.*set value\.subject"):
            read(both).printSchema()
        assert values(read({**both, "value.subject": f"{orders.topic}-value"})) == [{"id": 1, "customer": "a"}]

    def test_an_unknown_subject(self, read: Read, confluent: dict[str, str], new_topic: NewTopic) -> None:
        """A topic without a schema raises an error that names the subject, when the frame is created."""
        topic = new_topic()
        with pytest.raises(Exception, match=rf"UNKNOWN_SUBJECT.*no latest version of subject {topic}-value"):
            read({"subscribe": topic, **confluent}).printSchema()

    @pytest.mark.long
    def test_no_registry(self, read: Read, confluent: dict[str, str], new_topic: NewTopic) -> None:
        """An unreachable registry raises an error that names its address."""
        given = {"subscribe": new_topic(), **confluent, "schema.registry.url": "http://127.0.0.1:1"}
        with pytest.raises(Exception, match=r"SCHEMA_REGISTRY_UNAVAILABLE.*http://127\.0\.0\.1:1 did not return"):
            read(given).printSchema()

    @pytest.mark.only_on("spark")
    def test_a_stream_keeps_its_type(
        self, stream: Callable[..., Stream], orders: Orders, confluent: dict[str, str]
    ) -> None:
        """A running stream decodes records of a newer schema version with the version that was latest at its start."""
        query = stream({"subscribe": orders.topic, "startingOffsets": "earliest", **confluent})
        query.begin()
        query.wait_for(1)
        orders.produce(SECOND, {"id": 2, "amount": 2.0, "customer": "b"})
        query.wait_for(2)
        assert [row.value.asDict() for row in query.rows] == [{"id": 1, "customer": "a"}, {"id": 2, "customer": "b"}]

    @pytest.mark.long
    @pytest.mark.only_on("spark")
    def test_a_stream_survives_its_registry(
        self, stream: Callable[..., Stream], zkafka_cluster: LocalCluster, new_topic: NewTopic
    ) -> None:
        """A running query with known schemas continues without the registry."""
        with LocalSchemaRegistry() as own, SchemaRegistryClient({"url": own.url}) as client:
            orders = Orders(zkafka_cluster, client, new_topic())
            first, *others = orders.payloads(FIRST, *({"id": number, "customer": None} for number in range(1, 4)))
            zkafka_cluster.produce(orders.topic, [{"value": first}])
            options = {"value.format": "avro-confluent", "schema.registry.url": own.url, "startingOffsets": "earliest"}
            query = stream({"subscribe": orders.topic, **options})
            query.begin()
            query.wait_for(1)
            own.close()
            for number, payload in enumerate(others, 2):
                zkafka_cluster.produce(orders.topic, [{"value": payload}])
                query.wait_for(number, timeout_s=25)  # shorter than the patience with the registry
        assert [row.value.id for row in query.rows] == [1, 2, 3]


class TestWritesWithARegistry:
    """Writes with a registry."""

    def test_confluents_deserializer(
        self, spark: SparkSession, read: Read, zookeeper: dict[str, str], confluent: dict[str, str],
        registry: SchemaRegistryClient, new_topic: NewTopic,
    ) -> None:  # fmt: skip
        """Confluent's deserializer and zkafka read what a write encoded; null becomes a tombstone."""
        topic = new_topic()
        frame = spark.sql("SELECT 'k' AS key, named_struct('id', 1L, 'customer', 'a') AS value UNION ALL SELECT 'n', null")
        frame.write.format("zkafka").options(**zookeeper, **confluent, topic=topic).mode("append").save()
        deserialize = AvroDeserializer(registry)
        context = SerializationContext(topic, MessageField.VALUE)
        raw = {bytes(row.key): row.value and bytes(row.value) for row in read({"subscribe": topic}).collect()}
        assert raw[b"n"] is None
        assert deserialize(raw[b"k"], context) == {"id": 1, "customer": "a"}
        assert len(registry.get_versions(f"{topic}-value")) == 1
        found = read({"subscribe": topic, **confluent}).where("value is not null")
        assert values(found) == [{"id": 1, "customer": "a"}]

    def test_bytes(
        self, spark: SparkSession, read: Read, zookeeper: dict[str, str], confluent: dict[str, str],
        registry: SchemaRegistryClient, zkafka_cluster: LocalCluster, new_topic: NewTopic,
    ) -> None:  # fmt: skip
        """Bytes that are a whole payload have no length, as from and for Confluent's client."""
        topic = new_topic()
        payload = AvroSerializer(registry, '"bytes"')(b"\x02ab", SerializationContext(topic, MessageField.VALUE))
        zkafka_cluster.produce(topic, [{"value": payload}])
        frame = spark.sql("SELECT CAST('hello' AS BINARY) AS value")
        frame.write.format("zkafka").options(**zookeeper, **confluent, topic=topic).mode("append").save()
        raw = [bytes(row.value) for row in read({"subscribe": topic}).orderBy("offset").collect()]
        deserialize = AvroDeserializer(registry)
        found = [deserialize(value, SerializationContext(topic, MessageField.VALUE)) for value in raw]
        decoded = [bytes(row.value) for row in read({"subscribe": topic, **confluent}).orderBy("offset").collect()]
        assert decoded == found == [b"\x02ab", b"hello"]

    @pytest.mark.parametrize("name", ["avro", "protobuf", "json"])
    def test_round_trip(
        self, spark: SparkSession, read: Read, zookeeper: dict[str, str], zkafka_schema_registry: LocalSchemaRegistry,
        new_topic: NewTopic, name: str,
    ) -> None:  # fmt: skip
        """Values written with a given schema are read back unchanged with the registered one, next to formatted keys."""
        topic = new_topic(partitions=3)
        schema = {"avro": FIRST, "protobuf": MESSAGE, "json": DOCUMENT}[name]
        message = {"value.schema.message": "shop.Order"} if name == "protobuf" else {}
        formats = {"value.format": f"{name}-confluent", "schema.registry.url": zkafka_schema_registry.url, **message}
        made = spark.range(1, 21).selectExpr(
            "string(id) AS key", "named_struct('id', id, 'customer', concat('c', id)) AS value"
        )
        written = made.write.format("zkafka").options(**zookeeper, **formats, topic=topic, **{"key.format": "string"})
        written.option("value.schema", schema).mode("append").save()
        frame = read({"subscribe": topic, **formats, "key.format": "string"})
        rows = {row.key: row.value.asDict() for row in frame.collect()}
        assert rows == {str(n): {"id": n, "customer": f"c{n}"} for n in range(1, 21)}

    def test_topics_of_rows(
        self, spark: SparkSession, read: Read, zookeeper: dict[str, str], confluent: dict[str, str],
        registry: SchemaRegistryClient, new_topic: NewTopic,
    ) -> None:  # fmt: skip
        """If rows name their topics, each topic's subject gets the schema."""
        topics = [new_topic(), new_topic()]
        rows = [(topic, (number,)) for number, topic in enumerate(topics)]
        frame = spark.createDataFrame(rows, "topic string, value struct<id: bigint>")
        frame.write.format("zkafka").options(**zookeeper, **confluent).mode("append").save()
        for number, topic in enumerate(topics):
            assert values(read({"subscribe": topic, **confluent})) == [{"id": number}]
            assert registry.get_versions(f"{topic}-value") == [1]

    @pytest.mark.only_on("spark")
    def test_exactly_once(
        self, spark: SparkSession, read: Read, zookeeper: dict[str, str], confluent: dict[str, str], new_topic: NewTopic
    ) -> None:
        """A repeated job encodes the same bytes, and writes nothing again."""
        topic = new_topic(partitions=2)
        frame = spark.range(10).selectExpr("named_struct('id', id) AS key", "named_struct('id', id) AS value")
        once = {"deliveryGuarantee": "exactly-once", "writerName": f"job-{topic}", "batchId": "1", "topic": topic}
        for _ in range(2):
            written = frame.write.format("zkafka").options(**zookeeper, **confluent, **once)
            written.option("key.format", "avro-confluent").mode("append").save()
        found = read({"subscribe": topic, **confluent, "key.format": "avro-confluent"})
        assert sorted(row.value.id for row in found.collect()) == list(range(10))

    def test_a_column_that_does_not_fit(
        self, spark: SparkSession, zookeeper: dict[str, str], confluent: dict[str, str], new_topic: NewTopic
    ) -> None:
        """A column that its schema does not accept is refused before any task runs."""
        frame = spark.sql("SELECT named_struct('id', 'x') AS value")
        written = frame.write.format("zkafka").options(**zookeeper, **confluent, topic=new_topic())
        with pytest.raises(Exception, match=r"INVALID_SCHEMA.*The column value cannot be written.*id"):
            written.option("value.schema", FIRST).mode("append").save()
