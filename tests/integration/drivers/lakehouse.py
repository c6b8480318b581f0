"""Runs the blocks of docs/lakehouse.md for Delta Lake or Iceberg three times, and prints as JSON what the tables have then.

Each run is one of the same program, started anew. Before the second, the end of each query's last micro-batch is deleted
from its checkpoint, as if the driver had died before it was stored. Before the third, the topic gets another record.

Arguments: Delta Lake or Iceberg, the paths of its jars, the brokers, the topic, and a folder for tables and checkpoints.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.support.documentation import ROOT, blocks
from tests.support.repeated_batches import ended_batches, forget_last_end

CHECKPOINTS = ("orders", "audit", "latest")
TABLES = {
    "Delta Lake": {"orders": "delta.`/data/orders`", "audit": "delta.`/data/audit`", "latest": "delta.`/data/latest`"},
    "Iceberg": {"orders": "lake.shop.orders", "audit": "lake.shop.audit", "latest": "lake.shop.latest"},
}
LATE = "SELECT 'a' AS key, 'late' AS value"


class Program:
    """The blocks of the page for one of the formats, with real addresses."""

    def __init__(self, name: str, jars: str, brokers: str, topic: str, folder: Path) -> None:
        self._name = name
        self._jars = jars
        self._brokers = brokers
        self._topic = topic
        self._folder = folder
        self.names: dict[str, Any] = {}

    def run(self) -> None:
        """Run all blocks. A query runs until it has read all records."""
        for block in blocks(ROOT / "docs" / "lakehouse.md"):
            if (block.reason or "").endswith((f"with {self._name}", "with both")):
                exec(compile(self.real(block.text), str(block), "exec"), self.names)
                for query in self.names["spark"].streams.active if "spark" in self.names else ():
                    query.processAllAvailable()
                    query.stop()

    def real(self, text: str) -> str:
        """Replace addresses, the topic and folders, and the coordinates of jars by their files."""
        text = re.sub(r'"spark\.jars\.packages": \(?\s*"[^"]+"\s*\)?', f'"spark.jars": "{self._jars}"', text)
        text = text.replace("broker1:9092", self._brokers).replace('subscribe="orders"', f'subscribe="{self._topic}"')
        return text.replace("/data/", f"{self._folder}/data/").replace("/checkpoints/", f"{self._folder}/checkpoints/")

    def tables(self) -> dict[str, list[list[Any]]]:
        """Return key and value of each row, by table."""
        found = {}
        for table, name in TABLES[self._name].items():
            rows = self.names["spark"].sql(f"SELECT key, value FROM {self.real(name)}").collect()
            found[table] = sorted(([*row] for row in rows), key=str)
        return found

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints of the page's queries."""
        return [self._folder / "checkpoints" / name for name in CHECKPOINTS]


def main(name: str, jars: str, brokers: str, topic: str, folder: str) -> None:
    """Run the page three times."""
    program = Program(name, jars, brokers, topic, Path(folder))
    program.run()
    answer: dict[str, Any] = {"first": program.tables()}
    answer["forgotten"] = [forget_last_end(checkpoint) for checkpoint in program.checkpoints()]
    program.run()
    answer["repeated"] = program.tables()
    answer["ended"] = [ended_batches(checkpoint)[-1] for checkpoint in program.checkpoints()]
    spark = program.names["spark"]
    sink = spark.sql(LATE).write.format("zkafka").options(**{"kafka.bootstrap.servers": brokers}, topic=topic)
    sink.mode("append").save()
    program.run()
    answer["later"] = program.tables()
    spark.stop()
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
