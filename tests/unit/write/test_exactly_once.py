"""Identity of an exactly-once task, and the rows that it writes or leaves out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pytest

from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE
from pyspark_zkafka.errors import BrokersUnavailable, LedgerError, OptionError
from pyspark_zkafka.model.exactly_once import Attempt, RowSet
from pyspark_zkafka.model.ledger import Entry, GroupJob, LedgerKey, QueryName, SinkIdentity
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.write.exactly_once import Writing, _SlotTask, identify, write_rows_once
from pyspark_zkafka.write.plan import LedgerPlan, WritePlan
from pyspark_zkafka.write.rows import Written

RUN = "0b5e1f2c-6a5e-4c5b-9a43-0d0a3a1c2b3d"
QUERY = "8f1c2d3e-0000-4000-8000-000000000001"
CALL = "11112222333344445555666677778888"


@dataclass
class Context:
    """The part of Spark's TaskContext that identifies a task: its slot, its job's properties, and earlier attempts."""

    slot: int = 3
    properties: dict[str, str] = field(default_factory=dict)
    attempt: int = 0

    def partitionId(self) -> int:  # noqa: N802
        return self.slot

    def attemptNumber(self) -> int:  # noqa: N802
        return self.attempt

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self.properties.get(name)


def of_query(run: str = RUN, batch: int = 7) -> Context:
    """Return the context of a task in a query's micro-batch."""
    found = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch), "spark.jobGroup.id": run}
    return Context(properties=found)


ONCE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "orders", "deliveryGuarantee": "exactly-once"}


def identified(context: Context, *, call: str = "", job: GroupJob | None = None, **options: str) -> Writing:
    """Return the attempt of a task."""
    return identify(context, parse_write({**ONCE, **options}), LedgerPlan("orders", 4, call, job=job))  # type: ignore[arg-type]


def test_stream() -> None:
    """A query's sink writes under the query's id, in the run's name."""
    found = identified(of_query())
    assert str(found.name) == f"zkafka-{QUERY}"
    assert found.attempt == Attempt(3, 7, RUN)


@pytest.mark.parametrize(("writer", "name", "is_named"), [(None, "orders", False), ("audit", "audit", True)])
def test_write_in_foreach_batch(writer: str | None, name: str, is_named: bool) -> None:
    """A write in foreachBatch has its own name, by default its topic's, and records its call."""
    found = identified(of_query(), call=CALL, **({} if writer is None else {"writerName": writer}))
    assert str(found.name) == f"zkafka-{QUERY}-{name}"
    assert found.query == QUERY
    assert found.attempt == Attempt(3, 7, RUN, CALL, is_named=is_named)


COMMITS = {"group.id": "g", "commitOffsets": '{"t": {"0": 1}}', "offsets.storage": "kafka"}
NAMED = {"writerName": "audit", "batchId": "7"}


@pytest.mark.parametrize(
    ("context", "call", "options", "reason"),
    [
        (Context(), CALL, {}, "does not say which micro-batch it belongs to"),
        (Context(), CALL, {"writerName": "audit"}, "does not say which micro-batch"),
        (Context(), "", {}, "does not say which micro-batch"),
        (Context(3, {"sql.streaming.queryId": QUERY}), CALL, {}, "does not say which micro-batch"),
        (of_query("etl"), CALL, {}, r"job group \('etl'\) hides the run"),
        (of_query("etl"), CALL, {"writerName": "audit"}, r"job group \('etl'\)"),
        (of_query(""), "", {}, r"job group \(''\)"),
    ],
)
def test_unnamed_write(context: Context, call: str, options: dict[str, str], reason: str) -> None:
    """A write that could not be recognised when repeated is refused; the error says how to name it."""
    with pytest.raises(OptionError, match=rf"\[UNNAMED_WRITE\].*{reason}.*Set writerName.* and batchId"):
        identified(context, call=call, **options)


LONG = json.dumps({f"{'t' * 200}{n}": {"0": 1} for n in range(20)})


def test_unnamed_job_of_a_group() -> None:
    """A write with commitOffsets cannot have a batchId as well, and the error names the alternative."""
    reason = "the group has committed all of commitOffsets already, or they are longer than 3000 bytes"
    with pytest.raises(OptionError, match=rf"\[UNNAMED_WRITE\].*{reason}.*leave commitOffsets out, and set writerName"):
        identified(Context(), call=CALL, **COMMITS)


