"""Tasks of an exactly-once write: the steps of `model.exactly_once`, taken with a producer and the ledger."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.conditions import INVALID_OPTION, LEDGER_FORGOTTEN, UNNAMED_WRITE
from pyspark_zkafka.errors import BrokersUnavailable, OptionError, TransactionFailed, ZKafkaError
from pyspark_zkafka.formats.encoding import row_encoder
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.exactly_once import (
    Abort,
    Attempt,
    AwaitTasks,
    Begin,
    Commit,
    CountRows,
    OtherEntries,
    ReadLedger,
    ReadOthers,
    Result,
    RowSet,
    Send,
    Step,
    write_slot,
)
from pyspark_zkafka.model.ledger import MAX_ENDS_BYTES, Entry, QueryName, encode
from pyspark_zkafka.model.rows import RowDigest, outgoing
from pyspark_zkafka.options.values import WriteOptions
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.records.select import hash_function, open_transactional, row_hash_function
from pyspark_zkafka.records.transactions import TransactionalProducer, transactional_properties
from pyspark_zkafka.worker import whole_input
from pyspark_zkafka.write.plan import LedgerPlan, WritePlan, open_ledger
from pyspark_zkafka.write.rows import EmptySlot, RowSender, Written, first_turn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.taskcontext import TaskContext

_log = logging.getLogger(__name__)

_MOST_COMMITS = 5
_RECORDED_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_PAUSES_S = (0.05, 0.1, 0.2, 0.5)
_COMMIT_S = 10.0
"""The time that a waiting task reserves for its commit. A task with a short transaction timeout reserves less."""

_seen: Remembered[str, tuple[str, int]] = Remembered()
"""For each query, the last run that this process has seen, and the earliest micro-batch of that run."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A task's attempt to write a slot.

    `query` is the id of its streaming query, if Spark gives one. `earlier_names` matches the bases of ledgers that the
    write may have used before its batchId was set or removed. It is None if `query` alone identifies these ledgers.
    """

    name: QueryName
    attempt: Attempt
    query: str | None = None
    earlier_names: re.Pattern[str] | None = None


def identify(context: TaskContext, options: WriteOptions, ledger: LedgerPlan) -> Writing:
    """Identify a task's attempt: to write a micro-batch, a write in its foreachBatch, or a batch job.

    Raises OptionError: UNNAMED_WRITE if nothing distinguishes a repetition of the write from another write, and
    INVALID_OPTION if batchId is not the number of the task's micro-batch.
    """
    if options.once is None:
        raise RuntimeError("only an exactly-once write is identified")
    once, slot, call = options.once, context.partitionId(), ledger.call
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("spark.jobGroup.id") or ""
    topic = options.topic or ""
    if once.batch is not None:
        writer = once.writer or ""
        name = QueryName.numbered(once.prefix, writer)
        if query is None or batch is None:
            earlier_names = QueryName.unnumbered(once.prefix, writer, topic)
            return Writing(name, Attempt(slot, once.batch, call, is_job=True), earlier_names=earlier_names)
        if int(batch) != once.batch:
            raise INVALID_OPTION(
                f"batchId is {once.batch}, but the write belongs to micro-batch {batch}; pass the number that Spark passes "
                "to the function of foreachBatch, and start its threads anew in each call",
            )
        if not _is_uuid(run):  # a job group of the user, which may be the same in the next run
            return Writing(name, Attempt(slot, once.batch, call, is_job=True), query)
        return Writing(name, Attempt(slot, once.batch, run, call, is_named=True), query)
    if query is None or batch is None:
        if (job := ledger.job) is not None:
            attempt = Attempt(slot, job.number, call, is_job=True, ends=job.ends)
            return Writing(QueryName(once.prefix, job.query), attempt)
        raise _unnamed("Spark's task does not say which micro-batch it belongs to", commits=options.commit is not None)
    if not run or (call and not _is_uuid(run)):
        raise _unnamed(f"its job group ({run!r}) hides the run of the query")
    if not call:
        return Writing(QueryName(once.prefix, query, once.writer or ""), Attempt(slot, int(batch), run), query)
    writer = once.writer or topic
    earlier_names = re.compile(re.escape(str(QueryName.numbered(once.prefix, writer))))
    attempt = Attempt(slot, int(batch), run, call, is_named=once.writer is not None)
    return Writing(QueryName(once.prefix, query, writer), attempt, query, earlier_names)


def _unnamed(reason: str, *, commits: bool = False) -> OptionError:
    remedy = (
        "Set writerName, another one for each write, and batchId: in foreachBatch the number that Spark passes to the "
        "function, in a batch job a number that stays the same when the job is run again. If a micro-batch was "
        "interrupted, let it complete before you name the write"
    )
    if commits:
        reason = f"the group has committed all of commitOffsets already, or they are longer than {MAX_ENDS_BYTES} bytes"
        remedy = (
            "A job that had succeeded need not be run again. To write its rows in any case, leave commitOffsets out, and "
            "set writerName and batchId, the same when the job is run again. To commit the offsets then, write a frame "
            "without rows with commitOffsets"
        )
    text = f"The write asks for exactly-once, but a repetition of it would not be recognised: {reason}. {remedy}"
    return UNNAMED_WRITE(text)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def write_rows_once(
    options: WriteOptions, plan: WritePlan, batches: Iterator[pa.RecordBatch], context: TaskContext | None
) -> Written:
    """Write a task's rows, unless they are in the log already.

    Raises
    ------
    LedgerError
        The write does not repeat its entries in the ledger.
    TransactionFailed
        A later attempt of the slot has begun, or the transaction timed out or was refused.
    DeliveryFailed
        Rows were not acknowledged.
    """
    if plan.ledger is None or context is None:
        raise RuntimeError("an exactly-once write has a plan of its own, and runs in a task of Spark")
    with_rows = (batch for batch in whole_input(batches) if batch.num_rows > 0)
    first = next(with_rows, None)
    try:
        writing = _after_others(identify(context, options, plan.ledger), context)
    except OptionError:
        if first is not None:
            raise
        return Written()  # a group's job was run again, and found nothing left to read
    if first is None and not writing.attempt.may_be_recorded:
        return Written(empty=EmptySlot(writing.name, writing.attempt, plan.bootstrap_servers, plan.ledger))
    rows = with_rows if first is None else chain([first], with_rows)
    return _SlotTask(options, plan, plan.ledger, writing, first_turn(context), rows).write()


def _after_others(writing: Writing, context: TaskContext) -> Writing:
    """Add what this process knows about earlier attempts, and remember this attempt."""
    attempt, name = writing.attempt, str(writing.name)
    run, since = _seen.get(name) or ("", 0)
    since = min(since, attempt.batch) if run == attempt.run else attempt.batch
    _seen.put(name, (attempt.run, since))
    return replace(writing, attempt=replace(attempt, is_retry=context.attemptNumber() > 0, since=since))


class _SlotTask:
    """Takes the steps of `write_slot` for a task."""

    def __init__(
        self,
        options: WriteOptions,
        plan: WritePlan,
        ledger: LedgerPlan,
        writing: Writing,
        turn: int,
        batches: Iterator[pa.RecordBatch],
    ) -> None:
        self._options = options
        self._plan = plan
        self._empty = EmptySlot(writing.name, writing.attempt, plan.bootstrap_servers, ledger)
        self._writing = writing
        self._attempt = writing.attempt
        self._turn = turn
        self._batches = batches
        self._digest = RowDigest(row_hash_function(options.connection))
        self._written = Written()
        connection, servers, slot = options.connection, plan.bootstrap_servers, writing.attempt.slot
        self._properties = transactional_properties(connection, servers, writing.name.transactional_id(slot))
        self._ledger = open_ledger(connection, servers, writing.name, ledger)
        self._pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        self._recorded: Entry | None = None  # before this task
        self._unread: BrokersUnavailable | None = None

    def write(self) -> Written:
        """Take all steps."""
        with open_transactional(self._properties, self._plan.generation) as producer:
            result = self._take_all(producer)
        if result.is_open:
            return Written(empty=self._empty)
        return Written(repeated=result.rows) if result.was_written else self._written

    def _take_all(self, producer: TransactionalProducer) -> Result:
        steps = write_slot(self._attempt)
        step = next(steps)
        while True:
            answer = self._take(step, producer)
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: Result = end.value
                return result

    def _take(self, step: Step, producer: TransactionalProducer) -> Any:
        match step:
            case Begin():
                self._recorded = self._last_entry(producer)
                return self._recorded
            case ReadLedger():
                return self._read_ledger()
            case ReadOthers(with_earlier_name):
                return self._read_elsewhere(self._writing.earlier_names if with_earlier_name else None)
            case CountRows():
                return self._measure()
            case Send():
                return self._send(producer)
            case AwaitTasks():
                return self._await(producer, step)
            case Commit(entry):
                self._commit(producer, entry)
            case Abort():
                with suppress(ZKafkaError):  # the reason to abort is the error to report
                    producer.abort()
        return None

    def _measure(self) -> RowSet:
        """Count and hash all rows."""
        encoder = row_encoder(self._plan.encoding)
        for batch in self._batches:
            for part in outgoing(batch, self._options.topic, encoder):
                self._digest.add(part)
        return self._digest.row_set()

    def _send(self, producer: TransactionalProducer) -> RowSet:
        """Begin a transaction and send all rows, if there are any. Returns when each row is acknowledged."""
        first = next(self._batches, None)
        if first is not None:
            producer.begin(self._ledger.key(self._attempt.slot).group)
            with producer.counting():
                hash_keys = hash_function(self._options.connection)
                sender = RowSender(self._options, self._plan, producer, self._turn, hash_keys, self._digest.add)
                for batch in chain([first], self._batches):
                    sender.send(batch)
                self._written = sender.finish()
        return self._digest.row_set()

    def _last_entry(self, producer: TransactionalProducer) -> Entry | None:
        """Read the slot's entry. Ends an offset that a late request of an earlier attempt has left open."""
        slot = self._attempt.slot
        try:
            return self._ledger.entry(slot)
        except BrokersUnavailable:
            self._end_late_offset(producer, slot)
        producer.renew()
        return self._ledger.entry(slot)

    def _end_late_offset(self, producer: TransactionalProducer, slot: int) -> None:
        """End an offset of a slot that was added after its transaction. Raises BrokersUnavailable if no broker answers."""
        offset = self._offset(slot, self._ledger.present_entry(slot))  # a late copy of this offset is harmless, too
        _log.info("Slot %d ends the open offset %s of group %s", self._attempt.slot, offset.partition, offset.group)
        producer.end_late_offset(offset)

    def _offset(self, slot: int, entry: Entry | None) -> GroupOffset:
        """The offset that stores a slot's entry. Without an entry, an offset without metadata."""
        key = self._ledger.key(slot)
        offset, metadata = (0, "") if entry is None else (entry.batch, encode(entry))
        return GroupOffset(key.group, self._ledger.topic, key.partition, offset, metadata)

    def _read_ledger(self) -> dict[int, Entry]:
        """Read the entries of all slots. Ends other slots' transactions that a killed run left open: they block the ledger.

        The tasks of these slots would end them as well, but may be waiting for this task's core.
        """
        try:
            return self._ledger.entries()
        except BrokersUnavailable:
            slots = [slot for slot in self._ledger.open_slots() if slot != self._attempt.slot]
        for slot in slots:
            _log.info("Slot %d ends the transaction of slot %d, which blocks the ledger", self._attempt.slot, slot)
            properties = {**self._properties, "transactional.id": self._writing.name.transactional_id(slot)}
            try:
                with open_transactional(properties) as producer:
                    self._end_late_offset(producer, slot)
            except TransactionFailed as error:
                if error.condition != "FENCED":  # else the slot's own task has started
                    raise
        return self._ledger.entries()

    def _read_elsewhere(self, earlier_names: re.Pattern[str] | None) -> OtherEntries:
        """Read the entries under the query's other names and its earlier names, in the same requests."""
        name, query, topic = str(self._writing.name), self._writing.query, self._options.topic

        def is_other(base: str) -> bool:
            return base == name or (query is not None and QueryName.belongs(base, query))

        def has_earlier_name(base: str, under: str) -> bool:
            return (
                earlier_names is not None
                and earlier_names.fullmatch(base) is not None
                and under in (self._ledger.topic, topic)
            )

        found = self._ledger.others(
            lambda base: is_other(base) or has_earlier_name(base, self._ledger.topic),
            lambda base, under: is_other(base) or has_earlier_name(base, under),
        )
        others, of_write = dict[str, list[Entry]](), dict[str, list[Entry]]()
        for (base, under), entries in found.items():
            ledger = f"{base} (topic {under})"
            if is_other(base):
                others[ledger] = entries
            if has_earlier_name(base, under):
                of_write[ledger] = [entry for entry in entries if entry.sink is None or entry.sink.topic == topic]
        return OtherEntries(others, of_write)

    def _await(self, producer: TransactionalProducer, awaited: AwaitTasks) -> bool:
        pause_s = next(self._pauses)
        if producer.left_s < min(_COMMIT_S, producer.transaction_timeout_ms / 4000) + pause_s:
            return False
        _log.debug("Slot %d waits for slots %s to be repeated", self._attempt.slot, awaited.slots or awaited.ledgers)
        time.sleep(pause_s)
        return True

    def _commit(self, producer: TransactionalProducer, entry: Entry) -> None:
        entry = replace(entry, at_ms=int(time.time() * 1000), sink=self._ledger.sink or entry.sink)
        offset, commits = self._offset(entry.slot, entry), 0
        for _ in range(_MOST_COMMITS + 1):
            if self._unread is None:
                if commits == _MOST_COMMITS:
                    break
                commits += 1
                if not producer.is_open:
                    producer.begin()
                producer.commit(offset)
                if not producer.may_lose_offsets or self._has_recorded(entry.slot):
                    return
            _log.warning("Slot %d: a committed entry is not found. Looking again, before committing it again", entry.slot)
            producer.renew()
            if self._unread is not None:
                with suppress(BrokersUnavailable):
                    if self._ledger.present_entry(entry.slot) != self._recorded:
                        return
                    self._end_late_offset(producer, entry.slot)
                    producer.renew()
            # No other attempt is running now. If this process stood still, another attempt may have written a later entry.
            if self._has_recorded(entry.slot):
                return
        if self._unread is not None:
            raise self._unread
        raise LEDGER_FORGOTTEN(
            f"The rows of slot {entry.slot} of batch {entry.batch} are committed, but the brokers have forgotten their "
            f"ledger entry {commits} times; writing them again would duplicate them. Stop the query and all of its "
            "earlier executors, restart the brokers one by one, and start the query again",
            slot=entry.slot,
            batch=entry.batch,
        )

    def _has_recorded(self, slot: int) -> bool:
        """True if the slot's entry has changed since the task started. Brokers before 2.5 may show this a bit later."""
        for pause_s in (0.0, *_RECORDED_S):
            time.sleep(pause_s)
            try:
                if self._ledger.entry(slot) != self._recorded:
                    return True
                self._unread = None
            except BrokersUnavailable as error:  # a failure now might have the committed rows written again
                self._unread = error
                return False
        return False
