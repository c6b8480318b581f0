"""Plans micro-batches as Spark's planning process does, one after the other, and says so now and then.

Arguments: the options of the stream as JSON, the number of micro-batches, and of those after which it prints a line. Each
micro-batch must move the offset. The process ends when its standard input does, so that it can be looked at before.
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
    # Spark keeps offsets as JSON, and sends the splits to tasks.
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
