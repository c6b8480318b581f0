"""Bugs of past consumer groups, planted one by one: the simulation finds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.group import commits
from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.commits import NoJvmOwner, OwnedBy
from pyspark_zkafka.group.offsets import GroupOffsets
from pyspark_zkafka.model import checkpoint, resumption
from pyspark_zkafka.model.checkpoint import PlannedRange, StreamOffset, TopicIdentity
from pyspark_zkafka.model.nouns import Topic
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.resumption import StoredOffset, new_partition, resume
from pyspark_zkafka.read import stream_driver as driver
from pyspark_zkafka.read import stream_planner as planner
from pyspark_zkafka.read import stream_positions as positions
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.read.stream_planner import StreamState
from pyspark_zkafka.read.stream_positions import StreamStarts
from tests.simulation.group import KINDS, simulate
from tests.simulation.member import Member
from tests.simulation.query import SessionOfValues
from tests.support.tiers import seldom

MOST_SCHEDULES = 400

Plant = Callable[[pytest.MonkeyPatch], None]


def start_new_partitions_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """A partition added while the group reads its topic starts where its log ends when it is gained."""
    patch.setattr(SessionOfValues, "created_after_subscription", lambda self, partitions: set())


def start_gained_partitions_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """Every gained partition without an offset starts where its log ends, also in a query that resumes."""
    rules = tuple((lambda facts: LATEST) if rule is new_partition else rule for rule in resumption.RULES)
    patch.setattr(resumption, "RULES", rules)


def start_without_the_group(patch: pytest.MonkeyPatch) -> None:
    """A new query does not commit its start until it commits a micro-batch."""
    patch.setattr(StreamStarts, "commit_starts", lambda self, initial: initial)


def start_again_later(patch: pytest.MonkeyPatch) -> None:
    """A later query overwrites the group's start with its own."""
    kept = commits._Commit._is_kept

    def is_kept(self: Any, partition: Any, found: Any) -> bool:
        stored = self._stored(partition, found)
        return stored == self.offsets[partition] if isinstance(self.proof, NoJvmOwner) else kept(self, partition, found)

    patch.setattr(commits._Commit, "_is_kept", is_kept)


def start_without_leaders(patch: pytest.MonkeyPatch) -> None:
    """A partition without a leader at the group's start begins where its log ends once it has one."""
    patch.setattr(StreamStarts, "_require_leaders", lambda self, partitions, snapshot: None)


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
        self._state = self._state.finish(StreamOffset.from_json(end).ranges)
        self.commit()
        return end

    patch.setattr(StreamDriver, "latest", at_once)


def commit_after_losing_ownership(patch: pytest.MonkeyPatch) -> None:
    """A member whose session has ended still commits, as the JVM consumer does."""
    patch.setattr(OwnedBy, "lost", lambda self, client, group, partitions, found: set())
    patch.setattr(OwnedBy, "operations", lambda self, client, group, partitions, found: [])
    patch.setattr(StreamState, "revoke", lambda self, owned: self)


def commit_backwards(patch: pytest.MonkeyPatch) -> None:
    """A commit overwrites any stored offset, as the JVM consumer does."""
    patch.setattr(commits._Commit, "_is_kept", lambda self, partition, found: False)


def keep_claims_of_a_lost_session(patch: pytest.MonkeyPatch) -> None:
    """A member keeps its claims after its session has ended, without a check."""
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
    """A stored offset is read as one higher than it is."""
    committed = GroupOffsets.committed

    def ahead(self: Any, partitions: Any, **given: Any) -> Any:
        found = committed(self, partitions, **given)
        return {tp: replace(stored, offset=stored.offset + 1) for tp, stored in found.items()}

    patch.setattr(GroupOffsets, "committed", ahead)


def take_outdated_offsets_for_current(patch: pytest.MonkeyPatch) -> None:
    """An offset of a deleted topic applies to the new one."""
    patch.setattr(positions, "outdated", lambda stored, snapshot: set())


def begin_again_what_others_have_read(patch: pytest.MonkeyPatch) -> None:
    """A query reads its recreated topic from the beginning, although the group has read further."""
    for module in positions, resumption:
        patch.setattr(module, "is_followed", lambda *known: False)


def take_equal_offsets_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """A query does so if the group is exactly where the query was in the deleted topic."""

    def is_followed(span: PlannedRange | None, stored: StoredOffset | None, last: StoredOffset | None) -> bool:
        return span is not None and stored is not None and resume(span, stored, last) != span.until

    for module in positions, resumption:
        patch.setattr(module, "is_followed", is_followed)


