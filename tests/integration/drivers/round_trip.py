"""Writes 100 rows to a topic and reads them with a given transport; prints the counts or the error.

Arguments: the brokers, the topic, the option transport.
"""

from __future__ import annotations

import sys
from unittest.mock import patch

import pyarrow as pa

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.rows import write_rows

COLUMNS = pa.schema([("key", pa.string()), ("offset", pa.int64())])


def write(given: dict[str, str], topic: str) -> int:
    options = parse_write({**given, "topic": topic})
    keys = pa.array([b"%d" % n for n in range(100)])
    batch = pa.record_batch([keys, keys], ["key", "value"])
    return write_rows(options, plan_write(options), iter([batch])).rows


def read(given: dict[str, str], topic: str) -> int:
    options = parse_read({**given, "subscribe": topic})
    plan, reader = plan_batch(options), ZKafkaReader(options, COLUMNS)
    with patch("pyspark_zkafka.read.readers.is_within_pyspark", return_value=True):  # as in a task of Spark
        batches = [b for split in plan.splits for b in reader.read(SplitPartition((split,), plan.bootstrap_servers))]
    return len({key for batch in batches for key in batch.column("key").to_pylist()})


def main(servers: str, topic: str, transport: str) -> str:
    given = {"kafka.bootstrap.servers": servers, "transport": transport}
    try:
        return f"{write(given, topic)} written, {read(given, topic)} read"
    except ZKafkaError as error:
        return str(error)


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]) + "\n")
