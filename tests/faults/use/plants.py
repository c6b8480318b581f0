"""Faults of a review, planted back one by one: `Plant.apply` restores the faulty line of a function.

`PLANTS` covers its 26 cases, and says whether schedules of use or another test find each fault. If the code has changed,
`edit` fails: then change the plant, or say why it is no longer needed.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["PLANTS", "Plant", "edit"]


def edit(patch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """Replace a text that occurs once in a function of a class or a module, for all that have imported it."""
    function = inspect.unwrap(owner.__dict__[name])
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise LookupError(f"{owner.__name__}.{name} has {source.count(old)} times {old!r}: the plant is out of date")
    made: dict[str, Any] = {}
    exec(compile(source.replace(old, new), f"<{name} with a planted fault>", "exec"), function.__globals__, made)
    patch.setattr(function, "__code__", inspect.unwrap(made[name]).__code__)


@dataclass(frozen=True)
class Plant:
    """A planted fault.

    Attributes
    ----------
    case : int
        The case of the review.
    apply : callable
        Plants the fault.
    kinds : tuple of str
        The kinds of random schedules, of streams or of writes, that find it.
    test : str
        The test that finds it instead.
    history : str
        The history in `histories` that exposes it.
    """

    case: int
    apply: Callable[[pytest.MonkeyPatch], None]
    kinds: tuple[str, ...] = ()
    test: str = ""
    history: str = ""


PLANTS: dict[str, Plant] = {}

_Apply = Callable[[pytest.MonkeyPatch], None]


def _plant(case: int, *kinds: str, test: str = "", history: str = "") -> Callable[[_Apply], _Apply]:
    def add(apply: _Apply) -> _Apply:
        PLANTS[apply.__name__] = Plant(case, apply, kinds, test, history)
        return apply

    return add


# --- A. reading


@_plant(1, test="tests/native/test_decoder_model.py::test_decoder")
def keep_the_records_of_the_batch_before(patch: pytest.MonkeyPatch) -> None:
    """After a batch that cannot be decompressed, the records of the batch before it are decoded again."""
    from pyspark_zkafka.records.native.record_decoder import RecordDecoder

    edit(patch, RecordDecoder, "_decode", "self._decompressed = None  #", "pass  #")


@_plant(2, test="tests/unit/read/test_split_reader.py::test_silence_after_a_low_end_is_no_truncation")
def take_an_outage_for_a_truncation(patch: pytest.MonkeyPatch) -> None:
    """After a low log end, a silent broker counts as data loss."""
    from pyspark_zkafka.read.split_reader import SplitReader

    edit(patch, SplitReader, "_on_timeout", "if self._is_at_end and log_end <= self._position:", "if self._is_at_end:")


@_plant(3, test="tests/unit/records/native/test_record_decoder.py::test_bytes_after_gzip")
def refuse_what_follows_gzip(patch: pytest.MonkeyPatch) -> None:
    """A batch that brokers and librdkafka accept counts as corrupt."""
    from pyspark_zkafka.records.native import record_decoder

    edit(patch, record_decoder, "_gzip", "while not inflated or rest[:2] == _GZIP_MAGIC:", "while rest:")


@_plant(4, test="tests/unit/records/direct/test_consumer.py::test_wait_at_the_end_of_the_log")
def ask_without_a_pause(patch: pytest.MonkeyPatch) -> None:
    """A task that waits for a transaction sends fetches without pauses."""
    from pyspark_zkafka.records.direct.consumer import Fetcher

    edit(patch, Fetcher, "_send", "wait_ms << min(self._empty, 10)", "wait_ms")


@_plant(5, test="tests/unit/records/direct/test_consumer.py::test_backoff")
def back_off_for_long(patch: pytest.MonkeyPatch) -> None:
    """A fetch error backs off for as long as a failed connection."""
    from pyspark_zkafka.records.direct.consumer import Fetcher

    edit(patch, Fetcher, "_fail", "settings.retry_backoff", "settings.reconnect_backoff")


# --- B. streams


@_plant(6, "alone", "member", "pair", history="a broker is silent after the first micro-batch")
def end_before_the_ends(patch: pytest.MonkeyPatch) -> None:
    """AvailableNow ends successfully although a leader does not answer."""
    from pyspark_zkafka.read.stream_ends import FixedEnds

    edit(patch, FixedEnds, "wait", "if not own and not unread:", "if True:")


@_plant(6, "pair", "member", history="a member is killed, and another one starts at once")
def leave_a_dead_member_its_share(patch: pytest.MonkeyPatch) -> None:
    """AvailableNow does not wait for the partitions of a killed member."""
    from pyspark_zkafka.read.stream_ends import FixedEnds

    nothing = "if member is not None:\n        unread = ()\n    elif False:"
    edit(patch, FixedEnds, "wait", "if member is not None and others and not own:", nothing)


@_plant(6, "member", history="once, in a group in Kafka, with a checkpoint")
def do_not_wait_for_an_assignment(patch: pytest.MonkeyPatch) -> None:
    """A `once` run in a Kafka group with a checkpoint reads nothing."""
    from pyspark_zkafka.read.stream_driver import StreamDriver

    edit(patch, StreamDriver, "latest", "self._session.member is not None and self._start is None", "False")


@_plant(7, "member", "pair", history="a topic is created again, and the checkpoint is lost, with two stores")
def forget_who_wrote_an_offset(patch: pytest.MonkeyPatch) -> None:
    """With two stores, offsets of a deleted topic are applied to the new one."""
    from pyspark_zkafka.group.offsets import GroupOffsets
    from pyspark_zkafka.model.resumption import StoredOffset

    committed = GroupOffsets.committed

    def without_marks(self: Any, *given: Any, **named: Any) -> Any:
        found = committed(self, *given, **named)
        return {tp: StoredOffset(stored.offset) for tp, stored in found.items()} if len(self._stores) > 1 else found

    patch.setattr(GroupOffsets, "committed", without_marks)
    patch.setattr(GroupOffsets, "_outdated", lambda self, stored: set())


@_plant(8, "alone", history="a query subscribes to the topic of which it was assigned a partition")
def start_added_partitions_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """Partitions that the checkpoint lacks, because only some were assigned, start at the ends of their logs."""
    from pyspark_zkafka.model import checkpoint
    from pyspark_zkafka.read.stream_positions import StreamStarts

    edit(patch, checkpoint, "first_identity", "TopicPartition(topic.name, n) not in known", "n not in topic.partitions")
    edit(patch, StreamStarts, "_is_added", "return is_new or (", "return is_new or False and (")


@_plant(9, "pair", history="a query returns after another one has read a topic created again")
def go_back_in_a_topic_created_again(patch: pytest.MonkeyPatch) -> None:
    """A query with an old checkpoint rereads a recreated topic that its group has already read."""
    from pyspark_zkafka.model import resumption

    edit(patch, resumption, "is_followed", "if stored is None:", "if True:")


@_plant(10, "member", "pair", history="a topic grows while a static member restarts")
def leave_a_static_member_without_its_share(patch: pytest.MonkeyPatch) -> None:
    """A static member does not get partitions that were added while it restarted."""
    from pyspark_zkafka.group import kafka_state

    edit(patch, kafka_state, "stall_s", "if kafka.instance_id is None or", "if True or")


@_plant(11, "member", "pair", history="startingOffsets of a group names an unknown partition")
def ignore_unknown_starts(patch: pytest.MonkeyPatch) -> None:
    """In a group, startingOffsets may name partitions that do not exist."""
    from pyspark_zkafka.read.stream_positions import StreamStarts

    edit(patch, StreamStarts, "initial", "check_named(", "self.options.group is None and check_named(")


@_plant(12, test="tests/unit/read/test_stream_positions.py::test_low_end_of_a_new_leader")
def believe_the_first_end(patch: pytest.MonkeyPatch) -> None:
    """A low log end after an election immediately counts as data loss."""
    from pyspark_zkafka.retries import Retry

    patch.setattr(Retry, "ask_again", lambda self, first, is_doubtful, ask: first)


@_plant(13, "member", "pair", history="a topic is deleted while a member restarts")
def forget_a_deletion_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Only a running query notices that a topic was deleted."""
    from pyspark_zkafka.read import stream_planner

    old = "gone = sorted(tp for tp in finished.ranges if"
    edit(patch, stream_planner, "check_topics", old, "gone = sorted(tp for tp in state.assigned if")


