"""Driver that plans micro-batches one after another, as Spark's planning process does, and reports progress.

Arguments: the stream's options as JSON, the number of micro-batches, and the number of micro-batches per printed line. Each
micro-batch must advance the offset. The process ends when its standard input does, so that a test can examine it first.
"""

from __future__ import annotations

import json
import pickle
import sys

from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_zkafka.source import ZKafkaDataSource


def main(options: str, count: int, every: int) -> None:
    source = ZKafkaDataSource(json.loads(options))
    reader = source.streamReader(StructType([StructField("value", BinaryType())]))
    # Spark stores offsets as JSON and sends the splits to tasks.
    end = json.dumps(reader.initialOffset())
    for number in range(1, count + 1):
        start = end
        end = json.dumps(reader.latestOffset(json.loads(start), reader.getDefaultReadLimit()))
        if json.loads(start) == json.loads(end):
            raise RuntimeError(f"micro-batch {number} has no records: {end}")
        pickle.dumps(reader.partitions(json.loads(start), json.loads(end)))
        reader.commit(json.loads(end))
        if number % every == 0:
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
    sys.stdin.read()
    reader.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
