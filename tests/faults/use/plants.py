"""Planted faults that only whole schedules find: each replaces one function or method of the package.

Faults of pure code are found by mutation tests instead, see ``make mutants``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["PLANTS", "Plant"]


@dataclass(frozen=True)
class Plant:
    """A planted fault.

    Attributes
    ----------
    apply : callable
        Plants the fault.
    kinds : tuple of str
        The kinds of random schedules, of streams or of writes, that find it.
    history : str
        The history in `histories` that exposes it.
    """

    apply: Callable[[pytest.MonkeyPatch], None]
    kinds: tuple[str, ...]
    history: str


_Apply = Callable[[pytest.MonkeyPatch], None]
PLANTS: dict[str, Plant] = {}


def _plant(*kinds: str, history: str) -> Callable[[_Apply], _Apply]:
    def add(apply: _Apply) -> _Apply:
        PLANTS[apply.__name__] = Plant(apply, kinds, history)
        return apply

    return add


# --- streams


@_plant("alone", "member", "pair", history="a broker is silent after the first micro-batch")
def end_before_the_ends(patch: pytest.MonkeyPatch) -> None:
    """AvailableNow ends successfully although a leader does not answer."""
    from pyspark_zkafka.read.stream_ends import FixedEnds

    patch.setattr(FixedEnds, "wait", lambda *_: False)


@_plant("pair", "member", history="a member is killed, and another one starts at once")
def leave_a_dead_member_its_share(patch: pytest.MonkeyPatch) -> None:
    """AvailableNow does not wait for the partitions of a killed member."""
    from pyspark_zkafka.read.stream_ends import GroupProgress

    patch.setattr(GroupProgress, "unread", lambda *_: ())


@_plant("member", history="once, in a group in Kafka, with a checkpoint")
def do_not_wait_for_an_assignment(patch: pytest.MonkeyPatch) -> None:
    """A `once` run in a Kafka group with a checkpoint reads nothing."""
    from pyspark_zkafka.group.kafka_member import KafkaGroupMember

    patch.setattr(KafkaGroupMember, "wait_settled", lambda *_: True)


@_plant("member", "pair", history="a topic is created again, and the checkpoint is lost, with two stores")
def forget_who_wrote_an_offset(patch: pytest.MonkeyPatch) -> None:
    """With two stores, offsets of a deleted topic are applied to the new one."""
    from pyspark_zkafka.group.offsets import GroupOffsets
    from pyspark_zkafka.model.resumption import StoredOffset

    committed = GroupOffsets.committed

    def without_marks(self: GroupOffsets, *given: Any, **named: Any) -> Mapping[Any, StoredOffset]:
        found = committed(self, *given, **named)
        return {tp: StoredOffset(stored.offset) for tp, stored in found.items()} if len(self._stores) > 1 else found

    patch.setattr(GroupOffsets, "committed", without_marks)
    patch.setattr(GroupOffsets, "_outdated", lambda self, stored: set())


@_plant("member", "pair", history="a topic grows while a static member restarts")
def leave_a_static_member_without_its_share(patch: pytest.MonkeyPatch) -> None:
    """A static member does not get partitions that were added while it restarted."""
    from pyspark_zkafka.group import kafka_member

    patch.setattr(kafka_member, "stall_s", lambda options: math.inf)


@_plant("member", "pair", history="startingOffsets of a group names an unknown partition")
def ignore_unknown_starts(patch: pytest.MonkeyPatch) -> None:
    """startingOffsets may name partitions that do not exist."""
    from pyspark_zkafka.read import stream_positions

    patch.setattr(stream_positions, "check_named", lambda *_: None)


@_plant("alone", "member", history="a topic is removed from the subscription")
def report_unsubscribed_topics(patch: pytest.MonkeyPatch) -> None:
    """A topic that was only removed from `subscribe` is reported as deleted."""
    from pyspark_zkafka.read.stream_driver import StreamDriver

    patch.setattr(StreamDriver, "_unsubscribed_topics", lambda self, finished: frozenset())


# --- writes


@_plant("writes", history="a thread of foreachBatch writes")
def write_without_a_name(patch: pytest.MonkeyPatch) -> None:
    """A write for which Spark does not name the micro-batch counts as a job of its own."""
    from pyspark_zkafka.errors import OptionError
    from pyspark_zkafka.model.exactly_once import Attempt
    from pyspark_zkafka.model.ledger import QueryName
    from pyspark_zkafka.write import exactly_once

    identify = exactly_once.identify

    def as_a_job(context: Any, options: Any, ledger: Any) -> exactly_once.Writing:
        try:
            return identify(context, options, ledger)
        except OptionError:
            attempt = Attempt(context.partitionId(), 0, ledger.call, is_job=True)
            return exactly_once.Writing(QueryName(options.once.prefix, ledger.call, options.once.writer or ""), attempt)

    patch.setattr(exactly_once, "identify", as_a_job)


@_plant("writes", history="transactionalIdPrefix changes while a micro-batch is interrupted")
def look_nowhere_else(patch: pytest.MonkeyPatch) -> None:
    """An interrupted micro-batch is written again after the prefix, the name or the ledger's topic has changed."""
    from pyspark_zkafka.model.exactly_once import OtherEntries
    from pyspark_zkafka.write.exactly_once import _SlotTask

    patch.setattr(_SlotTask, "_read_elsewhere", lambda *_: OtherEntries({}, {}))


@_plant("writes", history="transactions have six seconds, and a recorded slot comes late")
def keep_ten_seconds_of_six(patch: pytest.MonkeyPatch) -> None:
    """With a short transaction.timeout.ms, no slot waits for another."""
    from pyspark_zkafka.records.transactions import TransactionalProducer

    left_s = TransactionalProducer.left_s.fget
    assert left_s is not None
    patch.setattr(TransactionalProducer, "left_s", property(lambda self: left_s(self) - 8.5))  # 10 s less 6 s / 4
