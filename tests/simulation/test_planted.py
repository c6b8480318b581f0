"""Bugs that groups of consumers have had, planted one by one: the simulation finds each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.group import commits
from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.offset_store import GroupOffsets
from pyspark_zkafka.group.ownership import OwnedBy
from pyspark_zkafka.protocol.checkpoint import StreamOffset
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.stream.driver import StreamDriver
from pyspark_zkafka.stream.planner import StreamState
from pyspark_zkafka.stream.positions import StreamStarts
from tests.simulation.group import KINDS, simulate
from tests.simulation.member import Member
from tests.simulation.query import SessionOfValues

MOST_SCHEDULES = 400

Plant = Callable[[pytest.MonkeyPatch], None]


def start_new_partitions_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """A partition that came into being while the group read its topic begins where its log ends when it is gained."""
    patch.setattr(SessionOfValues, "younger", lambda self, partitions: set())


def start_gained_partitions_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """So does every partition without an offset, also of a query that goes on."""
    patch.setattr(StreamStarts, "_without_position", lambda self, partitions, *known: dict.fromkeys(partitions, LATEST))


def start_without_the_group(patch: pytest.MonkeyPatch) -> None:
    """A new query keeps its start to itself until it commits."""
    patch.setattr(StreamStarts, "decide", lambda self, begun: begun)


def start_again_later(patch: pytest.MonkeyPatch) -> None:
    """A later query moves the group's start to its own."""
    kept = commits._Commit._is_kept

    def is_kept(self: Any, partition: Any, found: Any) -> bool:
        stored = self._stored(partition, found)
        return stored == self.offsets[partition] if self.only_missing else kept(self, partition, found)

    patch.setattr(commits._Commit, "_is_kept", is_kept)


def forget_what_waits_for_a_leader(patch: pytest.MonkeyPatch) -> None:
    """A partition that had no leader when the group started begins where its log ends when it has one."""
    patch.setattr(StreamStarts, "_waiting", lambda self, offline, snapshot: {})


def compute_the_start_twice(patch: pytest.MonkeyPatch) -> None:
    """Spark asks for the start a second time, and gets another one."""
    initial = StreamDriver.initial

    def anew(self: StreamDriver) -> dict[str, Any]:
        self._initial_offset = None
        return initial(self)

    patch.setattr(StreamDriver, "initial", anew)


def commit_what_is_planned(patch: pytest.MonkeyPatch) -> None:
    """A micro-batch is committed when it is planned, not when it is done."""
    latest = StreamDriver.latest

    def at_once(self: StreamDriver, start: dict[str, Any], *, limited: bool) -> dict[str, Any]:
        end = latest(self, start, limited=limited)
        self._state = self._state.finish(StreamOffset.from_json(end).spans)
        self.commit()
        return end

    patch.setattr(StreamDriver, "latest", at_once)


def commit_after_losing_ownership(patch: pytest.MonkeyPatch) -> None:
    """A member whose session has ended commits all the same (the JVM consumer does)."""
    patch.setattr(OwnedBy, "lost", lambda self, partitions, found: set())
    patch.setattr(OwnedBy, "operations", lambda self, partitions, found: [])
    patch.setattr(StreamState, "revoke", lambda self, owned: self)


def commit_backwards(patch: pytest.MonkeyPatch) -> None:
    """A commit overwrites whatever is stored (the JVM consumer does)."""
    patch.setattr(commits._Commit, "_is_kept", lambda self, partition, found: False)


def keep_claims_of_a_lost_session(patch: pytest.MonkeyPatch) -> None:
    """Claims count as the member's own after its session has ended, and nobody looks."""
    patch.setattr(Claims, "forget", lambda self: None)
    patch.setattr(Claims, "verify", lambda self, owner: [])

    def lose_session(self: Member, session: Any) -> None:
        self.session.ensemble.expire(self.session.session_id)
        self.session = session

    patch.setattr(Member, "lose_session", lose_session)


def give_up_claiming(patch: pytest.MonkeyPatch) -> None:
    """A member that was blocked once does not try again."""
    claim = Claims.claim

    def once(self: Any, threads: Any, owner: Any) -> Any:
        if getattr(self, "blocked", None):
            return self.blocked
        self.blocked = claim(self, threads, owner)
        return self.blocked

    patch.setattr(Claims, "claim", once)


def trust_offsets_over_work(patch: pytest.MonkeyPatch) -> None:
    """An offset that is read is committed as the next one, whatever was done in between."""
    committed = GroupOffsets.committed

    def ahead(self: Any, partitions: Any, **given: Any) -> Any:
        from dataclasses import replace

        found = committed(self, partitions, **given)
        return {tp: replace(stored, offset=stored.offset + 1) for tp, stored in found.items()}

    patch.setattr(GroupOffsets, "committed", ahead)


@pytest.mark.parametrize(
    "plant",
    [
        start_new_partitions_at_the_end,
        start_gained_partitions_at_the_end,
        start_without_the_group,
        start_again_later,
        forget_what_waits_for_a_leader,
        compute_the_start_twice,
        commit_what_is_planned,
        commit_after_losing_ownership,
        commit_backwards,
        keep_claims_of_a_lost_session,
        give_up_claiming,
        trust_offsets_over_work,
    ],
    ids=lambda plant: plant.__name__,
)
def test_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some schedule breaks an invariant."""
    plant(monkeypatch)
    assert any(simulate(seed, KINDS[seed % 2]) for seed in range(MOST_SCHEDULES))
