"""A task's reading of consecutive splits, and Spark's calls of readers of streams and views without a connection."""

from __future__ import annotations

import pickle
from contextlib import ExitStack, closing
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_zkafka.engines import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.formats.decoding import pin_formats
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.readers import (
    UnlimitedStreamReader,
    ViewPartition,
    ViewReader,
    ZKafkaReader,
    ZKafkaStreamReader,
    one_ahead,
    split_partitions,
)

SCHEMA = pa.schema([("topic", pa.string())])
CONNECT = {"kafka.bootstrap.servers": "broker1:9092", "subscribe": "t"}


class Log:
    """Records starts and ends."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, item: int, opened: ExitStack) -> str:
        self.lines.append(f"start {item}")
        opened.callback(self.lines.append, f"end {item}")
        if item == 9:
            raise KeyError(item)
        return f"number {item}"


def test_the_next_item_starts_before_one_is_read() -> None:
    """While an item is read, the next one is started, and no other is open."""
    log = Log()
    for item, made in one_ahead([1, 2, 3], log.start):
        log.lines.append(f"read {item}: {made}")
    assert log.lines == [
        "start 1",
        "start 2",
        "read 1: number 1",
        "end 1",
        "start 3",
        "read 2: number 2",
        "end 2",
        "read 3: number 3",
        "end 3",
    ]


def test_none_and_one() -> None:
    """Without items nothing starts; a single item is read at once."""
    log = Log()
    assert list(one_ahead([], log.start)) == []
    assert list(one_ahead([1], log.start)) == [(1, "number 1")]
    assert log.lines == ["start 1", "end 1"]


def test_all_is_closed_when_reading_ends_early() -> None:
    """A reader that stops early closes the current item and the one that has started."""
    log = Log()
    with closing(one_ahead([1, 2, 3], log.start)) as readers:
        assert next(readers) == (1, "number 1")
    assert sorted(log.lines) == ["end 1", "end 2", "start 1", "start 2"]


def test_all_is_closed_when_an_item_cannot_start() -> None:
    """An item that fails to start is closed, and so is the one before it."""
    log = Log()
    with pytest.raises(KeyError):
        list(one_ahead([1, 9, 3], log.start))
    assert sorted(log.lines) == ["end 1", "end 9", "start 1", "start 9"]


FEW, MANY = ([f"b{n}:9092" for n in range(count)] for count in (3, 105))
SOME = Random(0).sample(MANY, 10)


@pytest.mark.parametrize(
    ("user", "found", "expected"),
    [
        (None, FEW, [["b2:9092", "b0:9092", "b1:9092"], ["b0:9092", "b1:9092", "b2:9092"]]),
        (None, MANY, [SOME, SOME]),
        (",".join(MANY), MANY, [["b2:9092", *MANY[:2], *MANY[3:]], MANY]),
    ],
    ids=["few brokers", "many brokers", "many servers of the user"],
)
def test_servers_of_tasks(user: str | None, found: list[str], expected: list[list[str]]) -> None:
    """Tasks have all bootstrap servers, the leaders first. Of many brokers in ZooKeeper, they have the same ten."""
    connection = {"zookeeper.connect": "zk:2181"} if user is None else {"kafka.bootstrap.servers": user}
    splits = [Split(TopicPartition("t", n), 0, 1, n, 0, (n,), (f"b{n}:9092",)) for n in (2, 0)]
    tasks = split_partitions(parse_read({**connection, "subscribe": "t"}), splits, ",".join(found))
    assert [task.splits for task in tasks] == [(split,) for split in splits]
    assert [task.bootstrap_servers.split(",") for task in tasks] == expected


def test_servers_of_many_racks() -> None:
    """Of brokers whose racks alternate, as ids do in managed clusters, tasks have some in each rack."""
    for count in (12, 24, 30, 60, 90):
        found = ",".join(f"b{n}:9092" for n in range(count))
        split = Split(TopicPartition("t", 0), 0, 1, 0, 0, (0,), ("b0:9092",))
        options = parse_read({"zookeeper.connect": "zk:2181", "subscribe": "t"})
        (task,) = split_partitions(options, [split], found)
        servers = task.bootstrap_servers.split(",")
        assert len(servers) == 10
        assert {int(server[1:-5]) % 3 for server in servers} == {0, 1, 2}


def stream_reader(**options: str) -> ZKafkaStreamReader:
    """Return a reader that has not planned yet."""
    return ZKafkaStreamReader(parse_stream({**CONNECT, **options}), pa.schema([pa.field("value", pa.binary())]))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "500"}, ReadMaxRows(500)),
        ({"maxOffsetsPerTrigger": "9223372036854775807"}, ReadMaxRows(2**63 - 1)),
        ({"maxBytesPerTrigger": "1000"}, ReadMaxRows(2**63 - 1)),
        ({"minOffsetsPerTrigger": "500"}, ReadMaxRows(2**63 - 1)),
    ],
)
def test_default_limit(options: dict[str, str], limit: ReadLimit) -> None:
    """Any limit makes Spark request limited micro-batches; a limit of records is also passed to Spark."""
    assert stream_reader(**options).getDefaultReadLimit() == limit


def test_a_stream_before_planning() -> None:
    """Before it has planned, a reader reports nothing, plans an empty micro-batch, and stops at once."""
    found = stream_reader()
    assert found.reportLatestOffset() is None
    assert found.partitions({"version": 1}, {"version": 1}) == []
    found.stop()


def test_a_stream_is_pickled() -> None:
    """A reader survives pickling, since Spark sends it to the planning process."""
    assert pickle.loads(pickle.dumps(stream_reader())).getDefaultReadLimit() == ReadAllAvailable()


class Driver:
    """A stream's driver that plans micro-batches of ten records, and notes the starts that are known to be finished."""

    def __init__(self) -> None:
        self.starts: list[int] = []

    def initial(self) -> dict[str, int]:
        return {"end": 0}

    def latest(self, start: dict[str, int], *, limited: bool) -> dict[str, int]:
        assert not limited
        self.starts.append(start["end"])
        return {"end": start["end"] + 10}

    def splits(self, end: dict[str, int]) -> tuple[tuple[Split, ...], str]:
        return (), "broker1:9092"

    def commit(self) -> None: ...


