"""Who a task of an exactly-once write is, and what of its rows it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.exactly_once import Attempt
from pyspark_zkafka.model.group_jobs import GroupJob
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.write.exactly_once import Writing, identify, write_rows_once
from pyspark_zkafka.write.plan import LedgerPlan, WritePlan
from pyspark_zkafka.write.rows import Written
from tests.support.cases import each

RUN = "0b5e1f2c-6a5e-4c5b-9a43-0d0a3a1c2b3d"
QUERY = "8f1c2d3e-0000-4000-8000-000000000001"
CALL = "11112222333344445555666677778888"


@dataclass
class Context:
    """What Spark tells a task."""

    slot: int = 3
    properties: dict[str, str] = field(default_factory=dict)

    def partitionId(self) -> int:  # noqa: N802
        """The slot."""
        return self.slot

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        """A property of the job."""
        return self.properties.get(name)


def of_query(run: str = RUN, batch: int = 7) -> Context:
    """A task of a query's micro-batch."""
    found = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch), "spark.jobGroup.id": run}
    return Context(properties=found)


ONCE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "orders", "deliveryGuarantee": "exactly-once"}


def identified(context: Context, *, call: str = "", job: GroupJob | None = None, **options: str) -> Writing:
    """The attempt of a task."""
    return identify(context, parse_write({**ONCE, **options}), LedgerPlan("orders", 4, call, job))  # type: ignore[arg-type]


def test_stream() -> None:
    """A query's sink writes under the query's id, in the run's name."""
    found = identified(of_query())
    assert str(found.name) == f"zkafka-{QUERY}"
    assert found.attempt == Attempt(3, 7, RUN)


@pytest.mark.parametrize(("writer", "name", "is_named"), [(None, "orders", False), ("audit", "audit", True)])
def test_write_in_foreach_batch(writer: str | None, name: str, is_named: bool) -> None:
    """A write in foreachBatch has its own name, that of its topic by default, and knows its call."""
    found = identified(of_query(), call=CALL, **({} if writer is None else {"writerName": writer}))
    assert (str(found.name), found.query) == (f"zkafka-{QUERY}-{name}", QUERY)
    assert found.attempt == Attempt(3, 7, RUN, CALL, is_named=is_named)


COMMITS = {"group.id": "g", "commitOffsets": '{"t": {"0": 1}}', "offsets.storage": "kafka"}
NAMED = {"writerName": "audit", "batchId": "7"}


@each(
    ("context", "call", "options", "reason"),
    [
        (Context(), CALL, {}, "does not say which micro-batch it belongs to"),
        (Context(), CALL, {"writerName": "audit"}, "does not say which micro-batch"),
        (Context(), CALL, COMMITS, "the group has committed all of commitOffsets already, or they are too many"),
        (Context(), "", {}, "does not say which micro-batch"),
        (Context(3, {"sql.streaming.queryId": QUERY}), CALL, {}, "does not say which micro-batch"),
        (of_query("etl"), CALL, {}, r"job group \('etl'\) hides the run"),
        (of_query("etl"), CALL, {"writerName": "audit"}, r"job group \('etl'\)"),
        (of_query(""), "", {}, r"job group \(''\)"),
    ],
)
def test_unnamed_write(context: Context, call: str, options: dict[str, str], reason: str) -> None:
    """A write that could not be recognised when it is repeated is refused; the error says how to name it."""
    with pytest.raises(OptionError, match=rf"\[UNNAMED_WRITE\].*{reason}.*Set writerName.* and batchId"):
        identified(context, call=call, **options)


def test_batch_job() -> None:
    """A named batch job is recorded under its name and its number, which each run of it shares."""
    found = identified(Context(), call=CALL, **NAMED)
    assert str(found.name) == "zkafka-writer.audit"
    assert found.attempt == Attempt(3, 7, CALL)


@pytest.mark.parametrize("run", [RUN, "etl"])
def test_numbered_write_in_foreach_batch(run: str) -> None:
    """It has the same name where Spark says the micro-batch, so that a query may move to Connect; the query is known."""
    found = identified(of_query(run), call=CALL, **NAMED)
    assert (str(found.name), found.query) == ("zkafka-writer.audit", QUERY)
    assert found.attempt == Attempt(3, 7, run, CALL, is_named=True)


def test_another_number_in_foreach_batch() -> None:
    """Another number than that of the micro-batch is refused: a thread of an earlier one may have kept it."""
    with pytest.raises(OptionError, match=r"batchId is 7, but the write belongs to micro-batch 8"):
        identified(of_query(batch=8), call=CALL, **NAMED)


def test_job_of_a_group() -> None:
    """A batch job that commits a group's offsets is recorded under the group, with its number and these offsets."""
    found = identified(Context(), call=CALL, job=GroupJob("group.billing", 4, '{"orders":{"0":7}}'))
    assert str(found.name) == "zkafka-group.billing"
    assert found.attempt == Attempt(3, 4, CALL, ends='{"orders":{"0":7}}')


class Opened(Exception):
    """A producer is opened under a transactional id."""


def write(context: Context, *values: bytes, call: str = "") -> Written:
    """Write rows of a task; raises Opened where that takes a producer."""
    options: WriteOptions = parse_write(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "deliveryGuarantee": "exactly-once"}
    )
    plan = WritePlan("127.0.0.1:1", {}, ledger=LedgerPlan("t", 1, call))
    rows = pa.record_batch([pa.array(values, pa.binary())], names=["value"])
    return write_rows_once(options, plan, iter([rows]), context)  # type: ignore[arg-type]


@pytest.fixture
def _no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_transactional(connection: object, properties: Mapping[str, str], *more: object, anew: bool) -> None:
        raise Opened(properties["transactional.id"])

    monkeypatch.setattr("pyspark_zkafka.write.exactly_once.open_transactional", open_transactional)


def test_unnamed_write_without_rows() -> None:
    """A task that has no rows needs no name: a group's job that is run again finds nothing left to read."""
    assert write(Context(), call=CALL).rows == {}
    with pytest.raises(OptionError, match="UNNAMED_WRITE"):
        write(Context(), b"v", call=CALL)


@pytest.mark.usefixtures("_no_producer")
def test_id_of_a_slot() -> None:
    """Every run writes a slot under the same transactional id, by which it fences the producers of earlier runs."""
    for run in (RUN, RUN.replace("0", "1")):
        with pytest.raises(Opened, match=rf"^zkafka-{QUERY}-3$"):
            write(of_query(run), b"v")


@pytest.mark.usefixtures("_no_producer")
def test_micro_batch_without_rows() -> None:
    """A slot without rows looks for those that another run may have recorded, in the first micro-batch of a run only."""
    for run in (RUN.replace("0", "2"), RUN.replace("0", "3")):
        with pytest.raises(Opened):
            write(of_query(run, 7))
        assert write(of_query(run, 8)).rows == {}
