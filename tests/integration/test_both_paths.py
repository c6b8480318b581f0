"""One behaviour over both paths that records take: pure Python and compiled give the same rows and the same errors."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pyspark_zkafka.batch.split_reader import Identity, ReadPolicy, SplitReader
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kafka.consumer_properties import consumer_properties
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Listener, Split
from pyspark_zkafka.protocol.records import COLUMNS
from pyspark_zkafka.protocol.rows import outgoing
from pyspark_zkafka.transport.producer import producer_properties
from pyspark_zkafka.transport.select import open_consumer, open_producer
from pyspark_zkafka.write.task import plan_write, write_rows

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
TYPES = {name: types[0] for name, types in COLUMNS.items()}
KEPT = {"retention.ms": "-1"}
"""For records of years ago."""
WHEN_MS = 1_700_000_000_123
BEYOND_MS = 2**63 // 1000 + 1
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Failed:
    """An error as a user sees it."""

    kind: str
    condition: str
    message: str


def outcome(act: Callable[[bool], Any], native: bool) -> Any:
    """What comes of an action on one path: its result, or its error."""
    try:
        return act(native)
    except ZKafkaError as error:
        return Failed(type(error).__name__, error.condition, error.message)


def same(act: Callable[[bool], Any], shown: Callable[[Any], Any] = lambda found: found) -> Any:
    """The outcome of an action, once both paths have shown the same one."""
    python, compiled = (outcome(act, native) for native in (False, True))
    assert shown(compiled) == shown(python)
    return python


def unnumbered(found: Any) -> Any:
    """An error without its numbers, which depend on timing, and without the last word of the connection."""
    if not isinstance(found, Failed):
        return found
    text = re.sub(r"last error(?: of the connection)?: [^;]*[;)]", "last error;", found.message)
    return Failed(found.kind, found.condition, re.sub(r"\d+", "N", text))


def connection(servers: str, native: bool, kafka: Mapping[str, Any]) -> Connection:
    return Connection(None, servers, Listener(), kafka, native)


def schema(*names: str, **kinds: pa.DataType) -> pa.Schema:
    """Columns by name with their own types, then some with other types."""
    return pa.schema([*((name, TYPES[name]) for name in names), *kinds.items()])


ALL = schema(*TYPES)
VALUE = schema("offset", "value")


# --- Reading

PATIENT = ReadPolicy(poll_timeout_ms=20_000)


@dataclass(frozen=True)
class Range:
    """What to read, and how."""

    topic: str
    until: int
    start: int = 0
    columns: pa.Schema = ALL
    policy: ReadPolicy = PATIENT
    identity: Identity = "same"
    servers: str | None = None


def read_batches(cluster: LocalCluster, wanted: Range, kafka: Mapping[str, Any], native: bool) -> list[pa.RecordBatch]:
    """All batches of a range, by one path."""
    servers = wanted.servers or cluster.bootstrap_servers
    split = Split(TopicPartition(wanted.topic, 0), wanted.start, wanted.until, 0, 0, (0,), (servers,))
    how = connection(servers, native, kafka)
    with open_consumer(how, consumer_properties(how, servers, "g"), split, wanted.columns) as consumer:
        return list(SplitReader(split, consumer, wanted.policy, lambda: wanted.identity).batches())


def as_table(columns: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == columns
    return pa.Table.from_batches(batches, columns).combine_chunks()


class Read:
    """Reads a range of a cluster's topic by both paths."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def __call__(self, topic: str, until: int, shown: Callable[[Any], Any] = unnumbered, **how: Any) -> Any:
        """The table, or the error; what is given by name and is no field of `Range` is a property of librdkafka."""
        kafka = how.pop("kafka", {})
        wanted = Range(topic, until, **how)
        return same(lambda native: as_table(wanted.columns, self.batches(wanted, native, kafka)), shown)

    def batches(self, wanted: Range, native: bool, kafka: Mapping[str, Any] | None = None) -> list[pa.RecordBatch]:
        return read_batches(self._cluster, wanted, kafka or {}, native)


@pytest.fixture
def read(zkafka_cluster: LocalCluster) -> Read:
    """Reads by both paths: ``read(topic, until, start=3, columns=schema("value"))``."""
    return Read(zkafka_cluster)


