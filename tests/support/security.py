"""Logins and passwords, reads and writes with them, and errors that must appear soon."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from pyspark_zkafka.write.plan import plan_write
from pyspark_zkafka.write.writers import ZKafkaWriter

SECRET = "open-sesame"
WRONG = "wrong-sesame"
MODULES = "org.apache.kafka.common.security"
SCHEMA = pa.schema([("value", pa.binary())])
Options = dict[str, str]
TEN = [b"%d" % n for n in range(10)]


def jaas_config(module: str, password: str = SECRET) -> str:
    """Return a login in Java's spelling."""
    return f'{MODULES}.{module} required username="alice" password="{password}";'


def password_login(password: str = SECRET) -> Options:
    """Return a login in librdkafka's spelling."""
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": password,
    }


JAVA_PLAIN = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas_config("plain.PlainLoginModule")}
JAVA_SCRAM = {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.sasl.jaas.config": jaas_config("scram.ScramLoginModule")}


def connecting(options: Options) -> Options:
    """Return the options without the topic to read."""
    return {name: value for name, value in options.items() if name != "subscribe"}


def read_values(options: Options) -> list[bytes]:
    """Return the sorted values of a topic, read as tasks do."""
    parsed = parse_read({"kafkaConsumer.pollTimeoutMs": "30000", **options})
    plan, reader = plan_batch(parsed), ZKafkaReader(parsed, SCHEMA)
    batches = (b for split in plan.splits for b in reader.read(SplitPartition((split,), plan.bootstrap_servers)))
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


def write_values(options: Options, values: list[bytes]) -> None:
    """Write values as a task does."""
    parsed = parse_write(options)
    ZKafkaWriter(parsed, plan_write(parsed)).write(
        iter([pa.record_batch([pa.array(values, pa.binary())], names=["value"])])
    )


def fails_soon(kind: type[ZKafkaError], match: str, call: Callable[[], object], within_s: float = 15) -> ZKafkaError:
    """Return the error of a call, which must fail much sooner than the time-outs of librdkafka and zkafka."""
    begin = time.monotonic()
    with pytest.raises(kind, match=match) as caught:
        call()
    assert time.monotonic() - begin < within_s
    return caught.value
