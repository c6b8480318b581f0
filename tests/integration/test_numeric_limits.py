"""The smallest and the largest accepted number of each option and client property, used on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.options.client_properties import Role, translate
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED
from pyspark_zkafka.options.option import Scope
from pyspark_zkafka.options.table import BY_NAME
from pyspark_zkafka.read.readers import ZKafkaReader
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.fill import fill
from tests.support.numeric_limits import LIMITS
from tests.support.security import write_values

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
NewDriver = Callable[..., StreamDriver]

COLUMNS = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
RECORDS = 5
TOO_SHORT = {
    "zookeeper.connection.timeout.ms": "ZOOKEEPER_UNREACHABLE",
    "kafkaConsumer.pollTimeoutMs": "BROKERS_UNAVAILABLE",
    "session.timeout.ms": "INVALID_OPTION",
    "delivery.timeout.ms": "DELIVERY_FAILED",
    "message.timeout.ms": "DELIVERY_FAILED",
}
"""Limits of waits, with the condition of an error that the smallest one may end in."""
VECTORS = Path(__file__).parents[1] / "vectors" / "librdkafka_config_names.json"
LIBRDKAFKA: dict[str, str] = json.loads(VECTORS.read_text(encoding="utf-8"))["properties"]
NUMBERS = [-1, 0, 1, 5, 10, 100, 1000, 45_000, 300_000, 900_000, 1_000_000, 3_600_000, 86_400_000, 10**9, 2**31 - 1]
DELAYS_THE_NEXT_READ = ("fetch.wait.max.ms", "fetch.max.wait.ms")
"""Waits for more records. A pooled consumer of librdkafka ends such a wait before it reads the next range."""
OF_EXACTLY_ONCE = "transaction.timeout.ms"
NOT_NUMBERS = (".servers", ".list", ".location")


def read_all(options: Mapping[str, str]) -> int:
    """Plan and read a batch in this process, and return the number of its records."""
    reader = ZKafkaReader(parse_read(options), COLUMNS)
    return sum(len(batch) for partition in reader.partitions() for batch in reader.read(partition))


def options_of(scope: Scope) -> list[str]:
    """The numeric options of reads or streams, except versions of schemas."""
    return [name for name in LIMITS if scope in BY_NAME[name.lower()].scopes and not name.endswith("schema.version")]


def accepted(role: Role) -> Iterator[tuple[str, str, str]]:
    """Yield each property that accepts numbers, with the smallest and the largest accepted candidate."""
    listed = {row.name for row in PROPERTIES if role[0].upper() in row.clients}
    passed_on = LIBRDKAFKA.keys() - REFUSED.keys() - {row.name for row in PROPERTIES}
    for name in sorted(name for name in {*listed, *passed_on} if not name.endswith(NOT_NUMBERS)):
        taken = [str(number) for number in NUMBERS if not translate({name: str(number)}, role)[1]]
        if len(taken) > 1 and name != OF_EXACTLY_ONCE:
            yield name, taken[0], taken[-1]


@pytest.fixture
def five(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic with five records."""
    topic = new_topic()
    fill(zkafka_cluster, topic, RECORDS)
    return topic


def check(name: str, value: object, least: object, call: Callable[[], None]) -> None:
    """Call what must succeed with a limit, except that the smallest wait may be too short. The error must say so."""
    try:
        call()
    except ZKafkaError as error:
        if (error.condition, value) != (TOO_SHORT.get(name), least):
            raise AssertionError(f"{name}={value}") from error


@pytest.mark.parametrize("name", options_of("read"))
def test_batch(zookeeper: dict[str, str], five: str, name: str) -> None:
    """A batch with a limit of an option has all records."""
    connection = {**zookeeper, "subscribe": five, "zookeeper.connection.timeout.ms": "6000"}
    for value in LIMITS[name]:

        def read() -> None:
            assert read_all({**connection, name: str(value)}) == RECORDS  # noqa: B023 - called at once

        check(name, value, LIMITS[name][0], read)


@pytest.mark.long
@pytest.mark.parametrize("name", options_of("stream"))
def test_stream(new_driver: NewDriver, five: str, name: str) -> None:
    """A member with a limit of an option plans a micro-batch."""
    connection = {"subscribe": five, "startingOffsets": "earliest", "zookeeper.connection.timeout.ms": "6000"}
    if name == "session.timeout.ms":
        connection |= {"groupMembership": "kafka", "kafka.max.poll.interval.ms": "86400000"}
    least, most = LIMITS[name]
    for value in (least, 1_800_000 if name == "session.timeout.ms" else most):  # the brokers' limit

        def plan() -> None:
            driver = new_driver({**connection, "group.id": f"{five}-{name}-{value}", name: str(value)})  # noqa: B023 - called at once
            end = driver.latest(driver.initial(), limited=True)
            splits, _ = driver.splits(end)
            assert 0 < sum(split.size for split in splits) <= RECORDS

        check(name, value, least, plan)


@pytest.mark.long
@pytest.mark.parametrize("transport", ["auto", "librdkafka"])
def test_reads(zookeeper: dict[str, str], five: str, transport: str) -> None:
    """A read with a limit of a client property has all records."""
    for name, *limits in accepted("consumer"):
        for value in limits:
            if transport == "librdkafka" and value == limits[1] and name in DELAYS_THE_NEXT_READ:
                continue
            options = {**zookeeper, "subscribe": five, f"kafka.{name}": value, "transport": transport}
            assert read_all(options) == RECORDS, (name, value)


@pytest.mark.long
@pytest.mark.parametrize("transport", ["auto", "librdkafka"])
def test_writes(zookeeper: dict[str, str], new_topic: NewTopic, transport: str) -> None:
    """A write with a limit of a client property writes each row once."""
    for name, *limits in accepted("producer"):
        for value in limits:
            topic = new_topic()
            options = {**zookeeper, "topic": topic, f"kafka.{name}": value, "transport": transport}

            def write() -> None:
                write_values(options, [b"a"] * RECORDS)  # noqa: B023 - called at once
                assert read_all({**zookeeper, "subscribe": topic}) == RECORDS  # noqa: B023

            check(name, value, limits[0], write)