Call = int | tuple[int, int]


@pytest.mark.parametrize(
    ("calls", "starts"),
    [
        (["latest", "initial", (0, 10), "latest", 10, (10, 20)], [0, 10]),  # a new query
        (["latest", "initial", (0, 10), "latest", "latest"], [0, 10, 10]),  # no records after the first micro-batch
        ([(30, 30), "latest", 30, (30, 40), "latest"], [30, 40]),  # a restart after a finished micro-batch
        ([(30, 30), (20, 30), "latest", 30, (30, 40)], [30]),  # a restart that repeats a micro-batch
        ([(10, 10), "initial", (0, 10), "latest"], [10]),  # a restart that repeats the first one
        (["latest", "latest", "initial", (0, 10), "latest"], [0, 0, 10]),  # two requests before the first micro-batch
        (["latest", "latest", 10, "latest"], [0, 0, 10]),  # Spark knows that the frame is empty
    ],
)
def test_calls_of_spark_4_0(calls: list[str | Call], starts: list[int]) -> None:
    """Without a start, a micro-batch starts at the end of the last finished one, or at the start of a new query."""
    reader, driver = UnlimitedStreamReader(parse_stream(CONNECT), SCHEMA), Driver()
    reader._driver = driver  # type: ignore[assignment]
    for call in calls:
        if call == "latest":
            reader.latestOffset()
        elif call == "initial":
            assert reader.initialOffset() == {"end": 0}
        elif isinstance(call, tuple):
            reader.partitions({"end": call[0]}, {"end": call[1]})
        else:
            reader.commit({"end": call})
    assert driver.starts == starts


def test_a_checkpoint_that_comes_too_late() -> None:
    """With Spark's wrapper of availableNow, a query on a checkpoint looks new, and is refused before it reads."""
    reader = UnlimitedStreamReader(parse_stream(CONNECT), SCHEMA)
    reader._driver = Driver()  # type: ignore[assignment]
    reader.latestOffset()
    with pytest.raises(ZKafkaError, match=r"UNSUPPORTED_PYSPARK.*triggerAvailableNowWrapper"):
        reader.partitions({"end": 30}, {"end": 30})
    assert reader.partitions({"end": 0}, {"end": 0}) == []  # a new query without records


def view_reader() -> ViewReader:
    """Return a reader of topics' configurations."""
    return ViewReader("configs", parse_read({"zookeeper.connect": "zk:2181", "view": "configs"}), SCHEMA)


def test_partition_carries_its_rows() -> None:
    """Reader and partition survive pickling, and the task returns the planned batch."""
    batch = pa.RecordBatch.from_pylist([{"topic": "a"}], SCHEMA)
    partition = pickle.loads(pickle.dumps(ViewPartition(batch, None)))
    (found,) = pickle.loads(pickle.dumps(view_reader())).read(partition)
    assert found.equals(batch)


def test_partition_that_spark_makes_up() -> None:
    """A partition that was not planned has no rows."""
    assert list(view_reader().read(InputPartition(None))) == []


def test_a_frame_without_decoded_columns() -> None:
    """A projection without formatted columns decodes no records."""
    options = parse_read({"kafka.bootstrap.servers": "k:9092", "subscribe": "t", "value.format": "string"})
    formats = pin_formats(options)
    text = pa.schema([("offset", pa.int64()), ("value", pa.string())])
    assert ZKafkaReader(options, text, formats)._decoder(text) is not None
    for schema in (pa.schema([]), pa.schema([("key", pa.binary())])):
        assert ZKafkaReader(options, schema, formats)._decoder(schema) is None