@pytest.fixture
def fill(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Callable[..., str]:
    """Makes a topic with records: ``fill([{"value": b"v"}], config={...}, producer={...})``."""

    def make(
        records: Sequence[Any], config: Mapping[str, str] | None = None, producer: Mapping[str, Any] | None = None
    ) -> str:
        topic = new_topic(config={**KEPT, **(config or {})})
        in_order = {"enable.idempotence": True}
        zkafka_cluster.produce(topic, records, {**in_order, **(producer or {})})
        return topic

    return make


def transactions(cluster: LocalCluster, topic: str, texts: Mapping[str, bool]) -> None:
    """A transaction of a record a letter for each text, which is committed or not; one is over before the next begins."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for text, commit in texts.items():
        producer.begin_transaction()
        for letter in text:
            producer.produce(topic, letter.encode(), partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)


VARIETY: tuple[dict[str, Any], ...] = (
    {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("b", None), ("a", b"")]},
    {"key": None, "value": None},
    {"key": b"", "value": b"", "headers": [("", b"no name"), ("\u00e4\u4e2d\U0001f600", b"\xff\x00")]},
    {"key": b"\xff\x00", "value": b"\x00" * 900_000},
    {"key": b"\x01" * 300_000, "value": "gr\u00fcn".encode(), "headers": [("h", bytes(70_000))]},
    {"key": b"k", "headers": [(f"h{n}", b"%d" % n) for n in range(300)]},
)


def expected_row(topic: str, offset: int, record: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a record that was produced with the time `WHEN_MS` and its offset in milliseconds."""
    headers = record.get("headers")
    return {
        "key": record.get("key"),
        "value": record.get("value"),
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": (WHEN_MS + offset) * 1000,
        "timestampType": 0,
        "headers": headers and [{"key": name, "value": value} for name, value in headers],
    }


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with the timestamp as microseconds."""
    place = table.schema.get_field_index("timestamp")
    if place >= 0:
        table = table.set_column(place, "timestamp", table.column(place).cast(pa.int64()))
    return table.to_pylist()


class TestRecords:
    """What records become."""

    @pytest.fixture
    def topic(self, fill: Callable[..., str]) -> str:
        return fill([{**record, "timestamp": WHEN_MS + n} for n, record in enumerate(VARIETY)])

    def test_all_columns(self, read: Read, topic: str) -> None:
        """Null, empty, large and binary keys, values and headers come back as they were written."""
        found = rows_of(read(topic, len(VARIETY)))
        assert found == [expected_row(topic, n, record) for n, record in enumerate(VARIETY)]

    def test_projections(self, read: Read, topic: str) -> None:
        """Each column is itself, alone and in any place."""
        whole = rows_of(read(topic, len(VARIETY)))
        names = list(TYPES)
        orders = [names[n:] + names[:n] for n in range(1, 8)] + [names[::-1]] + [[name] for name in names]
        for order in orders:
            expected = [{name: row[name] for name in order} for row in whole]
            assert rows_of(read(topic, len(VARIETY), columns=schema(*order))) == expected

    def test_no_columns(self, read: Read, topic: str) -> None:
        """Without columns the rows are still counted."""
        wanted = Range(topic, len(VARIETY), columns=pa.schema([]))
        assert same(lambda native: sum(batch.num_rows for batch in read.batches(wanted, native))) == len(VARIETY)

    def test_texts(self, read: Read, fill: Callable[..., str]) -> None:
        """Keys and values declared as strings are texts, null and empty apart."""
        texts = ["", None, "a", "gr\u00fcn \u4e2d \U0001f600 \u0000", "x" * 100_000]
        topic = fill([{"key": text and text.encode(), "value": text if text is None else text.encode()} for text in texts])
        columns = schema(value=pa.string(), key=pa.string())
        assert read(topic, 5, columns=columns).column("value").to_pylist() == texts

    @pytest.mark.parametrize("column", ["key", "value"])
    @pytest.mark.parametrize("bad", [b"\xff", b"12345678\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
    def test_not_utf8(self, read: Read, fill: Callable[..., str], column: str, bad: bytes) -> None:
        """A text that is not UTF-8 is an error that names the first such record."""
        topic = fill([{column: b"fine"}, {column: bad}, {column: b"\xfe"}])
        found = read(topic, 3, shown=lambda text: text, columns=schema("offset", **{column: pa.string()}))
        assert found.condition == "MALFORMED_UTF8"
        assert f"The {column} of {topic}-0 at offset 1 is not UTF-8; declare {column} as binary" in found.message

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_codecs(self, read: Read, fill: Callable[..., str], codec: str) -> None:
        """Records come back whatever codec they were compressed with."""
        values = [b"%d " % n * 50 for n in range(2000)]
        topic = fill([{"value": v} for v in values], producer={"compression.type": codec})
        assert read(topic, 2000, columns=VALUE).column("value").to_pylist() == values

    def test_log_append_time(self, read: Read, fill: Callable[..., str]) -> None:
        """Where the broker sets the time, it is that, of type 1."""
        topic = fill([{"value": b"v", "timestamp": 5}], {"message.timestamp.type": "LogAppendTime"})
        row = rows_of(read(topic, 1, columns=schema("timestampType", "timestamp")))[0]
        assert row["timestampType"] == 1
        assert abs(row["timestamp"] / 1e6 - time.time()) < 600

    def test_time_beyond_spark(self, read: Read, fill: Callable[..., str]) -> None:
        """A time that Spark cannot hold is an error that names the first such record, unless the column is left out."""
        far = {"message.timestamp.after.max.ms": str(2**63 - 1)}
        topic = fill([{"timestamp": t} for t in (1, BEYOND_MS, 2**62)], far)
        found = read(topic, 3, shown=lambda text: text, columns=schema("timestamp"))
        assert found.condition == "MALFORMED_TIMESTAMP"
        assert f"The timestamp of {topic}-0 at offset 1 is {BEYOND_MS} ms" in found.message
        assert read(topic, 3, columns=schema("timestampType")).column(0).to_pylist() == [0, 0, 0]

    def test_first_bad_column_is_told(self, read: Read, fill: Callable[..., str]) -> None:
        """Of several columns that cannot be held, the first of the schema is told, though another record comes before."""
        topic = fill([{"value": b"\xff"}, {"key": b"\xff"}])
        found = read(topic, 2, shown=lambda text: text, columns=schema(key=pa.string(), value=pa.string()))
        assert f"The key of {topic}-0 at offset 1" in found.message

    def test_header_name_that_is_not_utf8(
        self, read: Read, new_topic: NewTopic, header_of_any_name: Callable[[str, bytes], None]
    ) -> None:
        """A header's name that is not UTF-8 is an error that names the record; without headers it can be read."""
        topic = new_topic()
        header_of_any_name(topic, b"\xff\xfe")
        found = read(topic, 1, shown=lambda text: text)
        assert found.condition == "MALFORMED_UTF8"
        assert f"of {topic}-0 at offset 0 " in found.message
        assert read(topic, 1, columns=VALUE).to_pylist() == [{"offset": 0, "value": b"v"}]


class TestRanges:
    """Which records a range has."""

    @pytest.mark.parametrize(("start", "until"), [(0, 5000), (0, 1), (4999, 5000), (300, 4000), (1234, 1234)])
    def test_parts_of_a_log(self, read: Read, numbered: str, start: int, until: int) -> None:
        """A range has its records and no others, wherever in the log it lies."""
        found = read(numbered, until, start=start, columns=VALUE)
        assert found.column("offset").to_pylist() == list(range(start, until))
        assert found.column("value").to_pylist() == [b"%d" % n for n in range(start, until)]

    @pytest.fixture
    def numbered(self, fill: Callable[..., str]) -> str:
        return fill([{"value": b"%d" % n} for n in range(5000)])

    @pytest.mark.parametrize("native", [False, True], ids=["python", "compiled"])
    def test_batches_are_bounded_in_rows(self, read: Read, numbered: str, native: bool) -> None:
        """No batch has more rows than allowed, and together they are the range."""
        wanted = Range(numbered, 4500, 20, VALUE, ReadPolicy(max_records=700, poll_timeout_ms=20_000))
        batches = read.batches(wanted, native)
        assert max(batch.num_rows for batch in batches) <= 700
        assert as_table(VALUE, batches).column("offset").to_pylist() == list(range(20, 4500))

    @pytest.mark.parametrize("native", [False, True], ids=["python", "compiled"])
    def test_batches_are_bounded_in_bytes(self, read: Read, fill: Callable[..., str], native: bool) -> None:
        """No batch has much more bytes than allowed, and together they are the range."""
        topic = fill([{"value": b"%4d" % n * 250} for n in range(2000)])
        batches = read.batches(Range(topic, 2000, columns=VALUE, policy=ReadPolicy(max_bytes=50_000)), native)
        assert [int(v[:4]) for batch in batches for v in batch.column("value").to_pylist()] == list(range(2000))
        # Of Python's first poll the size of records is not known yet.
        assert max(batch.num_rows for batch in batches[:-1]) <= (51 if native else 256)
        assert len(batches) > 10

    @pytest.mark.parametrize(("level", "values"), [("read_committed", "abef"), ("read_uncommitted", "abcdef")])
    def test_transactions(
        self, read: Read, zkafka_cluster: LocalCluster, new_topic: NewTopic, level: str, values: str
    ) -> None:
        """Aborted records are seen or not as the isolation level says; markers never are, also at the log's end."""
        topic = new_topic()
        transactions(zkafka_cluster, topic, {"ab": True, "cd": False, "e": True, "f": True})
        found = read(topic, 10, columns=VALUE, kafka={"isolation.level": level})
        assert b"".join(found.column("value").to_pylist()).decode() == values
        places = dict(zip("abcdef", (0, 1, 3, 4, 6, 8), strict=True))  # markers are between them
        assert found.column("offset").to_pylist() == [places[v] for v in values]
        assert read(topic, 5, start=3, columns=VALUE, kafka={"isolation.level": "read_committed"}).num_rows == 0

    def test_compacted(self, read: Read, zkafka_cluster: LocalCluster, compacted: str) -> None:
        """The gaps of a compacted log are skipped, wherever a range begins or ends in one."""
        end = zkafka_cluster.produce(compacted, [{"key": b"end", "value": b""}])[0][0]
        offsets = read(compacted, end, columns=VALUE).column("offset").to_pylist()
        assert 0 < len(offsets) < end
        gap = next(o for o in range(end) if o not in offsets)
        for start, until in ((gap, end), (0, gap + 1), (gap, gap + 1), (gap + 1, end - 1)):
            found = read(compacted, until, start=start, columns=VALUE).column("offset").to_pylist()
            assert found == [o for o in offsets if start <= o < until]

    @pytest.fixture
    def compacted(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, eventually: Callable[..., bool]) -> str:
        """A topic that its broker has compacted, with gaps."""
        servers = zkafka_cluster.bootstrap_servers
        for broker in zkafka_cluster.broker_ids:
            configure(servers, ResourceType.BROKER, str(broker), "log.cleaner.backoff.ms", "200")
        config = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "100"}
        topic = new_topic(config={**KEPT, **config, "cleanup.policy": "compact"})
        ends: list[int] = []

        def is_compacted() -> bool:
            records = [{"key": b"%d" % (n % 7), "value": b"v"} for n in range(20)]
            ends.extend(zkafka_cluster.produce(topic, records, {"batch.num.messages": 1})[0])
            time.sleep(0.3)
            return len(arrived(servers, topic)[0]) < max(ends) + 1

        assert eventually(is_compacted, timeout_s=60)
        configure(servers, ResourceType.TOPIC, topic, "cleanup.policy", "delete")  # from now on it stays as it is
        return topic


