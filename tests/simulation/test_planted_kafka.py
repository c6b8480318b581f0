"""Possible bugs of a member in a Kafka group, planted one by one: the simulation finds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.group.kafka_ownership import Ownership
from pyspark_zkafka.group.kafka_state import MemberState, PendingCommit
from pyspark_zkafka.group.kafka_supervisor import ClientSupervisor
from pyspark_zkafka.group.offsets import KafkaMemberOffsets
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.read import stream_driver as driver
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.read.stream_planner import StreamState
from tests.simulation import kafka_member
from tests.simulation.kafka_group import KINDS, simulate
from tests.simulation.query import SessionOfValues
from tests.support.tiers import seldom

MOST_SCHEDULES = 1_000

Plant = Callable[[pytest.MonkeyPatch], None]


def commit_what_others_own(patch: pytest.MonkeyPatch) -> None:
    """A commit has all positions, whoever owns the partitions, which brokers do not check."""
    patch.setattr(PendingCommit, "sendable", lambda self, state: self.offsets)
    patch.setattr(driver, "commit_positions", _commit_all)


def _commit_all(state: StreamState, session: Any, reports: Any, *, again: bool = False) -> StreamState:
    due = state.due(again=again)
    if due:
        session.member.commit(due, session.member.owner.session)
    return state


def _everything(member: Any) -> list[TopicPartition]:
    return list(member.turns.client.coordinator.cluster.partitions())


def ignore_the_hold(patch: pytest.MonkeyPatch) -> None:
    """A revoked partition is released at once, while a micro-batch reads it."""
    patch.setattr(MemberState, "is_holding", lambda self, reading, now: False)


def hold_without_end(patch: pytest.MonkeyPatch) -> None:
    """A revocation waits for the micro-batch, however long it takes."""
    patch.setattr(MemberState, "is_holding", lambda self, reading, now: bool(self.overdue(reading)))


def plan_what_is_revoked(patch: pytest.MonkeyPatch) -> None:
    """A planner keeps planning partitions that its member has released."""
    patch.setattr(StreamState, "revoke", lambda self, owned: self)


def commit_after_coming_back(patch: pytest.MonkeyPatch) -> None:
    """An expelled member that has joined again commits what it read before."""
    expel = MemberState.expel
    patch.setattr(MemberState, "expel", lambda self: replace(expel(self), incarnation=self.incarnation))
    patch.setattr(driver, "commit_positions", _commit_all)


def take_a_loss_for_a_revocation(patch: pytest.MonkeyPatch) -> None:
    """An expelled member keeps partitions that a micro-batch reads until it is done."""
    patch.setattr(Ownership, "lose", lambda self, *why: self.begin_revocation(self.state.claims))


def keep_the_client_of_an_expelled_member(patch: pytest.MonkeyPatch) -> None:
    """A commit in flight at an expulsion is sent with the next generation."""
    patch.setattr(ClientSupervisor, "_replace_client", lambda self: None)


def start_where_the_log_ends(patch: pytest.MonkeyPatch) -> None:
    """A partition starts where its log ends, although another member has just committed it."""
    committed = KafkaMemberOffsets.committed

    def before(self: Any, partitions: Any, **given: Any) -> dict[TopicPartition, StoredOffset]:
        known = self._member.__dict__.setdefault("known", committed(self, _everything(self._member)))
        return {tp: known[tp] for tp in partitions if tp in known}

    patch.setattr(KafkaMemberOffsets, "committed", before)


def commit_what_is_planned(patch: pytest.MonkeyPatch) -> None:
    """A micro-batch is committed when it is planned, not when it is done."""
    latest = StreamDriver.latest

    def at_once(self: StreamDriver, start: dict[str, Any], *, limited: bool) -> dict[str, Any]:
        end = latest(self, start, limited=limited)
        self._state = self._state.finish(StreamOffset.from_json(end).ranges)
        self.commit()
        return end

    patch.setattr(StreamDriver, "latest", at_once)


def take_a_static_assignment_for_final(patch: pytest.MonkeyPatch) -> None:
    """A static member treats its former partitions as all of its share, although topics may have grown."""
    patch.setattr(kafka_member, "is_final", lambda assigned, member, owned, partitions: set(owned) == set(assigned[member]))


def begin_at_the_end_what_is_assigned_late(patch: pytest.MonkeyPatch) -> None:
    """Partitions added while a static member restarted start where their logs end when they are assigned."""
    patch.setattr(SessionOfValues, "created_after_subscription", lambda self, partitions: set())


DYNAMIC, STATIC = KINDS[:3], KINDS[3:]
PLANTS = {
    commit_what_others_own: DYNAMIC,
    ignore_the_hold: DYNAMIC,
    hold_without_end: DYNAMIC,
    plan_what_is_revoked: DYNAMIC,
    commit_after_coming_back: DYNAMIC,
    take_a_loss_for_a_revocation: DYNAMIC,
    keep_the_client_of_an_expelled_member: DYNAMIC,
    start_where_the_log_ends: DYNAMIC,
    commit_what_is_planned: DYNAMIC,
    take_a_static_assignment_for_final: STATIC,
    begin_at_the_end_what_is_assigned_late: STATIC,
}

FOUND_LATE = (commit_after_coming_back, take_a_static_assignment_for_final)
"""Bugs that take many schedules to find."""


@pytest.mark.parametrize("plant", [*(p for p in PLANTS if p not in FOUND_LATE), *seldom(*FOUND_LATE)])
def test_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random schedule breaks an invariant with the planted bug."""
    plant(monkeypatch)
    kinds = PLANTS[plant]
    assert any(simulate(seed, kinds[seed % len(kinds)]) for seed in range(MOST_SCHEDULES))