def test_remedy_of_an_unnamed_job_of_a_group() -> None:
    """Without commitOffsets a named write records its rows; a write without rows needs no name to commit."""
    assert str(identified(Context(), call=CALL, **NAMED).name) == "zkafka-writer.audit"
    assert write(Context(), call=CALL, **{**COMMITS, "commitOffsets": LONG}) == Written()


class Ledgers:
    """The ledgers of a cluster by name and topic, in ledger of `Ledger`."""

    found: ClassVar[dict[tuple[str, str], list[Entry]]] = {}

    def __init__(
        self, servers: str, kafka: object, name: QueryName, topic: str, partitions: int, sink: object, **_: object
    ) -> None:
        self._place = str(name), topic
        self.topic = topic

    def entry(self, slot: int) -> None: ...

    def entries(self) -> dict[int, Entry]:
        return {entry.slot: entry for entry in self.found.get(self._place, ())}

    def others(
        self, belongs: Callable[[str], bool], counts: Callable[[str, str], bool]
    ) -> dict[tuple[str, str], list[Entry]]:
        base, _ = self._place
        ours = {ledger for ledger in self.found if ledger[0] == base or belongs(ledger[0])} - {self._place}
        return {ledger: self.found[ledger] for ledger in ours if counts(*ledger)}


class Sent(Exception):
    """Raised when a task commits the rows it has sent."""


def commit(*_: object) -> None:
    """Raise Sent instead of a commit."""
    raise Sent


class Producer:
    """A new transactional producer that sends nothing."""

    left_s = 0.0
    transaction_timeout_ms = 1000

    def abort(self) -> None: ...


BY_ID, BY_NUMBER = f"zkafka-{QUERY}-audit", "zkafka-writer.audit"
UNNAMED = f"zkafka-{QUERY}-orders"
OTHER_TOPIC = ("zkafka-writer.audit", "invoices")


@pytest.mark.parametrize(
    ("context", "options", "ledger", "batch", "refusal"),
    [
        (of_query(), {"writerName": "audit"}, (BY_NUMBER, "orders"), 7, "LEDGER_MOVED"),
        (of_query(), {"writerName": "audit"}, (BY_NUMBER, "orders"), 6, ""),
        (of_query(), {"writerName": "audit"}, (BY_NUMBER, "orders"), 8, ""),
        (of_query(), {"writerName": "audit"}, OTHER_TOPIC, 7, ""),
        (of_query(), {"writerName": "other"}, (BY_NUMBER, "orders"), 7, ""),
        (of_query(), {}, ("zkafka-writer.orders", "orders"), 7, "LEDGER_MOVED"),
        (of_query(), NAMED, (BY_ID, "orders"), 7, "LEDGER_MOVED"),
        (of_query(), NAMED, (BY_ID, "orders"), 6, ""),
        (of_query(), NAMED, (BY_ID, "orders"), 8, "CHECKPOINT_ROLLED_BACK"),
        (Context(), NAMED, (BY_ID, "orders"), 7, "LEDGER_MOVED"),
        (Context(), NAMED, (UNNAMED, "orders"), 7, "LEDGER_MOVED"),
        (Context(), NAMED, (f"zkafka-{QUERY}", "orders"), 7, "LEDGER_MOVED"),
        (Context(), NAMED, (UNNAMED, "orders"), 8, ""),
        (Context(), NAMED, (UNNAMED, "invoices"), 7, ""),
        (Context(), NAMED, (f"zkafka-{QUERY}-invoices", "orders"), 7, ""),
        (Context(), NAMED, (f"team-{QUERY}-orders", "orders"), 7, ""),
        (Context(), NAMED, OTHER_TOPIC, 7, "LEDGER_MOVED"),
        (of_query("another run"), NAMED, OTHER_TOPIC, 7, "LEDGER_MOVED"),
    ],
)
def test_renumbered(
    monkeypatch: pytest.MonkeyPatch,
    context: Context,
    options: dict[str, str],
    ledger: tuple[str, str],
    batch: int,
    refusal: str,
) -> None:
    """A write whose batchId appears or disappears during an interrupted micro-batch is refused before it commits."""
    with pytest.raises(LedgerError if refusal else Sent, match=refusal or None):
        write_with(monkeypatch, {ledger: [Entry(0, batch, 5, "aa", "another run")]}, context, options)