HASTY = {"topic.metadata.propagation.max.ms": 300}
"""For topics that there are not: librdkafka shall not wait long for them."""


class TestFailedReads:
    """What a read that fails says."""

    def test_offset_out_of_range(self, read: Read, zkafka_cluster: LocalCluster, fill: Callable[..., str]) -> None:
        """Records that are gone fail the read, or are left out, as asked."""
        topic = fill([{"value": b"%d" % n} for n in range(100)])
        zkafka_cluster.delete_records(topic, {0: 40})
        found = read(topic, 100, shown=lambda text: text, columns=VALUE)
        assert found.condition == "DATA_LOSS"
        assert f"{topic}-0: records [0, 40) of the range [0, 100) are gone; the log now begins at 40" in found.message
        lenient = ReadPolicy(fail_on_data_loss=False, poll_timeout_ms=20_000)
        assert read(topic, 100, columns=VALUE, policy=lenient).column("offset").to_pylist() == list(range(40, 100))

    def test_log_that_ends_too_early(self, read: Read, fill: Callable[..., str]) -> None:
        """A log that stays shorter than the range is data loss."""
        topic = fill([{"value": b"v"}] * 10)
        for start, cause in ((3, "the log has ended at 10 for 300 ms"), (15, "the log now ends at 10")):
            found = read(topic, 20, start=start, shown=lambda text: text, policy=ReadPolicy(poll_timeout_ms=300))
            assert found.condition == "DATA_LOSS"
            assert cause in found.message

    def test_unknown_topic(self, read: Read) -> None:
        """A topic that the brokers do not know was deleted, if the cluster says so."""
        found = read("no-such-topic", 10, columns=VALUE, identity="deleted", kafka=HASTY)
        assert found.condition == "TOPIC_REPLACED"

    def test_topic_that_only_the_brokers_do_not_know(self, read: Read) -> None:
        """A topic that the cluster has is waited for; the error has the brokers' own word."""
        impatient = ReadPolicy(poll_timeout_ms=1500)
        found = read("no-such-topic", 10, shown=lambda text: text, columns=VALUE, policy=impatient, kafka=HASTY)
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert "last error: UNKNOWN_TOPIC_OR_PART: " in found.message

    def test_no_brokers(self, read: Read) -> None:
        """Brokers that cannot be reached are an error that says how long they were waited for."""
        impatient = ReadPolicy(poll_timeout_ms=700)
        found = read("t", 10, columns=VALUE, policy=impatient, servers="127.0.0.1:1")
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert "t-0: no records from the brokers for 700 ms at offset 0" in found.message
        assert "last error: _" in found.message

    def test_no_brokers_for_the_ends_of_a_log(self, zkafka_cluster: LocalCluster) -> None:
        """The ends of a log that cannot be asked for are an error with librdkafka's own."""

        def ends(native: bool) -> Any:
            how = connection("127.0.0.1:1", native, {})
            split = Split(TopicPartition("t", 0), 0, 1, 0, 0, (0,), ("127.0.0.1:1",))
            with open_consumer(how, consumer_properties(how, "127.0.0.1:1", "g"), split, VALUE) as consumer:
                return consumer.watermarks(0.3)

        found = same(ends)
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert "asking the leader of t-0 for the ends of its log: _" in found.message

    @pytest.mark.parametrize(
        ("kafka", "expected"),
        [
            ({"no.such.property": "1"}, 'No such configuration property: "no.such.property"'),
            ({"fetch.error.backoff.ms": "soon"}, 'Invalid value for configuration property "fetch.error.backoff.ms"'),
            ({"fetch.min.bytes": "-5"}, 'Configuration property "fetch.min.bytes" value -5 is outside allowed range'),
            ({"security.protocol": "ssl", "ssl.ca.location": "/no/such/file"}, "Failed to create consumer: "),
            ({"partition.assignment.strategy": "none"}, "Failed to create consumer: "),
        ],
    )
    def test_properties(self, read: Read, kafka: dict[str, str], expected: str) -> None:
        """A property that librdkafka refuses is an error with its own words."""
        found = read("t", 10, shown=lambda text: text, columns=VALUE, kafka=kafka)
        assert found.message.startswith("making a consumer: _INVALID_ARG (")
        assert expected in found.message

    @pytest.mark.parametrize("native", [False, True], ids=["python", "compiled"])
    def test_log_of_librdkafka(
        self, read: Read, fill: Callable[..., str], caplog: pytest.LogCaptureFixture, native: bool
    ) -> None:
        """What librdkafka logs goes to its logger, when its level is set, under the client's name."""
        wanted = Range(fill([{"value": b"v"}]), 1, columns=VALUE)
        with caplog.at_level(logging.DEBUG, "pyspark_zkafka.librdkafka"):
            read.batches(wanted, native, {"debug": "fetch,topic", "client.id": "me"})
        lines = [r.getMessage() for r in caplog.records if r.name == "pyspark_zkafka.librdkafka"]
        assert any(re.match(r"FETCH \[me#consumer-\d+\] \[thrd:", line) for line in lines)
        assert {r.levelno for r in caplog.records} <= {logging.DEBUG, logging.INFO, logging.WARNING}


