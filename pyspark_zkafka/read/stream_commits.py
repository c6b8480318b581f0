"""Commits of a stream's positions to its consumer group."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark_zkafka.errors import PartitionOwned, UnknownTopic, ZKafkaError, listing
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.read.stream_planner import StreamState
from pyspark_zkafka.read.stream_session import StreamSession, StreamWarnings

if TYPE_CHECKING:
    from pyspark_zkafka.group.membership import Membership

_log = logging.getLogger(__name__)


def commit_positions(state: StreamState, session: StreamSession, reports: StreamWarnings) -> StreamState:
    """Commit due positions of owned partitions. Retriable errors are logged, and the commit is retried later.

    Partitions that were revoked and assigned again are left out: the group's offset, where the query then continues, may
    have been changed meanwhile.
    """
    due = state.due()
    member = session.member
    owner = None if member is None else member.owner
    if not due or (member is not None and (owner is None or not member.owned())):
        return state
    kept = state if member is None else state.revoke(member.owned())
    ours = {tp: offset for tp, offset in due.items() if tp in kept.assigned}
    _note_lost(due.keys() - ours.keys(), member)
    if not ours:
        return state
    from pyspark_zkafka.group.claims import proof_of  # a stream without a group loads nothing of groups

    try:
        done = session.offsets.commit(ours, proof_of(owner), [tp for tp in ours if state.assigned[tp].resets])
    except PartitionOwned as error:
        reports.warn(f"offsets not committed: {error}")
        return state
    except ZKafkaError as error:
        # A topic may be deleted after the snapshot was read, and the coordinator learns of a new one later than others.
        if not error.retriable and not isinstance(error, UnknownTopic):
            raise
        _log.warning("offsets not committed, retrying later: %s", error)
        return state
    _note_lost(done.lost, member)
    committed, moved = state.commit({**done.kept, **done.written}, done.marks, done.written)
    for tp, offset in moved.items():
        reports.warn(
            f"{tp}: another client has set the group's offset to {offset}, and this query is at "
            f"{state.assigned[tp].position}; the query continues at the group's offset when it restarts, or is "
            "assigned the partition again"
        )
    return committed


def _note_lost(partitions: Collection[TopicPartition], member: Membership | None) -> None:
    """Log that partitions are not owned any more, and have the member check what it owns."""
    if partitions and member is not None:
        _log.warning("%s lost ownership; offsets not committed: %s", member.consumer, listing(sorted(partitions)))
        member.request_rebalance()


def copy_to_lagging_store(partitions: Collection[TopicPartition], session: StreamSession) -> None:
    """Commit the offsets of partitions just gained to the store that lags; retriable errors are logged."""
    owner = None if session.member is None else session.member.owner
    if session.member is not None and owner is None:
        return
    from pyspark_zkafka.group.claims import proof_of  # see above

    try:
        session.copy_to_lagging_store(partitions, proof_of(owner))
    except PartitionOwned:
        return  # reported by the next commit
    except ZKafkaError as error:
        if not error.retriable:
            raise
        _log.warning("a store of the group's offsets still lags: %s", error)
