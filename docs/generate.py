"""Writes the pages that are made from tables in the code: run by ``make docs``, compared by a test."""

from __future__ import annotations

from pathlib import Path

from pyspark_zkafka.options.client_property_table import ACCEPTED
from pyspark_zkafka.options.refused_client_properties import REFUSED
from pyspark_zkafka.options.table import table_markdown

_OPTIONS = """# Options

For `spark.read.format("zkafka")` and `df.write.format("zkafka")`. Names are case-insensitive. An unknown name, a value that
does not fit and options that contradict each other are refused, all in one error, before any task runs.

Where several options say where to start, `startingTimestamp` wins over `startingOffsetsByTimestamp`, and that over
`startingOffsets`; likewise for the end. `startingOffsets` as JSON must name every partition that is read (or its whole
topic), unless `auto.offset.reset` says where the others start.

"""
_PROPERTIES = """# Client properties: `kafka.*`

What follows `kafka.` goes to librdkafka. Java's spellings are translated where librdkafka has a twin; everything else is
refused with the reason, so that no setting is dropped without a word.

The tables have what Kafka's Java clients 3.9.1 and librdkafka 2.16 have. A property that only a newer librdkafka has is
passed on by its own name: the library that is installed on the driver says, before any task runs, whether it knows the name
and takes the value. The executors need one that does, too.

## Accepted

| property | for | librdkafka's |
|---|---|---|
"""
_CLIENTS = {"C": "read", "P": "write", "CP": "both"}


def _accepted() -> list[str]:
    rows = {
        (a.name, a.clients): f"| `{a.name}` | {_CLIENTS[a.clients]} | {_targets(a.target_names())} |\n" for a in ACCEPTED
    }
    return [rows[key] for key in sorted(rows)]


def _targets(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "says how others are meant"


def pages() -> dict[str, str]:
    """The generated pages, by file name."""
    refused = "".join(f"| `{name}` | {reason} |\n" for name, reason in _refused())
    return {
        "options.md": _OPTIONS + table_markdown(),
        "kafka-properties.md": _PROPERTIES
        + "".join(_accepted())
        + "\n## Refused\n\n| property | why, and what to do |\n|---|---|\n"
        + refused,
    }


def _refused() -> list[tuple[str, str]]:
    return sorted(REFUSED.items())


if __name__ == "__main__":
    for name, text in pages().items():
        (Path(__file__).parent / name).write_text(text)
