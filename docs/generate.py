"""Generate the pages from tables in the code. ``make docs`` runs this; a test compares the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark_zkafka import conditions
from pyspark_zkafka.errors import Condition, ZKafkaError
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED
from pyspark_zkafka.options.table import TABLE, Option
from pyspark_zkafka.testing import conditions as local

_OPTIONS = """# Options

After this page you know every option of `spark.read.format("zkafka")` and `df.write.format("zkafka")`. Names are
case-insensitive. Unknown names, malformed values and contradictions are refused in one error, before any task runs.

Of several options for a start, `startingTimestamp` wins over `startingOffsetsByTimestamp`, and that over
`startingOffsets`; ends likewise. `startingOffsets` as JSON must name every partition or its topic, unless
`auto.offset.reset` sets the start of the others. In a stream with `group.id`, partitions with an offset of the group need
no name.

| option | value | default | for | description |
|---|---|---|---|---|
"""
_PROPERTIES = """# Client properties: `kafka.*`

After this page you know what happens to a `kafka.*` option: it is translated for librdkafka, refused with the reason, or
passed on. None is dropped.

- Names of Kafka's Java clients, and aliases, are translated as in the first table.
- Properties that would have no effect, or would break reading or writing, are refused as in the second table. A write
  also refuses consumer properties, and a read refuses producer properties.
- Every other property is passed on under its own name; see librdkafka's
  [CONFIGURATION.md](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).
- An [exactly-once](exactly-once.md) write also refuses properties that only librdkafka has, such as `debug`.
- The direct transport limits a write's queue by `queue.buffering.max.kbytes` alone. There,
  `queue.buffering.max.messages` limits the records of each batch.

Before any task runs, the driver's librdkafka checks all properties together, and the error quotes its reason. A number
that it would misread, such as `10s`, is refused. The executors need the same librdkafka. Where it is linked statically
into confluent-kafka's module, the first client refuses bad properties with `UNUSABLE_KAFKA_PROPERTY`.

The tables cover Kafka's Java clients 3.9.1 and librdkafka 2.16.

## Translated

| property | for | librdkafka's | with |
|---|---|---|---|
"""
_ERRORS = """# Errors

After this page you know the cause and the remedy of each error. An error reads `[CONDITION] what happened, with what was
found. What to do.` Spark wraps it, and keeps only the text: read the line that starts with the condition. Others are
Spark's: see [When things go wrong](troubleshooting.md).

In Python, all errors are `ZKafkaError`s, with the attributes `condition`, `message`, `parameters` and `retriable`. The
tables have one heading for each class in `pyspark_zkafka.errors`. After a retriable error, the same call may succeed.
"""
_CLIENTS = {"C": "read", "P": "write", "CP": "both"}


def _option_row(option: Option) -> str:
    form = option.kind.form.replace("|", "\\|")
    form = f"`{form}`" if "[" in form else form  # Markdown would read brackets as a link
    default = option.derived or option.default or "-"
    doc = f"{option.doc} Secret." if option.secret else option.doc
    return f"| `{option.name}` | {form} | {default} | {', '.join(option.scopes)} | {doc} |\n"


def _translated() -> list[str]:
    rows = [row for row in PROPERTIES if row.targets != "="]
    return [
        f"| `{row.name}` | {_CLIENTS[row.clients]} | {_targets(row.target_names())} | {_condition(row.when)} |\n"
        for row in sorted(rows, key=lambda row: row.name)
    ]


def _targets(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "selects the format of the store"


def _condition(when: tuple[str | None, ...]) -> str:
    return " or ".join(f"`{when[0]}={value}`" for value in when[1:])


def pages() -> dict[str, str]:
    """Return the generated pages, by file name."""
    refused = "".join(f"| `{name}` | {reason} |\n" for name, reason in sorted(REFUSED.items()))
    return {
        "options.md": _OPTIONS + "".join(map(_option_row, TABLE)),
        "kafka-properties.md": _PROPERTIES
        + "".join(_translated())
        + "\n## Refused\n\n| property | why, and what to do |\n|---|---|\n"
        + refused,
        "errors.md": _ERRORS + _conditions(),
    }


def _conditions() -> str:
    by_class: dict[type[ZKafkaError], list[Condition[Any]]] = {}
    for found in [*vars(conditions).values(), *vars(local).values()]:
        if isinstance(found, Condition):
            by_class.setdefault(found.kind, []).append(found)
    return "".join(_section(kind, found) for kind, found in by_class.items())


def _section(kind: type[ZKafkaError], found: list[Condition[Any]]) -> str:
    above = [base.__name__ for base in kind.__mro__ if issubclass(base, ZKafkaError)][:0:-1]
    title = " > ".join([*above[1:], kind.__name__])
    meaning = (kind.__doc__ or "").strip().splitlines()[0]
    retriable = " Retriable." if kind.retriable else ""
    rows = "".join(f"| `{c.name}` | {c.cause} | {c.remedy} |\n" for c in found)
    return f"\n## {title}\n\n{meaning}{retriable}\n\n| condition | cause | remedy |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    for name, text in pages().items():
        (Path(__file__).parent / name).write_text(text)
