"""Process that runs tasks of an exactly-once write; see `tests.support.slot_tasks.TaskProcess`.

Its argument is JSON: the write's ``options`` and the ``query``. Each line of standard input is a task in JSON, answered by
a line of JSON; an empty line ends a task's pause.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from pyspark_zkafka.errors import ZKafkaError
from tests.support.slot_tasks import SlotQuery, rows


def say(answer: dict[str, Any]) -> None:
    """Print an answer."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def taken(batches: Iterator[pa.RecordBatch], pause_after: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches; after `pause_after` of them, pause until a line arrives."""
    for number, batch in enumerate(batches, 1):
        yield batch
        if number == pause_after:
            say({"paused": number})
            sys.stdin.readline()


def run(query: SlotQuery, task: dict[str, Any]) -> dict[str, Any]:
    """Run a task, and return its outcome."""
    identity = {name: task[name] for name in ("slot", "run") if name in task}
    try:
        done = query.write(task["batch"], taken(rows(range(*task["rows"])), task["pause_after"]), **identity)
    except ZKafkaError as error:
        return {"error": str(error)}
    return {"rows": done.rows, "repeated": done.repeated}


def main() -> None:
    """Run tasks until standard input ends."""
    given = json.loads(sys.argv[1])
    query = SlotQuery(given["options"], given["query"])
    while line := sys.stdin.readline():
        say(run(query, json.loads(line)))


if __name__ == "__main__":
    main()
