"""Generate the pages from tables and docstrings in the code. ``make docs`` runs this; a test compares the pages."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark_zkafka import conditions
from pyspark_zkafka.errors import Condition, ZKafkaError
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED
from pyspark_zkafka.options.table import TABLE, Option
from pyspark_zkafka.testing import conditions as local

DOCS = Path(__file__).parent

_OPTIONS = """# Options

This page lists every option of `spark.read.format("zkafka")` and `df.write.format("zkafka")`. Names are case-insensitive.
Unknown names, malformed values and contradictions are refused in one error, before any task runs.

- Several options set a start: `startingTimestamp` wins over `startingOffsetsByTimestamp`, which wins over
  `startingOffsets`. The options of ends have the same order.
- `startingOffsets` as JSON must name every partition or its topic, unless `auto.offset.reset` sets the start of the others.
  In a stream with `group.id`, a partition need not be named if the group has an offset for it.

| option | value | default | for | description |
|---|---|---|---|---|
"""
_PROPERTIES = """# Client properties: `kafka.*`

This page says what happens to each `kafka.*` option: it is translated for librdkafka, refused with a reason, or passed on.
None is ignored.

- The [first table](#translated) has names of Kafka's Java clients, and aliases, that are translated.
- The [second table](#refused) has properties that are refused: they would have no effect, or would break reading or
  writing. A write also refuses consumer properties, and a read refuses producer properties.
- Every other property is passed on under its own name; see librdkafka's
  [CONFIGURATION.md](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).
- An [exactly-once](exactly-once.md) write also refuses properties that only librdkafka has, such as `debug`.
- With the direct transport, only `queue.buffering.max.kbytes` limits a write's queue. There,
  `queue.buffering.max.messages` limits the records of each batch.

Before any task runs, the driver's librdkafka checks all properties together, and the error quotes its reason. A number
that it would misread, such as `10s`, is refused. The executors need the same librdkafka. If librdkafka is linked statically
into confluent-kafka's module, bad properties are refused later, by the first client (`UNUSABLE_KAFKA_PROPERTY`).

The tables cover Kafka's Java clients 3.9.1 and librdkafka 2.16.

## Translated

| property | for | librdkafka's | with |
|---|---|---|---|
"""
_REFUSED = """
## Refused

| property | why, and what to do |
|---|---|
"""
_ERRORS = """# Errors

This page lists the cause and the remedy of every error of this package, by the name of its condition. An error reads
`[CONDITION] what happened, with what was found. What to do.` Search this page for the name in brackets. Spark wraps an
error, and keeps only its text: look for the line that starts with a condition.

Errors without a condition are Spark's: see [When things go wrong](troubleshooting.md). The conditions of clusters that
`zkafka cluster` or a test starts are in [Errors of local clusters](errors-local-cluster.md).

## Conditions

| condition | cause | remedy |
|---|---|---|
"""
_CLASSES = """
## Classes

In Python, all errors are `ZKafkaError`s, with the attributes `condition`, `message`, `parameters` and `retriable`. After a
retriable error, the same call may succeed. These classes are in `pyspark_zkafka.errors`:

| class | meaning | conditions |
|---|---|---|
"""
_LOCAL = """# Errors of local clusters

This page lists the errors of clusters on your own machine: those of `zkafka cluster up`, `zkafka demo` and [tests with real
servers](testing.md). All of them are a `LocalClusterError`. The other errors are in [Errors](errors.md).

| condition | cause | remedy |
|---|---|---|
"""
_API = """# Python API

This page lists the public classes and functions of the package. Most jobs need none of them: `format("zkafka")` and
[options](options.md) suffice. The site that `make site` builds also has their parameters, and so has `help()` in Python.
"""
_CLIENTS = {"C": "read", "P": "write", "CP": "both"}


class _Section(NamedTuple):
    """A section of the page of the API: its names, by the module that defines them, and what the site shows of them."""

    title: str
    intro: str
    names: dict[str, tuple[str, ...]]
    in_site: tuple[str, ...]


def _members(module: str, *names: str) -> str:
    return f"pyspark_zkafka.{module}\n    options:\n      show_root_heading: false\n      members: [{', '.join(names)}]"


_TOOLS = ("run_kafka_tool", "describe_group", "list_groups", "export_offsets", "verify_consumer_rebalance")
_PICTURES = ("lag_over_time", "assignment_map", "leader_balance")
_FIXTURES = ("zkafka_cluster", "zkafka_mock_cluster", "zkafka_schema_registry")
_SECTIONS = (
    _Section(
        "Batch jobs in a group",
        "`from pyspark_zkafka import ConsumerGroup`; see [Share a consumer group](groups.md#batch-jobs).",
        {"consumer_group": ("ConsumerGroup", "GroupBatch")},
        ("pyspark_zkafka.consumer_group.ConsumerGroup", "pyspark_zkafka.consumer_group.GroupBatch"),
    ),
    _Section(
        "Watch and draw",
        "`from pyspark_zkafka import LagListener`, and `from pyspark_zkafka.plot import lag_over_time`; see\n"
        "[Metrics](metrics.md#laglistener) and [Pictures](views.md#pictures).",
        {"lag_listener": ("LagListener",), "plot": _PICTURES},
        ("pyspark_zkafka.lag_listener.LagListener", _members("plot", *_PICTURES)),
    ),
    _Section(
        "Errors",
        "`from pyspark_zkafka import ZKafkaError`. [Errors](errors.md#classes) has its subclasses, and all conditions.",
        {"errors": ("ZKafkaError",)},
        ("pyspark_zkafka.errors.ZKafkaError",),
    ),
    _Section(
        "The data source",
        "`from pyspark_zkafka import ZKafkaDataSource`, to [register it](deploy.md#which-python-spark-runs).",
        {"source": ("ZKafkaDataSource",)},
        ("pyspark_zkafka.source.ZKafkaDataSource\n    options:\n      members: false",),
    ),
    _Section(
        "Tests with real servers",
        "`from pyspark_zkafka.testing import LocalCluster`, for example. The fixtures need no import; see [Test your "
        "job](testing.md).",
        {
            "testing/local_cluster": ("LocalCluster",),
            "testing/detached": ("attach",),
            "testing/mock_cluster": ("MockCluster",),
            "testing/servers": ("LocalSchemaRegistry",),
            "testing/jvm_clients": ("OldConsumer", *_TOOLS),
            "testing/jars": ("fetch_jars", "cache_folder"),
            "testing/plugin": _FIXTURES,
        },
        (
            "pyspark_zkafka.testing.local_cluster.LocalCluster\n    options:\n      inherited_members: true",
            "pyspark_zkafka.testing.detached.attach",
            "pyspark_zkafka.testing.mock_cluster.MockCluster",
            "pyspark_zkafka.testing.servers.LocalSchemaRegistry",
            "pyspark_zkafka.testing.jvm_clients.OldConsumer",
            _members("testing.jvm_clients", *_TOOLS),
            _members("testing.jars", "fetch_jars", "cache_folder"),
            *(f"pyspark_zkafka.testing.plugin.{fixture}" for fixture in _FIXTURES),
        ),
    ),
)
_BASES = {"LocalCluster": ("testing/servers", "ClusterServers")}
"""Classes of the package whose public members a listed class inherits."""
_NOT_LISTED = ("ZKafkaDataSource.", "LagListener.on", "ZKafkaError.define", "LocalCluster.adopt")
"""Beginnings of the names of methods that only Spark or the package itself calls."""


def pages() -> dict[str, str]:
    """Return the generated pages, by file name."""
    everywhere = _conditions(conditions)
    return {
        "options.md": _OPTIONS + "".join(map(_option_row, TABLE)),
        "kafka-properties.md": _PROPERTIES + "".join(_translated()) + _REFUSED + "".join(_refused()),
        "errors.md": _ERRORS + _rows(everywhere) + _CLASSES + "".join(_classes(everywhere)),
        "errors-local-cluster.md": _LOCAL + _rows(_conditions(local)),
        "api.md": _API + "".join(map(_api, _SECTIONS)),
    }


def _option_row(option: Option) -> str:
    form = option.kind.form.replace("|", "\\|")
    form = f"`{form}`" if "[" in form else form  # Markdown would read brackets as a link
    default = option.derived or option.default or "-"
    doc = f"{option.doc} Secret." if option.secret else option.doc
    return f"| `{option.name}` | {form} | {default} | {', '.join(option.scopes)} | {doc} |\n"


def _translated() -> list[str]:
    rows = [row for row in PROPERTIES if row.targets != "="]
    return [
        f"| `{row.name}` | {_CLIENTS[row.clients]} | {_targets(row.target_names())} | {_when(row.when)} |\n"
        for row in sorted(rows, key=lambda row: row.name)
    ]


def _targets(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "selects the format of the store"


def _when(when: tuple[str | None, ...]) -> str:
    return " or ".join(f"`{when[0]}={value}`" for value in when[1:])


def _refused() -> Iterator[str]:
    """Yield a row for each reason, with all properties that are refused for it."""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(REFUSED.items()):
        names.setdefault(reason, []).append(f"`{name}`")
    return (f"| {', '.join(some)} | {reason} |\n" for reason, some in names.items())


def _conditions(module: Any) -> list[Condition[Any]]:
    return [found for found in vars(module).values() if isinstance(found, Condition)]


def _rows(found: Iterable[Condition[Any]]) -> str:
    ordered = sorted(found, key=lambda condition: condition.name)
    return "".join(f"| `{c.name}` | {c.cause} | {c.remedy} |\n" for c in ordered)


def _classes(found: Iterable[Condition[Any]]) -> Iterator[str]:
    """Yield a row for each class, below the classes that it is derived from."""
    by_class: dict[type[ZKafkaError], list[str]] = {}
    for condition in found:
        by_class.setdefault(condition.kind, []).append(condition.name)
    for kind, names in by_class.items():
        bases = [base.__name__ for base in kind.__mro__[::-1] if issubclass(base, ZKafkaError)]
        meaning = (kind.__doc__ or "").strip().splitlines()[0] + (" Retriable." if kind.retriable else "")
        listed = ", ".join(f"`{name}`" for name in sorted(names))
        yield f"| {' > '.join(f'`{name}`' for name in bases[1:] or bases)} | {meaning} | {listed} |\n"


def _api(section: _Section) -> str:
    rows = [row for module, names in section.names.items() for name in names for row in _api_rows(module, name)]
    table = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in rows)
    directives = "\n\n".join(f"::: {directive}" for directive in section.in_site)
    return (
        f"\n## {section.title}\n\n{section.intro}\n\n| name | |\n|---|---|\n{table}"
        f"\n<!-- only in the site\n{directives}\n-->\n"
    )


def _api_rows(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield a class or function, and the public methods and properties of a class, with the beginning of their docs."""
    node = _definition(module, name)
    yield name if isinstance(node, ast.ClassDef) or name in _FIXTURES else f"{name}()", _first_paragraph(node)
    if isinstance(node, ast.ClassDef):
        inherited = [_definition(*_BASES[name])] if name in _BASES else []
        for member in [member for one in (node, *inherited) for member in one.body]:
            full = f"{name}.{getattr(member, 'name', '_')}"
            if isinstance(member, ast.FunctionDef) and "._" not in full and not full.startswith(_NOT_LISTED):
                is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in member.decorator_list)
                yield full if is_property else f"{full}()", _first_paragraph(member)


def _definition(module: str, name: str) -> Any:
    tree = ast.parse((DOCS.parent / "pyspark_zkafka" / f"{module}.py").read_text(encoding="utf-8"))
    (node,) = (node for node in tree.body if getattr(node, "name", None) == name)
    return node


def _first_paragraph(node: Any) -> str:
    return " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
