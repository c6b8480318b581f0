"""Generate the pages that are made from tables in the code: run by ``make docs``, compared by a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark_zkafka import conditions
from pyspark_zkafka.errors import Condition, ZKafkaError
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED
from pyspark_zkafka.options.table import TABLE, Derived, Option
from pyspark_zkafka.testing import conditions as local

_OPTIONS = """# Options

For `spark.read.format("zkafka")` and `df.write.format("zkafka")`. Names are case-insensitive. Unknown names, malformed
values and contradictory options are refused, all in one error, before any task runs.

If several options set the start, `startingTimestamp` takes precedence over `startingOffsetsByTimestamp`, and that over
`startingOffsets`; likewise for the end. `startingOffsets` as JSON must name every partition that is read (or its whole
topic), unless `auto.offset.reset` sets the start of the others.

| option | value | default | for | description |
|---|---|---|---|---|
"""
_PROPERTIES = """# Client properties: `kafka.*`

Options with the prefix `kafka.` are librdkafka's properties. None is dropped: each is translated, refused with the reason,
or passed on.

- Spellings of Kafka's Java clients, and aliases, are translated as in the first table.
- Properties that would have no effect, or would break reading or writing, are refused: see the second table. So are
  consumer properties in a write, and producer properties in a read.
- Every other property is passed on under its own name; see librdkafka's
  [CONFIGURATION.md](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).

Before any task runs, the driver's librdkafka judges names, values, and all properties together; an error has its reason.
A number that librdkafka would misread is refused, such as `10s`, which it reads as 10. The executors need the same
librdkafka.

If the driver's librdkafka cannot check properties, because it is linked statically into confluent-kafka's module, they
are passed on unchecked, and the first client refuses them with `UNUSABLE_KAFKA_PROPERTY`.

The tables cover Kafka's Java clients 3.9.1 and librdkafka 2.16.

## Translated

| property | for | librdkafka's | with |
|---|---|---|---|
"""
_ERRORS = """# Errors

An error reads `[CONDITION] what happened; what was found; what to do`. Spark wraps it in errors of its own, of which only
the text survives: read the line that begins with the condition. Errors that are not listed here are Spark's, see
[Troubleshooting](troubleshooting.md).

In Python, all of these are `ZKafkaError`s, of the classes in `pyspark_zkafka.errors` that head the tables, with the
attributes `condition`, `message`, `parameters` and `retriable`. After a retriable error, the same call may succeed.
"""
_CLIENTS = {"C": "read", "P": "write", "CP": "both"}


def _option_row(option: Option) -> str:
    form = option.kind.form.replace("|", "\\|")
    form = f"`{form}`" if "[" in form else form  # Markdown would read brackets as a link
    default = option.default.words if isinstance(option.default, Derived) else option.default or "-"
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
    """The generated pages, by file name."""
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