@_plant(14, test="tests/unit/group/test_offsets.py::test_higher_offset_in_one_store")
def hide_the_other_store(patch: pytest.MonkeyPatch) -> None:
    """A higher offset in one of two stores is overlooked."""
    from pyspark_zkafka.group.offsets import GroupOffsets

    old = "for tp, offset in written.items() if tp not in kept}"
    edit(patch, GroupOffsets, "commit", old, "for tp, offset in written.items()}")


@_plant(14, test="tests/unit/read/test_stream_driver.py::test_newly_assigned_topic_created_again_between_two_snapshots")
def forget_the_identity_of_an_assigned_topic(patch: pytest.MonkeyPatch) -> None:
    """A topic recreated before any of it was read is read from the position in the old topic."""
    from pyspark_zkafka.read.stream_planner import StreamState

    edit(patch, StreamState, "assign", "newly_assigned={**self.newly_assigned, **identities}", "newly_assigned={}")


@_plant(24, "alone", "member", history="a topic is removed from the subscription")
def report_unsubscribed_topics(patch: pytest.MonkeyPatch) -> None:
    """A topic that was only removed from `subscribe` is reported as deleted."""
    from pyspark_zkafka.read.stream_driver import StreamDriver

    patch.setattr(StreamDriver, "_unsubscribed_topics", lambda self, finished: frozenset())


# --- C. exactly once


@_plant(15, "writes", history="a thread of foreachBatch writes")
def write_without_a_name(patch: pytest.MonkeyPatch) -> None:
    """A write for which Spark does not name the micro-batch counts as a job of its own."""
    from pyspark_zkafka.write import exactly_once

    old = """raise _unnamed("Spark's task does not say which micro-batch it belongs to", """
    old += "commits=options.commit is not None)"
    new = 'return Writing(QueryName(once.prefix, call, once.writer or ""), Attempt(slot, 0, call, is_job=True))'
    edit(patch, exactly_once, "identify", old, new)


