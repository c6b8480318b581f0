"""Views: columns, projections, allowed options, and the conversion of rows to Arrow."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_zkafka.engines import arrow_schema, struct_type
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.planning import Assign, Subscribe, SubscribePattern
from pyspark_zkafka.model.view_tables import VIEWS, build_view, require_view_projection, restrict, timestamp_us
from pyspark_zkafka.options.batch import parse_read
from tests.support.spark_types import spark_schema

DOCS = Path(__file__).parents[3] / "docs" / "columns.md"
ZOOKEEPER = {"zookeeper.connect": "zk:2181"}


def test_docs_have_every_column() -> None:
    """docs/columns.md lists the columns of each view in order, with their types."""
    sections = re.split(r"^## ", DOCS.read_text(), flags=re.MULTILINE)[1:]
    documented = {
        s.split("\n", 1)[0]: dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", s, re.MULTILINE)) for s in sections
    }
    assert list(documented) == list(VIEWS)
    assert [list(columns.items()) for columns in documented.values()] == [list(v.columns.items()) for v in VIEWS.values()]


@pytest.mark.parametrize("view", VIEWS)
def test_whole_schema_is_a_projection(view: str) -> None:
    """A view can be built with the schema that Spark passes back for its columns, even without rows."""
    schema = arrow_schema(struct_type(VIEWS[view].schema))
    assert schema == VIEWS[view].schema
    require_view_projection(view, schema)
    batch = build_view([{}], schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [dict.fromkeys(VIEWS[view].columns)]
    assert build_view([], schema).num_rows == 0


def test_projection_takes_subset_and_order() -> None:
    """A batch has the requested columns in order, even if there are none."""
    rows = [{"id": 1, "host": "h", "endpoints": ["PLAINTEXT://h:1"]}, {"id": 2}]
    assert build_view(rows, spark_schema("host string, id int")).to_pydict() == {"host": ["h", None], "id": [1, 2]}
    assert build_view(rows, pa.schema([])).num_rows == 2


def test_maps_and_timestamps() -> None:
    """Maps are built from pairs, and timestamps from microseconds."""
    row = {"subscription": [("a", 1), ("b", 2)], "timestamp": 1_795_228_865_441_000}
    batch = build_view([row], spark_schema("subscription map<string,int>, timestamp timestamp"))
    assert batch["subscription"].to_pylist() == [[("a", 1), ("b", 2)]]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [1_795_228_865_441_000]


def test_wrong_projection() -> None:
    """One error lists unknown columns and other types, and names the view's columns."""
    with pytest.raises(
        OptionError,
        match=r"INVALID_SCHEMA\] The schema cannot be read: .* 'nam'; it has topic, name, value; topic of .* is string",
    ):
        require_view_projection("configs", spark_schema("nam string, topic bigint"))
    with pytest.raises(OptionError, match=r"lag of view=offsets cannot be NOT NULL"):
        require_view_projection("offsets", pa.schema([pa.field("lag", pa.int64(), nullable=False)]))


@pytest.mark.parametrize(
    ("ms", "us"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        ("1795228865441", 1_795_228_865_441_000),
        (1_795_228_865_441, 1_795_228_865_441_000),
        ("253402300799999", 253_402_300_799_999_000),
        ("253402300800000", None),
        ("1e3", None),
        ("9" * 400, None),
    ],
)
def test_timestamps_of_znodes(ms: str | int | None, us: int | None) -> None:
    """Milliseconds as text become microseconds; other text, and times beyond Python's range, become null."""
    assert timestamp_us(ms) == us


def test_restrict() -> None:
    """A subscription restricts topics by name or by a pattern for the whole name, and the result is sorted."""
    assert restrict(None, ["b", "a", "b"]) == ["a", "b"]
    assert restrict(Subscribe(("b", "missing")), ["b", "a"]) == ["b"]
    assert restrict(SubscribePattern("a."), ["ab", "abc", "b"]) == ["ab"]
    assert restrict(Assign(()), ["a"]) == []


@pytest.mark.parametrize("view", VIEWS)
def test_options_beside_a_view(view: str) -> None:
    """Each view except the plan can be read without options, with connection options, and with its restrictions."""
    fits = {} if view in ("brokers", "controller", "members") else {"subscribe": "a,b"}
    group = {"group.id": "g"} if view in ("groups", "members", "owners", "offsets") else {}
    connection = {"kafka.bootstrap.servers": "h:1", "listener.name": "INTERNAL", "zookeeper.session.timeout.ms": "9000"}
    options = parse_read({**ZOOKEEPER, **connection, **fits, **group, "view": view.upper()})
    assert options.view == view
    assert options.group == group.get("group.id")


@pytest.mark.parametrize(
    ("view", "options", "problem"),
    [
        ("brokers", {"subscribe": "a"}, "view=brokers cannot be restricted to topics; leave out subscribe"),
        ("members", {"subscribePattern": "a"}, "view=members cannot be restricted to topics; leave out subscribePattern"),
        (
            "controller",
            {"subscribeExceptPattern": "a"},
            "view=controller cannot be restricted to topics; leave out subscribeExceptPattern",
        ),
        ("topics", {"group.id": "g"}, "view=topics shows no groups; leave out group.id"),
        ("partitions", {"assign": '{"a": [0]}'}, "assign is about reading records"),
        ("partitions", {"STARTINGOFFSETS": "earliest"}, "startingOffsets is about reading records"),
        ("partitions", {"failOnDataLoss": "false", "minPartitions": "2"}, r"failOnDataLoss is .*minPartitions is "),
    ],
)
def test_options_that_contradict_a_view(view: str, options: dict[str, str], problem: str) -> None:
    """One error refuses all options that have no effect on the view."""
    with pytest.raises(OptionError, match=problem):
        parse_read({**ZOOKEEPER, **options, "view": view})


def test_plan_of_a_read() -> None:
    """The plan view allows the options of a batch read and requires a subscription."""
    read = {"assign": '{"a": [0]}', "startingOffsets": "earliest", "minPartitions": "2"}
    assert parse_read({**ZOOKEEPER, **read, "view": "plan"}).min_partitions == 2
    with pytest.raises(OptionError, match=r"set one of subscribe, .* and assign: view=plan shows the plan of a read"):
        parse_read({**ZOOKEEPER, "view": "plan"})


@pytest.mark.parametrize("view", ["admin", "configs"])
def test_views_that_need_zookeeper(view: str) -> None:
    """A view that needs ZooKeeper is refused without it."""
    with pytest.raises(OptionError, match=f"view={view} .* needs zookeeper.connect"):
        parse_read({"kafka.bootstrap.servers": "h:1", "view": view})