def forget_losses_at_restart(patch: pytest.MonkeyPatch) -> None:
    """A query that data loss has ended continues when it is restarted."""

    def check(state: StreamState, finished: StreamOffset, *known: Any, **more: Any) -> Any:
        after, losses = check_topics(state, finished, *known, **more)
        return after, losses if state.assigned else []

    check_topics = driver.check_topics
    patch.setattr(driver, "check_topics", check)


def know_partitions_that_were_added(patch: pytest.MonkeyPatch) -> None:
    """Partitions added while a query is stopped count as known."""

    def identity_after(topic: Topic, *known: Any) -> TopicIdentity:
        return replace(checkpoint.identity_after(topic, *known), known=len(topic.partitions))

    patch.setattr(planner, "identity_after", identity_after)


def know_topics_that_were_added(patch: pytest.MonkeyPatch) -> None:
    """Topics that a pattern matches later count as known."""
    find = StreamStarts.find

    def everywhere(self: StreamStarts, gained: Any, finished: Any = None, *more: Any, **given: Any) -> Any:
        if finished is not None:
            known = {tp.topic: TopicIdentity(known=99) for tp in gained}
            finished = replace(finished, topics={**known, **finished.topics})
        return find(self, gained, finished, *more, **given)

    patch.setattr(StreamStarts, "find", everywhere)
    patch.setattr(SessionOfValues, "created_after_subscription", lambda self, partitions: set())


def know_all_partitions_of_a_topic(patch: pytest.MonkeyPatch) -> None:
    """A query that reads some partitions of a topic counts all of them as known."""

    def first_identity(topic: Topic, *known: Any) -> TopicIdentity:
        return replace(checkpoint.first_identity(topic, *known), known=len(topic.partitions))

    patch.setattr(driver, "first_identity", first_identity)


def begin_absent_partitions_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """Without a group, a partition that the checkpoint lacks starts where its log ends."""
    patch.setattr(StreamStarts, "_named", lambda self, partition: LATEST)


def ignore_marks_with_two_stores(patch: pytest.MonkeyPatch) -> None:
    """The larger of two offsets counts, and is copied to the other store, even if it is of a deleted topic."""
    patch.setattr(GroupOffsets, "_outdated", lambda self, stored: set())
    patch.setattr(StreamState, "without_resets", lambda self, partitions: [tp for tp in partitions if tp in self.assigned])


def take_two_equal_offsets_for_current(patch: pytest.MonkeyPatch) -> None:
    """An offset in Kafka counts although the one in ZooKeeper, committed with it, is of a deleted topic."""
    committed = GroupOffsets.committed

    def in_kafka(self: Any, partitions: Any, **given: Any) -> Any:
        found = committed(self, partitions, **given)
        outdated = self._outdated({tp: stored for tp, stored in found.items() if stored.mzxid is not None})
        there = self._kafka.committed(outdated) if len(self._stores) > 1 else {}
        return found | {tp: StoredOffset(offset) for tp, offset in there.items()}

    patch.setattr(GroupOffsets, "committed", in_kafka)


EVERYWHERE = KINDS[:2]
PLANTS = {
    start_new_partitions_at_the_end: EVERYWHERE,
    start_gained_partitions_at_the_end: EVERYWHERE,
    start_without_the_group: EVERYWHERE,
    start_again_later: EVERYWHERE,
    start_without_leaders: EVERYWHERE,
    compute_the_start_twice: EVERYWHERE,
    commit_what_is_planned: EVERYWHERE,
    commit_after_losing_ownership: EVERYWHERE,
    commit_backwards: EVERYWHERE,
    keep_claims_of_a_lost_session: EVERYWHERE,
    give_up_claiming: EVERYWHERE,
    trust_offsets_over_work: EVERYWHERE,
    take_outdated_offsets_for_current: ["created again"],
    begin_again_what_others_have_read: ["created again"],
    take_equal_offsets_for_its_own: ["created again"],
    forget_losses_at_restart: ["created again"],
    know_partitions_that_were_added: ["one checkpoint"],
    know_topics_that_were_added: ["by pattern"],
    know_all_partitions_of_a_topic: ["one checkpoint"],
    begin_absent_partitions_at_the_end: ["one checkpoint"],
    ignore_marks_with_two_stores: ["two stores"],
    take_two_equal_offsets_for_current: ["two stores"],
}

FOUND_LATE = (start_without_the_group, ignore_marks_with_two_stores, take_two_equal_offsets_for_current)
"""Bugs that take many schedules to find."""


@pytest.mark.parametrize("plant", [*(p for p in PLANTS if p not in FOUND_LATE), *seldom(*FOUND_LATE)])
def test_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random schedule breaks an invariant with the planted bug."""
    plant(monkeypatch)
    kinds = PLANTS[plant]
    assert any(simulate(seed, kinds[seed % len(kinds)]) for seed in range(MOST_SCHEDULES))