@pytest.mark.parametrize(("topic", "expected"), [("orders", LedgerError), ("invoices", Sent)])
def test_renumbered_with_a_ledger_of_several_topics(
    monkeypatch: pytest.MonkeyPatch, topic: str, expected: type[Exception]
) -> None:
    """In a topic with ledgers of several topics, entries with rows of another topic belong to another write."""
    entry = Entry(0, 7, 5, "aa", "another run", sink=SinkIdentity(topic, 77))
    with pytest.raises(expected):
        write_with(monkeypatch, {(f"zkafka-{QUERY}", "orders"): [entry]}, Context(), NAMED)


def test_other_ledgers_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write of a name finds what it may have written under any other name with one listing of the groups."""
    others, calls = Ledgers.others, list[object]()
    monkeypatch.setattr(Ledgers, "others", lambda *given: calls.append(given) or others(*given))
    with pytest.raises(Sent):
        write_with(monkeypatch, {}, Context(), NAMED)
    assert len(calls) == 1


def write_with(
    monkeypatch: pytest.MonkeyPatch,
    found: dict[tuple[str, str], list[Entry]],
    context: Context,
    options: dict[str, str],
) -> None:
    """Write a row with these ledgers on the cluster. Raises Sent when it is committed."""
    monkeypatch.setattr(Ledgers, "found", found)
    monkeypatch.setattr("pyspark_zkafka.brokers.ledger_offsets.Ledger", Ledgers)
    monkeypatch.setattr("pyspark_zkafka.write.exactly_once.open_transactional", lambda *_, **__: nullcontext(Producer()))
    monkeypatch.setattr(_SlotTask, "_send", lambda *_: RowSet(1, "aa"))
    monkeypatch.setattr(_SlotTask, "_commit", commit)
    write(context, b"v", call=CALL, **options)


def test_batch_job() -> None:
    """A named batch job is recorded under its name and number, common to all its runs."""
    found = identified(Context(), call=CALL, **NAMED)
    assert str(found.name) == "zkafka-writer.audit"
    assert found.attempt == Attempt(3, 7, CALL, is_job=True)


@pytest.mark.parametrize(
    ("run", "attempt"),
    [
        (RUN, Attempt(3, 7, RUN, CALL, is_named=True)),
        ("etl", Attempt(3, 7, CALL, is_job=True)),
        ("", Attempt(3, 7, CALL, is_job=True)),
    ],
)
def test_numbered_write_in_foreach_batch(run: str, attempt: Attempt) -> None:
    """A named write in foreachBatch has the same name with and without Spark's micro-batch, so it can move to Connect.

    A job group of the user may be the same in the next run. Each call is then a run of its own.
    """
    found = identified(of_query(run), call=CALL, **NAMED)
    assert str(found.name) == "zkafka-writer.audit"
    assert found.query == QUERY
    assert found.attempt == attempt


def test_another_number_in_foreach_batch() -> None:
    """A batchId other than the micro-batch's is refused: a thread of an earlier micro-batch may have kept it."""
    with pytest.raises(OptionError, match=r"batchId is 7, but the write belongs to micro-batch 8"):
        identified(of_query(batch=8), call=CALL, **NAMED)


def test_job_of_a_group() -> None:
    """A batch job that commits a group's offsets is recorded under the group, with its number and these offsets."""
    found = identified(Context(), call=CALL, job=GroupJob("group.billing", 4, '{"orders":{"0":7}}'))
    assert str(found.name) == "zkafka-group.billing"
    assert found.attempt == Attempt(3, 4, CALL, is_job=True, ends='{"orders":{"0":7}}')


class Opened(Exception):
    """Raised when a producer is opened under a transactional id."""


def write(context: Context, *values: bytes, call: str = "", **options: str) -> Written:
    """Write rows of a task to the topic orders."""
    plan = WritePlan("127.0.0.1:1", {}, ledger=LedgerPlan("orders", 1, call))
    rows = pa.record_batch([pa.array(values, pa.binary())], names=["value"])
    return write_rows_once(parse_write({**ONCE, **options}), plan, iter([rows]), context)  # type: ignore[arg-type]


@pytest.fixture
def _no_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_transactional(properties: Mapping[str, str], *more: object) -> None:
        raise Opened(properties["transactional.id"])

    monkeypatch.setattr("pyspark_zkafka.write.exactly_once.open_transactional", open_transactional)


def test_unnamed_write_without_rows() -> None:
    """A task without rows needs no name: a group's repeated job may find nothing left to read."""
    assert write(Context(), call=CALL).rows == 0
    with pytest.raises(OptionError, match="UNNAMED_WRITE"):
        write(Context(), b"v", call=CALL)


