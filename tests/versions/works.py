"""What one engine does with one broker: it reads, writes, and streams in groups, and each record is accounted for.

Run as a module, it prints a line of JSON for each kind of work. Its argument is a `Place`, as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.topics import arrived

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2
RECORDS = 500
"""In each partition of the topic to read."""
ROWS = 1000
"""Of a write."""

_CONDITION = re.compile(r"\[(?!DATA_SOURCE|PYTHON_|STREAM_|CONNECT)([A-Z][A-Z_]+)\] ")


@dataclass(frozen=True)
class Place:
    """An engine, and the addresses and topics of a cluster."""

    engine: str
    """``sail``, or a version of Spark."""
    bootstrap_servers: str
    zookeeper_connect: str | None
    client_config: dict[str, Any]
    """librdkafka's properties that the broker needs, for checks."""
    source: str
    """A topic of `PARTITIONS`, each with `RECORDS` whose values are their offsets."""
    plain_target: str
    exact_target: str
    """Empty topics of `PARTITIONS`."""


class Works:
    """The kinds of work, each a method that raises if a record is lost, wrong or there twice."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self._spark = spark
        self._place = place
        self._name = f"versions-{place.engine}"
        self._brokers = {"kafka.bootstrap.servers": place.bootstrap_servers}

    def read(self) -> None:
        """Read a topic as a batch."""
        rows = self._spark.read.format("zkafka").options(**self._brokers, subscribe=self._place.source).load().collect()
        _require_each_record_once(rows)

    def write(self) -> None:
        """Write rows at least once."""
        _save(self._rows(), {**self._brokers, "topic": self._place.plain_target})
        self._require_rows(self._place.plain_target)

    def group_in_zookeeper(self) -> None:
        """Stream as a member of a group in ZooKeeper."""
        assert self._place.zookeeper_connect is not None
        self._stream({"zookeeper.connect": self._place.zookeeper_connect}, {})

    def group_in_kafka(self) -> None:
        """Stream as a member of a group in Kafka."""
        membership = {"session.timeout.ms": "30000"}  # the longest that 0.9 allows
        self._stream(self._brokers, membership)

    def exactly_once(self) -> None:
        """Write the same rows twice, as a job that is repeated."""
        options = {**self._brokers, "topic": self._place.exact_target, "deliveryGuarantee": "exactly-once"}
        for _ in range(2):
            _save(self._rows(), {**options, "writerName": self._name, "batchId": "1"})
        self._require_rows(self._place.exact_target)

    def _rows(self) -> DataFrame:
        return self._spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")

    def _require_rows(self, topic: str) -> None:
        committed = {"isolation.level": "read_committed", **self._place.client_config}
        found = arrived(self._place.bootstrap_servers, topic, PARTITIONS, committed)
        written = sorted(int(value) for records in found.values() for _, key, value, *_ in records if key == value)
        _require(written, list(range(ROWS)))

    def _stream(self, connection: dict[str, str], membership: dict[str, str]) -> None:
        group = {"group.id": self._name, "auto.offset.reset": "earliest", **membership}
        source = self._spark.readStream.format("zkafka").options(**connection, **group, subscribe=self._place.source)
        rows: list[Any] = []
        writer = source.load().writeStream.foreachBatch(lambda batch, number: rows.extend(batch.collect()))
        with tempfile.TemporaryDirectory() as checkpoint:
            query = writer.option("checkpointLocation", checkpoint).start()
            query.processAllAvailable()
            query.processAllAvailable()  # a micro-batch is committed when the next one is planned
            query.stop()
        _require_each_record_once(rows)
        view = self._spark.read.format("zkafka").options(**connection, **{"view": "offsets", "group.id": self._name})
        committed = {row.partition: row.offset for row in view.load().collect()}
        _require(committed, dict.fromkeys(range(PARTITIONS), RECORDS))


WORKS: dict[str, Callable[[Works], None]] = {
    "read": Works.read,
    "write": Works.write,
    "group in ZooKeeper": Works.group_in_zookeeper,
    "group in Kafka": Works.group_in_kafka,
    "exactly once": Works.exactly_once,
}


def _save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("zkafka").options(**options).mode("append").save()


def _require_each_record_once(rows: list[Any]) -> None:
    found = sorted((row.partition, row.offset, int(bytes(row.value))) for row in rows)
    _require(found, [(p, offset, offset) for p in range(PARTITIONS) for offset in range(RECORDS)])


def _require(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"found {str(found)[:300]}, expected {str(expected)[:300]}")


def do(works: Works, name: str) -> dict[str, str]:
    """Do a kind of work; return its outcome: ``works``, ``refused`` with the condition, or ``failed`` with the error."""
    try:
        WORKS[name](works)
    except AssertionError as error:
        return {"outcome": "failed", "detail": str(error)}
    except Exception as error:  # noqa: BLE001 - of any engine
        if found := _CONDITION.search(str(error)):
            return {"outcome": "refused", "detail": found[1]}
        return {"outcome": "failed", "detail": "".join(traceback.format_exception(error))[-2000:]}
    return {"outcome": "works", "detail": ""}


@contextmanager
def _session(engine: str) -> Iterator[SparkSession]:
    if engine == "sail":
        from tests.support.sail import sail_session

        with sail_session() as spark:
            yield spark
        return
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    with SparkSession.builder.master("local[2]").config(map=settings).getOrCreate() as spark:
        yield spark


def main() -> None:
    """Do the works that are named after the place."""
    place = Place(**json.loads(sys.argv[1]))
    with _session(place.engine) as spark:
        version = "0.7" if place.engine == "sail" else spark.version
        works = Works(spark, place)
        for name in sys.argv[2:]:
            sys.stdout.write(json.dumps({"work": name, "version": version, **do(works, name)}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