@_plant(16, "writes", history="a write is named while its micro-batch is interrupted")
def forget_the_former_name(patch: pytest.MonkeyPatch) -> None:
    """A write that gets a name while its micro-batch is interrupted does not look under its former name."""
    from pyspark_zkafka.write.exactly_once import _SlotTask

    old = "QueryName.belongs(base, query)"
    new = 'not base.startswith(f"{self._writing.name.prefix}-{query}") and QueryName.belongs(base, query)'
    edit(patch, _SlotTask, "_read_elsewhere", old, new)


@_plant(17, "writes", history="transactionalIdPrefix changes while a micro-batch is interrupted")
def look_nowhere_else(patch: pytest.MonkeyPatch) -> None:
    """An interrupted micro-batch is written again after the prefix, the name or the ledger's topic has changed."""
    from pyspark_zkafka.write.exactly_once import _SlotTask

    edit(patch, _SlotTask, "_read_elsewhere", "query is not None and QueryName.belongs(base, query)", "False")


@_plant(18, "writes", history="transactions have six seconds, and a recorded slot comes late")
def keep_ten_seconds_of_six(patch: pytest.MonkeyPatch) -> None:
    """With a short transaction.timeout.ms, no slot waits for another."""
    from pyspark_zkafka.write.exactly_once import _SlotTask

    edit(patch, _SlotTask, "_await", "min(_COMMIT_S, producer.transaction_timeout_ms / 4000)", "_COMMIT_S")


@_plant(19, test="tests/unit/brokers/test_ledger_offsets.py")
def believe_the_width_of_a_ledger(patch: pytest.MonkeyPatch) -> None:
    """A group whose name claims a huge width creates as many objects."""
    from pyspark_zkafka.brokers.ledger_offsets import Ledger

    edit(patch, Ledger, "_partitions_of", "min(", "max(")


# --- D. writing


@_plant(20, "writes", history="the time of rows comes twice in the session's time zone")
def pass_through_local_time(patch: pytest.MonkeyPatch) -> None:
    """A column `timestamp` is truncated in its time zone, where an hour may occur twice."""
    from pyspark_zkafka.model import rows

    old = "pc.divide(since_epoch, unit)"
    new = 'pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64())'
    edit(patch, rows, "_milliseconds", old, new)


@_plant(21, "writes", history="the queue of records has no limit")
def take_no_limit_for_no_room(patch: pytest.MonkeyPatch) -> None:
    """queue.buffering.max.messages=0 leaves no room for any record."""
    from pyspark_zkafka.records.producer import CountingProducer

    edit(patch, CountingProducer, "__init__", " or sys.maxsize", "")


# --- E. the operator's side


@_plant(22, test="tests/unit/tools/test_collector.py::test_a_read_that_ends_late")
def discard_a_late_result(patch: pytest.MonkeyPatch) -> None:
    """A scrape that times out discards the result."""
    from pyspark_zkafka.tools import collector

    edit(patch, collector.SharedCall, "result", "if ended is None or", "if is_late or ended is None or")


@_plant(23, test="tests/unit/tools/test_output.py::test_control_characters")
def write_control_characters(patch: pytest.MonkeyPatch) -> None:
    """Terminal escape sequences in znodes reach the terminal."""
    from pyspark_zkafka.tools import output

    patch.setattr(output, "printable", lambda text: text)


@_plant(23, test="tests/unit/tools/test_admin_elect.py::test_election_that_cannot_be")
def succeed_without_an_election(patch: pytest.MonkeyPatch) -> None:
    """`admin elect` exits with 0 although the leader is not the preferred replica."""
    from pyspark_zkafka.tools import admin

    edit(patch, admin, "elect", "if not target.dry_run and any(", "if False and any(")


@_plant(24, test="tests/unit/read/test_stream_ends_limits.py::test_wait_after_an_idle_start")
def ignore_the_least_size(patch: pytest.MonkeyPatch) -> None:
    """The first records after an idle start do not wait for minOffsetsPerTrigger."""
    from pyspark_zkafka.read.stream_ends import StreamLimits

    edit(patch, StreamLimits, "apply", "if may_wait:", "if may_wait and backlog:")


@_plant(25, test="tests/unit/model/test_java_patterns.py::test_like_java")
def match_without_translation(patch: pytest.MonkeyPatch) -> None:
    """Topic patterns follow the syntax of the regex engine instead of Java's."""
    from pyspark_zkafka.model import topic_names

    edit(patch, topic_names, "_made", "tuple(translate(rest))", '(((f"^(?:{rest})$", False),),)')


@_plant(26, test="tests/unit/read/test_batch_planner.py::test_missing_topics")
def read_nothing_in_silence(patch: pytest.MonkeyPatch) -> None:
    """A batch read of a misspelt topic reads nothing."""
    from pyspark_zkafka.read import batch_planner

    patch.setattr(batch_planner, "missing_topics", lambda subscription, snapshot: ())