@pytest.mark.usefixtures("_no_producer")
def test_id_of_a_slot() -> None:
    """Every run writes a slot under the same transactional id, which fences producers of earlier runs."""
    for run in (RUN, RUN.replace("0", "1")):
        with pytest.raises(Opened, match=rf"^zkafka-{QUERY}-3$"):
            write(of_query(run), b"v")


@pytest.mark.usefixtures("_no_producer")
def test_micro_batch_without_rows() -> None:
    """A slot without rows checks for rows of another run in the first micro-batch of a run; later, the driver checks."""
    for run in (RUN.replace("0", "2"), RUN.replace("0", "3")):
        with pytest.raises(Opened):
            write(of_query(run, 7))
        found = write(of_query(run, 8))
        assert found.rows == 0
        assert found.empty is not None
        assert str(found.empty.name) == f"zkafka-{QUERY}"
        assert found.empty.attempt.slot == 3


@pytest.mark.usefixtures("_no_producer")
def test_retry_without_rows() -> None:
    """A slot without rows checks for rows of an earlier attempt of its task, whatever its worker has seen."""
    run = RUN.replace("0", "4")
    for batch in (7, 8):
        with suppress(Opened):
            write(of_query(run, batch))
    with pytest.raises(Opened):
        write(replace(of_query(run, 8), attempt=1))


@pytest.mark.usefixtures("_no_producer")
def test_worker_that_has_seen_rows() -> None:
    """A worker that has written rows in the first micro-batch of a run need not check a slot without rows in the next."""
    run = RUN.replace("0", "5")
    with pytest.raises(Opened):
        write(of_query(run, 7), b"v")
    assert write(of_query(run, 8)).empty is not None


class Transaction:
    """A task's producer and ledger in one, on a clock that only pauses advance.

    An earlier run recorded slot 0, which the task's run verifies after `verified_s`. Another slot is recorded in the ledger
    with the base `elsewhere`. `committed` is the slot's entry.
    """

    topic, sink, is_open, may_lose_offsets = "orders", None, True, False

    def __init__(self, timeout_s: float = 60, verified_s: float = 0, elsewhere: str = "") -> None:
        self.transaction_timeout_ms = int(timeout_s * 1000)
        self.verified_s = verified_s
        self.elsewhere = elsewhere
        self.now = 0.0
        self.committed: tuple[object, ...] = ()
        self.ended: list[GroupOffset] = []

    @property
    def left_s(self) -> float:
        return self.transaction_timeout_ms / 1000 - self.now

    def sleep(self, pause_s: float) -> None:
        self.now += pause_s

    def send(self) -> RowSet:
        return RowSet(1, "0" * 32)

    def commit(self, *entry: object) -> None:
        self.committed = entry

    def abort(self) -> None: ...

    def entry(self, slot: int) -> Entry | None: ...

    def present_entry(self, slot: int) -> Entry | None:
        return self.entry(slot)

    def end_late_offset(self, offset: GroupOffset) -> None:
        self.ended.append(offset)

    def entries(self) -> dict[int, Entry]:
        return {0: Entry(0, 7, 1, "0" * 32, RUN if self.now >= self.verified_s else "earlier")}

    def others(self, belongs: Callable[[str], bool], _: object) -> dict[tuple[str, str], list[Entry]]:
        found = [Entry(0, 7, 1, "0" * 32, "earlier")]
        return {(self.elsewhere, "orders"): found} if belongs(self.elsewhere) else {}

    def key(self, slot: int) -> LedgerKey:
        return LedgerKey("g", 0)


