"""The views: their columns, the options that they allow, and the conversion of their rows to Arrow.

docs/columns.md has the source of each column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_zkafka.conditions import INVALID_SCHEMA
from pyspark_zkafka.model.nouns import LAST_MS
from pyspark_zkafka.model.planning import Subscription, requested_topics

Row = Mapping[str, Any]
"""Values by column. A missing column is null. In views, timestamps are microseconds, and maps are lists of pairs."""


@dataclass(frozen=True, slots=True)
class View:
    """A view: its columns as Spark's DDL, whether topics and groups can restrict it, and whether it needs ZooKeeper.

    `of_read` marks the view of a batch read's plan, which allows all options of the read.
    """

    ddl: str
    has_topics: bool = True
    has_groups: bool = False
    needs_zookeeper: bool = True
    of_read: bool = False

    @property
    def columns(self) -> dict[str, str]:
        """The type of each column, in order."""
        return dict(column.split(" ") for column in self.ddl.split(", "))

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow's types."""
        return pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in self.columns.items()])


VIEWS = {
    "brokers": View(
        "id int, host string, port int, rack string, endpoints array<string>, version int, timestamp timestamp_ltz",
        has_topics=False,
        needs_zookeeper=False,
    ),
    "topics": View(
        "topic string, topic_id string, partitions int, replication int, config map<string,string>", needs_zookeeper=False
    ),
    "partitions": View(
        "topic string, partition int, leader int, leader_epoch int, isr array<int>, replicas array<int>, offline boolean, "
        "under_replicated boolean",
        needs_zookeeper=False,
    ),
    "controller": View(
        "broker int, epoch int, timestamp timestamp_ltz, cluster_id string", has_topics=False, needs_zookeeper=False
    ),
    "groups": View("group string, members int, topics array<string>", has_groups=True, needs_zookeeper=False),
    "members": View(
        "group string, consumer string, pattern string, subscription map<string,int>, timestamp timestamp_ltz, "
        "readable boolean, error string",
        has_topics=False,
        has_groups=True,
        needs_zookeeper=False,
    ),
    "owners": View(
        "group string, topic string, partition int, consumer string, thread string, broker int, error string",
        has_groups=True,
        needs_zookeeper=False,
    ),
    "offsets": View(
        "group string, topic string, partition int, offset bigint, latest bigint, lag bigint, timestamp timestamp_ltz, "
        "broker int, error string",
        has_groups=True,
        needs_zookeeper=False,
    ),
    "admin": View("operation string, topic string, partition int, replicas array<int>"),
    "configs": View("topic string, name string, value string"),
    "plan": View(
        "topic string, partition int, leader int, isr array<int>, rack string, start bigint, until bigint, records bigint, "
        "spark_partition int",
        needs_zookeeper=False,
        of_read=True,
    ),
}

_ARROW_TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}

_OF_EVERY_VIEW = ("zookeeper.", "kafka.", "listener.name")


def require_view_projection(view: str, schema: pa.Schema) -> None:
    """Raise OptionError with all problems of a user's schema, which may have any of the view's columns in any order."""
    columns, problems = VIEWS[view].columns, []
    for field in schema:
        if field.name not in columns:
            problems.append(f"view={view} has no column {field.name!r}; it has {', '.join(columns)}")
        elif field.type != _ARROW_TYPES[columns[field.name]]:
            problems.append(f"{field.name} of view={view} is {columns[field.name]}; declare it as that")
        elif not field.nullable:
            problems.append(f"{field.name} of view={view} cannot be NOT NULL; declare it without")
    if problems:
        raise INVALID_SCHEMA("The schema cannot be read: " + "; ".join(problems))


def view_problems(view: str, names: Iterable[str]) -> list[str]:
    """Return the problems of options that are given with a view."""
    return [problem for name in names if (problem := _problem(view, name)) is not None]


def _problem(view: str, name: str) -> str | None:
    if name == "view" or name.startswith(_OF_EVERY_VIEW) or VIEWS[view].of_read:
        return None
    if name in ("subscribe", "subscribePattern", "subscribeExceptPattern"):
        return None if VIEWS[view].has_topics else f"view={view} cannot be restricted to topics; leave out {name}"
    if name == "group.id":
        return None if VIEWS[view].has_groups else f"view={view} shows no groups; leave out group.id"
    return f"{name} is about reading records, and view={view} reads none; leave out one of them"


def restrict(subscription: Subscription | None, topics: Iterable[str]) -> list[str]:
    """Return the subscribed topics, sorted. Return all topics without a subscription."""
    found = set(topics)
    return sorted(found if subscription is None else found.intersection(requested_topics(subscription, found)))


def build_view(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Build one batch of all rows, in order. `require_view_projection` accepts the schema."""
    return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(list(schema))))


def timestamp_us(ms: str | int | None) -> int | None:
    """Return a znode's milliseconds, which may be text, as microseconds; None for other text, or after the year 9999.

    >>> timestamp_us("1795228865441"), timestamp_us("-1"), timestamp_us("soon")
    (1795228865441000, None, None)
    """
    if ms is None or not re.fullmatch("[0-9]{1,15}", str(ms)) or int(ms) > LAST_MS:
        return None
    return int(ms) * 1000
