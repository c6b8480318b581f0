"""Records with headers that no client of Python can write."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.producer import CountingProducer, producer_properties


def write_header(servers: str, topic: str, name: bytes) -> None:
    """Write the record ``b"v"`` with one header, whose name may be any bytes, to partition 0.

    Neither confluent-kafka's producer nor a write by this package does that: the row is handed to the direct transport.
    """
    properties = producer_properties(parse_connection({"kafka.bootstrap.servers": servers}), servers)
    names = pa.Array.from_buffers(pa.string(), 1, pa.array([name]).buffers())
    entries = pa.StructArray.from_arrays([names, pa.array([b"x"])], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), entries)
    row = OutgoingBatch(topic, pa.array([b"v"]), None, None, None, headers)
    with CountingProducer(properties, DirectSender) as producer, producer.counting():
        producer.send(row, np.zeros(1, np.int32))
