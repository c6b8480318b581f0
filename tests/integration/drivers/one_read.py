"""Reads a topic without Spark, by options in JSON, and prints as JSON the values or the error, and the seconds."""

from __future__ import annotations

import json
import sys
import time

from pyspark_zkafka.errors import ZKafkaError
from tests.support.security import read_values

if __name__ == "__main__":
    found, begin = {}, time.monotonic()
    try:
        found["values"] = [value.decode() for value in read_values(json.loads(sys.argv[1]))]
    except ZKafkaError as failed:
        found["error"] = str(failed)
    sys.stdout.write(json.dumps({**found, "seconds": time.monotonic() - begin}))