def configure(servers: str, kind: ResourceType, name: str, setting: str, value: str) -> None:
    """Change one setting of a broker or a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


# --- Writing


def arrived(servers: str, topic: str, partitions: int = 1) -> dict[int, list[Any]]:
    """Offset, key, value, headers and time of all records of a topic by partition, as plain confluent-kafka reads them."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    )
    consumer.assign([KafkaTopicPartition(topic, p, 0) for p in range(partitions)])
    found, ended = defaultdict(list), set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                found[message.partition()].append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
    consumer.close()
    return {
        p: [(m.offset(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in found[p]] for p in range(partitions)
    }


def send(
    servers: str,
    kafka: Mapping[str, Any],
    native: bool,
    topic: str,
    batches: Sequence[tuple[pa.RecordBatch, Sequence[int]]],
    partition_count: int,
) -> dict[int, int]:
    """What a producer counts as delivered, of batches with the partition of each row."""
    how = connection(servers, native, kafka)
    with open_producer(how, producer_properties(how, servers)) as producer:
        for batch, partitions in batches:
            for rows in outgoing(batch, topic):
                producer.send(rows, np.array(partitions, dtype=np.int32), partition_count)
        producer.flush()
        return producer.delivered(topic)


class Write:
    """Writes by both paths, to a topic for each, and looks at what has arrived."""

    def __init__(self, cluster: LocalCluster, new_topic: NewTopic) -> None:
        self.servers = cluster.bootstrap_servers
        self._new_topic = new_topic

    def __call__(
        self,
        batches: Sequence[tuple[pa.RecordBatch, Sequence[int]]],
        *,
        partitions: int = 1,
        counted: int | None = None,
        config: Mapping[str, str] | None = None,
        **kafka: Any,
    ) -> tuple[Any, dict[int, list[Any]]]:
        """The counts, or the error, and what has arrived; the producer is told of `counted` partitions."""

        def act(native: bool) -> Any:
            topic = self._new_topic(partitions=partitions, config={**KEPT, **(config or {})})
            sent = outcome(lambda _: send(self.servers, kafka, native, topic, batches, counted or partitions), native)
            return sent, {p: [row[1:] for row in rows] for p, rows in arrived(self.servers, topic, partitions).items()}

        return same(act, lambda found: (unnumbered(found[0]), timeless(found[1])))


def timeless(arrived: Mapping[int, Sequence[Any]]) -> dict[int, list[Any]]:
    """What has arrived, with 'now' for times of the last hour."""
    now = time.time() * 1000
    return {
        p: [(*row[:-1], "now" if now - row[-1] < 3_600_000 else row[-1]) for row in rows] for p, rows in arrived.items()
    }


@pytest.fixture
def write(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Write:
    """Writes by both paths: ``write([(batch, [0, 1, 0])], partitions=2)``."""
    return Write(zkafka_cluster, new_topic)


def frame(**columns: Any) -> pa.RecordBatch:
    """A batch; values are binary where nothing else is said."""
    arrays = [c if isinstance(c, pa.Array) else pa.array(c, pa.binary()) for c in columns.values()]
    return pa.record_batch(arrays, list(columns))


def moments(*milliseconds: int | None) -> pa.Array:
    return pa.array([None if ms is None else ms * 1000 for ms in milliseconds], pa.timestamp("us", tz="UTC"))


class TestWritten:
    """What arrives."""

    def test_keys_and_values(self, write: Write) -> None:
        """Null and empty keys and values stay apart, and each row is in its partition."""
        batch = frame(key=[b"k", None, b"", b"\x00\xff"], value=[b"v", b"", None, b"\xff" * 500_000])
        delivered, found = write([(batch, [0, 1, 0, 2])], partitions=4)
        assert delivered == {0: 2, 1: 1, 2: 1}
        assert [[row[:2] for row in found[p]] for p in range(4)] == [
            [(b"k", b"v"), (b"", None)],
            [(None, b"")],
            [(b"\x00\xff", b"\xff" * 500_000)],
            [],
        ]

    def test_without_keys(self, write: Write) -> None:
        """A frame without the column key writes null keys."""
        found = write([(frame(value=[b"v", None]), [0, 0])])[1]
        assert [row[:2] for row in found[0]] == [(None, b"v"), (None, None)]

    def test_headers(self, write: Write) -> None:
        """Headers keep order, repetitions, nulls and empties; a row without any has none."""
        heads = [[("a", b"1"), ("a", None), ("", b"")], None, [], [("\u00e4\U0001f600", b"\xff")]]
        column = pa.array(heads, HEADERS)
        delivered, found = write([(frame(value=[b"0", b"1", None, b"3"], headers=column), [0] * 4)])
        assert delivered == {0: 4}
        assert [row[2] for row in found[0]] == [heads[0], None, None, heads[3]]

    @pytest.mark.parametrize(
        "kind",
        [
            pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
            pa.large_list(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
        ],
        ids=str,
    )
    def test_other_types_of_headers(self, write: Write, kind: pa.DataType) -> None:
        """Headers of long or textual types are the same headers."""
        column = pa.array([[("a", b"1"), ("b", None)], None, [("c", b"")]], HEADERS).cast(kind)
        found = write([(frame(value=[b"0", b"1", b"2"], headers=column), [0] * 3)])[1]
        assert [row[2] for row in found[0]] == [[("a", b"1"), ("b", None)], None, [("c", b"")]]

    def test_timestamps(self, write: Write) -> None:
        """Timestamps are those given, and now where there is none."""
        batch = frame(value=[b"0", b"1", b"2"], timestamp=moments(WHEN_MS, None, 1))
        found = timeless(write([(batch, [0] * 3)])[1])
        assert [row[3] for row in found[0]] == [WHEN_MS, "now", 1]

    @pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()], ids=str)
    def test_types(self, write: Write, kind: pa.DataType) -> None:
        """Bytes and texts with short and with long offsets are the same bytes, also in slices of an array."""
        texts = [None, "a", "", "gr\u00fcn", None, "x" * 1000]
        column = pa.array(texts, pa.string()).cast(kind)
        pieces = [(frame(key=column[n:], value=column[n:]), [0] * (6 - n)) for n in range(6)]
        data = [None if text is None else text.encode() for text in texts]
        found = write(pieces)[1]
        assert [row[:2] for row in found[0]] == [(d, d) for n in range(6) for d in data[n:]]

    def test_slices_of_all_columns(self, write: Write) -> None:
        """A slice of a frame is its rows, whatever lies before and behind them in the arrays."""
        rows = range(100)
        whole = frame(
            key=[b"k%d" % n if n % 3 else None for n in rows],
            value=[b"v%d" % n if n % 5 else None for n in rows],
            headers=pa.array([[(f"h{n}", b"%d" % n)] * (n % 4) or None for n in rows], HEADERS),
            timestamp=moments(*(WHEN_MS + n if n % 7 else None for n in rows)),
        )
        pieces = [(whole.slice(start, count), [0] * count) for start, count in ((9, 1), (10, 30), (41, 0), (63, 37))]
        found = timeless(write(pieces)[1])
        assert found[0] == [
            (
                b"k%d" % n if n % 3 else None,
                b"v%d" % n if n % 5 else None,
                [(f"h{n}", b"%d" % n)] * (n % 4) or None,
                WHEN_MS + n if n % 7 else "now",
            )
            for n in [9, *range(10, 40), *range(63, 100)]
        ]

    def test_empty_batches(self, write: Write) -> None:
        """Batches without rows are nothing, also between others."""
        none, some = frame(value=[]), frame(value=[b"v"])
        delivered, found = write([(none, []), (some, [0]), (none, []), (some, [0]), (none, [])])
        assert delivered == {0: 2}
        assert len(found[0]) == 2
        assert write([(none, [])])[0] == {}

    @pytest.mark.parametrize("plain", [True, False], ids=["plain", "headers"])
    def test_order(self, write: Write, plain: bool) -> None:
        """Rows of one partition keep their order over many batches, and none is missing or there twice."""
        per_batch, batches = 2000, []
        for n in range(6):
            values = [b"%d" % (n * per_batch + i) for i in range(per_batch)]
            headers = {} if plain else {"headers": pa.array([[("h", v)] for v in values], HEADERS)}
            batches.append((frame(value=values, **headers), [(7 * i) % 5 for i in range(per_batch)]))
        delivered, found = write(batches, partitions=5)
        assert delivered == dict.fromkeys(range(5), 2400)
        numbers = {p: [int(row[1]) for row in rows] for p, rows in found.items()}
        assert numbers == {p: [n for n in range(12_000) if 7 * (n % per_batch) % 5 == p] for p in range(5)}

    @pytest.mark.parametrize("limit", [{"queue.buffering.max.messages": 5}, {"queue.buffering.max.kbytes": 1}], ids=str)
    def test_tiny_queues(self, write: Write, limit: dict[str, int]) -> None:
        """However little may be queued, all rows arrive, in order."""
        values = [b"%d" % n + b"." * 400 for n in range(3000)]
        delivered, found = write([(frame(value=values), [0] * 3000)], **limit, **{"linger.ms": 0})
        assert delivered == {0: 3000}
        assert [row[1] for row in found[0]] == values

    def test_queue_full_of_small_batches(self, write: Write) -> None:
        """A queue that is full of batches that are not is sent at once, not when linger.ms is over."""
        values = [b"%d" % n for n in range(3000)]
        begin = time.monotonic()
        limits = {"queue.buffering.max.messages": 500, "linger.ms": 60_000}
        delivered, _ = write([(frame(value=values), [n % 5 for n in range(3000)])], partitions=5, **limits)
        assert delivered == dict.fromkeys(range(5), 600)
        assert time.monotonic() - begin < 60

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_codecs(self, write: Write, codec: str) -> None:
        """Rows arrive whatever codec compresses them."""
        values = [b"%d " % n * 20 for n in range(500)]
        assert [row[1] for row in write([(frame(value=values), [0] * 500)], **{"compression.type": codec})[1][0]] == values


class TestWriteTask:
    """A task's rows, routed by both paths."""

    def test_several_topics(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """Rows go to the topic of their row and to the partition of their key, and are counted there."""
        keys = [None if n % 10 == 0 else b"key %d" % (n % 37) for n in range(3000)]

        def act(native: bool) -> Any:
            topics = [new_topic(partitions=3), new_topic(partitions=5), new_topic()]
            named = pa.array([topics[n % 3] for n in range(3000)])
            batch = frame(topic=named, key=keys, value=[b"%d" % n for n in range(3000)])
            written = write_task(zkafka_cluster.bootstrap_servers, native, [batch.slice(0, 1001), batch.slice(1001)])
            found = {t: arrived(zkafka_cluster.bootstrap_servers, t, p) for t, p in zip(topics, (3, 5, 1), strict=True)}
            counts = {(t, p): len(rows) for t, by_partition in found.items() for p, rows in by_partition.items()}
            assert written == {place: count for place, count in counts.items() if count}
            return [{p: [row[1:3] for row in rows] for p, rows in found[t].items()} for t in topics]

        first = same(act)[0]
        assert sorted(int(row[1]) for rows in first.values() for row in rows) == list(range(0, 3000, 3))

    @pytest.mark.parametrize("partitioner", ["murmur2", "murmur3", "crc32", "fnv1a", "roundrobin"])
    def test_partitioners(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, partitioner: str) -> None:
        """Each partitioner puts rows into the same partitions."""
        keys = [b"", None, *(b"%d" % n * (n % 9) for n in range(500))]

        def act(native: bool) -> Any:
            topic = new_topic(partitions=7)
            batch = frame(key=keys, value=[b"v"] * len(keys))
            write_task(zkafka_cluster.bootstrap_servers, native, [batch], topic=topic, partitioner=partitioner)
            found = arrived(zkafka_cluster.bootstrap_servers, topic, 7)
            return {p: [row[1] for row in rows] for p, rows in found.items()}

        assert sum(map(len, same(act).values())) == len(keys)

    @pytest.mark.parametrize("partition", [2, -1])
    def test_partition_out_of_range(self, zkafka_cluster: LocalCluster, new_topic: NewTopic, partition: int) -> None:
        """A partition that a topic does not have is an error before anything is sent."""
        topic = new_topic(partitions=2)
        batch = frame(value=[b"a", b"b"], partition=pa.array([0, partition], pa.int32()))
        found = same(lambda native: write_task(zkafka_cluster.bootstrap_servers, native, [batch], topic=topic))
        assert (found.kind, found.condition) == ("InvalidRow", "PARTITION_OUT_OF_RANGE")
        assert arrived(zkafka_cluster.bootstrap_servers, topic, 2) == {0: [], 1: []}

    def test_missing_topic(self, zkafka_cluster: LocalCluster) -> None:
        """A topic that the brokers do not create is an error that names it."""
        batch = frame(topic=pa.array(["no-such-topic"]), value=[b"v"])
        found = same(lambda native: write_task(zkafka_cluster.bootstrap_servers, native, [batch]))
        assert (found.kind, found.condition) == ("UnknownTopic", "UNKNOWN_TOPIC")


def write_task(servers: str, native: bool, batches: Sequence[pa.RecordBatch], **options: str) -> Mapping[Any, int]:
    """The counts of a task that writes batches."""
    path = "on" if native else "off"
    given = {"kafka.bootstrap.servers": servers, "nativePath": path, "kafka.allow.auto.create.topics": "false", **options}
    parsed = parse_write(given)
    return write_rows(parsed, plan_write(parsed), iter(batches)).rows


class TestFailedWrites:
    """What a write that fails says, and that nothing is counted that did not arrive."""

    def test_too_large_for_the_client(self, write: Write) -> None:
        """A record that librdkafka refuses by its size fails the write."""
        found = write([(frame(value=[bytes(5000)]), [0])], **{"message.max.bytes": 1000})
        assert found[0].condition == "DELIVERY_FAILED"
        assert "MSG_SIZE_TOO_LARGE" in found[0].message
        assert found[1] == {0: []}

    def test_too_large_with_headers(self, write: Write) -> None:
        """So does one with headers."""
        headers = pa.array([[("h", b"x")]], HEADERS)
        found = write([(frame(value=[bytes(5000)], headers=headers), [0])], **{"message.max.bytes": 1000})
        assert "MSG_SIZE_TOO_LARGE" in found[0].message
        assert found[1] == {0: []}

    def test_too_large_for_the_broker(self, write: Write) -> None:
        """A record that the broker refuses by its size fails the write with topic, partition, cause and counts."""
        found = write([(frame(value=[bytes(5000)]), [0])], config={"max.message.bytes": "1000"})
        assert re.search(r"topic-\d+-0: MSG_SIZE_TOO_LARGE: Broker: .*; of 1 records handed over", found[0].message)
        assert found[1] == {0: []}

    def test_unknown_partition(self, write: Write) -> None:
        """A partition that the brokers do not have fails the write, though the producer was told of it."""
        found = write([(frame(value=[b"v"]), [4])], partitions=2, counted=5, **{"delivery.timeout.ms": 1000})
        assert found[0].condition == "DELIVERY_FAILED"
        assert "-4: " in found[0].message
        assert "UNKNOWN_PARTITION" in found[0].message

    @pytest.mark.parametrize("kafka", [{}, {"enable.idempotence": False}], ids=str)
    def test_record_refused_by_the_broker(
        self, zkafka_cluster: LocalCluster, new_topic: NewTopic, kafka: dict[str, Any]
    ) -> None:
        """A compacted topic refuses a record without key: the write fails, and what did not arrive is not counted."""
        batches = [(frame(key=[key], value=[b"v"]), [0]) for key in (b"k", None, b"l")]
        servers = zkafka_cluster.bootstrap_servers

        def act(native: bool) -> Any:
            topic = new_topic(config={"cleanup.policy": "compact"})
            failed = outcome(lambda _: send(servers, kafka, native, topic, batches, 1), native)
            assert acknowledged(failed) == len(arrived(servers, topic)[0])  # which of them go together is chance
            return failed

        found = same(act, unnumbered)
        assert found.condition == "DELIVERY_FAILED"
        assert "INVALID_RECORD" in found.message

    def test_missing_topic(self, zkafka_cluster: LocalCluster) -> None:
        """A topic that does not exist fails the write within the time-out."""
        batch = frame(value=[b"v"])
        kafka = {"allow.auto.create.topics": False, "delivery.timeout.ms": 8000, **HASTY}
        servers = zkafka_cluster.bootstrap_servers
        found = same(lambda native: send(servers, kafka, native, "no-such-topic", [(batch, [0])], 1), unnumbered)
        assert "no-such-topic-0: UNKNOWN_TOPIC_OR_PART: " in found.message

    def test_no_brokers(self) -> None:
        """Records that no broker takes fail the write when their time is over."""
        kafka = {"delivery.timeout.ms": 600, "linger.ms": 0}
        batch = frame(value=[b"v"] * 10)
        found = same(lambda native: send("127.0.0.1:1", kafka, native, "t", [(batch, [0] * 10)], 1), unnumbered)
        assert "t-0: _MSG_TIMED_OUT: " in found.message
        assert "of 10 records handed over by this task 0 were acknowledged and 10 were not" in found.message

    @pytest.mark.parametrize(
        "kafka", [{"no.such": "1"}, {"acks": "many"}, {"enable.idempotence": True, "acks": "1"}], ids=str
    )
    def test_properties(self, kafka: dict[str, Any]) -> None:
        """A property that librdkafka refuses is an error with its own words."""
        found = same(lambda native: send("127.0.0.1:1", kafka, native, "t", [], 1))
        assert found.message.startswith("making a producer: _INVALID_ARG (")

    def test_error_of_the_caller(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """A producer that is left by an error ends, with rows still queued."""

        def act(native: bool) -> Any:
            how = connection(zkafka_cluster.bootstrap_servers, native, {"linger.ms": 60_000})
            rows = next(outgoing(frame(value=[b"v"] * 5000), new_topic()))
            with open_producer(how, producer_properties(how, zkafka_cluster.bootstrap_servers)) as producer:
                producer.send(rows, np.zeros(5000, dtype=np.int32), 1)
                raise ZKafkaError("STOP", "enough")

        assert same(act).condition == "STOP"


def acknowledged(failed: Failed) -> int:
    """How many records an error says were acknowledged."""
    return int(re.search(r"by this task (\d+) were acknowledged", failed.message).group(1))


class TestPartitionsOf:
    """What a producer asks the brokers about a topic."""

    def test_partitions(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """How many partitions there are, and those with a leader."""
        topic = new_topic(partitions=6, replication=2)
        assert same(lambda native: asked(zkafka_cluster.bootstrap_servers, native, topic)) == (6, (0, 1, 2, 3, 4, 5))

    def test_missing(self, zkafka_cluster: LocalCluster) -> None:
        """A topic that nobody may create is unknown at once."""
        kafka = {"allow.auto.create.topics": False}
        found = same(lambda native: asked(zkafka_cluster.bootstrap_servers, native, "no-such-topic", kafka))
        assert found.condition == "UNKNOWN_TOPIC"

    def test_no_brokers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Brokers that cannot be asked are an error with librdkafka's own."""
        monkeypatch.setattr("pyspark_zkafka.transport.producer._METADATA_TIMEOUT_S", 0.3)
        found = same(lambda native: asked("127.0.0.1:1", native, "t"))
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert found.message.startswith("asking for the partitions of t: _")


def asked(servers: str, native: bool, topic: str, kafka: Mapping[str, Any] | None = None) -> Any:
    """What `partitions_of` says of a topic."""
    how = connection(servers, native, kafka or {})
    with open_producer(how, producer_properties(how, servers)) as producer:
        return producer.partitions_of(topic)
