"""Writes the pages that are made from tables in the code: run by ``make docs``, compared by a test."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from pyspark_zkafka.error_catalogue import CATALOGUE, Condition
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.client_property_table import PROPERTIES
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

What follows `kafka.` goes to librdkafka. No property is dropped: it is translated, refused with the reason, or passed on.

- Spellings of Kafka's Java clients, and aliases, are translated as the first table says.
- Properties that would have no effect, or would break reading or writing, are refused: see the second table. So are
  properties of consumers alone in a write, and those of producers alone in a read.
- Every other property that librdkafka has is passed on by its own name; see librdkafka's
  [CONFIGURATION.md](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md). Before any task runs, the
  librdkafka that is installed on the driver is asked whether it has the name and takes the value. A number must be written
  as librdkafka reads it: `10s`, which it would read as 10, is refused. The executors need the same librdkafka.

If the driver's librdkafka cannot be asked, since it is linked statically into confluent-kafka's module, these properties
are passed on unchecked, and the first client that is made refuses them with `UNUSABLE_KAFKA_PROPERTY`.

The tables have what Kafka's Java clients 3.9.1 and librdkafka 2.16 have.

## Translated

| property | for | librdkafka's | with |
|---|---|---|---|
"""
_ERRORS = """# Errors

An error reads `[CONDITION] what happened; what was found; what to do`. Spark wraps it in errors of its own, of which only
the text survives: read the line that begins with the condition. Errors that are not listed here are Spark's, see
[Troubleshooting](troubleshooting.md).

In Python, all of these are `ZKafkaError`s, by the classes of `pyspark_zkafka.errors` that head the tables, with the
attributes `condition`, `message`, `parameters` and `retriable`. A retriable error may pass when the call is repeated.
"""
_CLIENTS = {"C": "read", "P": "write", "CP": "both"}


def _translated() -> list[str]:
    rows = [row for row in PROPERTIES if row.targets != "="]
    return [
        f"| `{row.name}` | {_CLIENTS[row.clients]} | {_targets(row.target_names())} | {_condition(row.when)} |\n"
        for row in sorted(rows, key=lambda row: row.name)
    ]


def _targets(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "says how others are meant"


def _condition(when: tuple[str | None, ...]) -> str:
    return " or ".join(f"`{when[0]}={value}`" for value in when[1:])


def pages() -> dict[str, str]:
    """The generated pages, by file name."""
    refused = "".join(f"| `{name}` | {reason} |\n" for name, reason in _refused())
    return {
        "options.md": _OPTIONS + table_markdown(),
        "kafka-properties.md": _PROPERTIES
        + "".join(_translated())
        + "\n## Refused\n\n| property | why, and what to do |\n|---|---|\n"
        + refused,
        "errors.md": _ERRORS + "".join(_section(kind, list(found)) for kind, found in groupby(CATALOGUE, lambda c: c.kind)),
    }


def _section(kind: type[ZKafkaError], conditions: list[Condition]) -> str:
    above = [base.__name__ for base in kind.__mro__ if issubclass(base, ZKafkaError)][:0:-1]
    title = " > ".join([*above[1:], kind.__name__])
    says = (kind.__doc__ or "").strip().splitlines()[0]
    passes = " Retriable." if kind.retriable else ""
    rows = "".join(f"| `{c.name}` | {c.cause} | {c.remedy} |\n" for c in conditions)
    return f"\n## {title}\n\n{says}{passes}\n\n| condition | cause | remedy |\n|---|---|---|\n{rows}"


def _refused() -> list[tuple[str, str]]:
    return sorted(REFUSED.items())


if __name__ == "__main__":
    for name, text in pages().items():
        (Path(__file__).parent / name).write_text(text)