def write_in(transaction: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a row of a micro-batch that an earlier run started."""

    @contextmanager
    def open_transactional(*arguments: object) -> Iterator[Transaction]:
        yield transaction

    module = "pyspark_zkafka.write.exactly_once"
    monkeypatch.setattr(f"{module}.open_transactional", open_transactional)
    monkeypatch.setattr("pyspark_zkafka.brokers.ledger_offsets.Ledger", lambda *_, **__: transaction)
    monkeypatch.setattr(_SlotTask, "_send", lambda *_: transaction.send())
    # Other threads of the process sleep, too: replace only what the module calls.
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(sleep=transaction.sleep, time=time.time))
    write(of_query(), b"v")


class Forgetful(Transaction):
    """Brokers that forget the entries of the first commits."""

    may_lose_offsets = True

    def __init__(self, forgotten: int) -> None:
        super().__init__()
        self._forgotten = forgotten
        self.renewed = 0

    def entry(self, slot: int) -> Entry | None:
        is_known = bool(self.committed) and self.renewed >= self._forgotten
        return Entry(slot, 7, 1, "0" * 32, RUN) if is_known else None

    def renew(self) -> None:
        self.renewed += 1


def test_forgotten_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that brokers have forgotten is committed again without rows; after five attempts, the task fails."""
    for forgotten in (0, 1, 4):
        brokers = Forgetful(forgotten)
        write_in(brokers, monkeypatch)
        assert brokers.renewed == forgotten
    with pytest.raises(LedgerError, match=r"LEDGER_FORGOTTEN.*rows of slot 3 of batch 7 are committed"):
        write_in(Forgetful(6), monkeypatch)


def test_later_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that stood still after its commit does not overwrite the entry that a later attempt has written since."""

    class Overtaken(Forgetful):
        commits = 0

        def entry(self, slot: int) -> Entry | None:
            if self.commits and not self.renewed:
                raise BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")
            return Entry(slot, 8, 1, "0" * 32, "later") if self.commits else None

        def commit(self, *entry: object) -> None:
            self.commits += 1

    brokers = Overtaken(1)
    write_in(brokers, monkeypatch)
    assert brokers.commits == 1
    assert brokers.renewed == 1
    assert brokers.ended == []


def test_entry_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer the entry of committed rows is looked for again, and in the end the brokers are the error."""

    class Silent(Forgetful):
        def entry(self, slot: int) -> Entry | None:
            if self.committed and self.renewed < self._forgotten:
                raise BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")
            return super().entry(slot)

    brokers = Silent(2)
    write_in(brokers, monkeypatch)
    assert brokers.renewed == 2
    with pytest.raises(BrokersUnavailable):
        write_in(Silent(7), monkeypatch)


def test_offset_added_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a late request hides the entry of committed rows, the offset is ended, and the entry committed again if lost."""

    class Late(Forgetful):
        def entry(self, slot: int) -> Entry | None:
            if self.committed and not self.ended:
                raise BrokersUnavailable("BROKERS_UNAVAILABLE", "a transaction is open")
            return super().entry(slot)

        def present_entry(self, slot: int) -> Entry | None:
            return None

    brokers = Late(1)
    write_in(brokers, monkeypatch)
    assert [(offset.group, offset.partition, offset.metadata) for offset in brokers.ended] == [("g", 0, "")]
    assert brokers.renewed == 2


@pytest.mark.parametrize("timeout_s", [60, 10, 8, 4])
def test_wait_for_other_slots(timeout_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unrecorded slot waits until recorded slots are verified, in a transaction of any length, and then commits."""
    transaction = Transaction(timeout_s, verified_s=timeout_s / 2)
    write_in(transaction, monkeypatch)
    assert transaction.committed
    assert timeout_s / 2 <= transaction.now < timeout_s


@pytest.mark.parametrize(("timeout_s", "kept_s"), [(60, 10), (8, 2)])
def test_wait_that_leaves_time_to_commit(timeout_s: float, kept_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for other slots ends while there is still time to commit, and then nothing is written."""
    transaction = Transaction(timeout_s, verified_s=timeout_s - kept_s / 2)
    with pytest.raises(LedgerError, match="LAYOUT_CHANGED"):
        write_in(transaction, monkeypatch)
    assert not transaction.committed
    assert kept_s <= transaction.left_s < kept_s + 1


def test_abort_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for an abort is the error, also if the coordinator does not answer the abort."""

    class Stuck(Transaction):
        def abort(self) -> None:
            raise BROKERS_UNAVAILABLE("the coordinator does not answer")

    with pytest.raises(LedgerError, match="LAYOUT_CHANGED"):
        write_in(Stuck(verified_s=60), monkeypatch)


def test_rows_recorded_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that the query recorded under another prefix or name are not written again; other queries' do not matter."""
    for name in f"team-{QUERY}", f"zkafka-{QUERY}-audit":
        renamed = Transaction(elsewhere=name)
        with pytest.raises(LedgerError, match=f"LEDGER_MOVED.*{name} \\(topic orders\\)"):
            write_in(renamed, monkeypatch)
        assert not renamed.committed
    other = Transaction(elsewhere=f"zkafka-{RUN}")
    write_in(other, monkeypatch)
    assert other.committed
