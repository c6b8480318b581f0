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


def commit_positions(state: StreamState, session: StreamSession, warnings: StreamWarnings) -> StreamState:
    """Commit the due positions of owned partitions. Logs retriable errors, and retries the commit later.

    Leaves out partitions that were revoked and assigned again: another client may have changed the group's offset, where
    the query continues.
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
    from pyspark_zkafka.group.claims import proof_of  # not imported by a stream without a group

    try:
        done = session.offsets.commit(ours, proof_of(owner), [tp for tp in ours if state.assigned[tp].resets])
    except PartitionOwned as error:
        warnings.warn(f"Offsets are not committed: {error}")
        return state
    except ZKafkaError as error:
        # A topic may have been deleted after the snapshot was read. The coordinator may not know a new topic yet.
        if not error.retriable and not isinstance(error, UnknownTopic):
            raise
        _log.warning("Offsets are not committed yet, retrying: %s", error)
        return state
    _note_lost(done.lost, member)
    committed, moved = state.commit({**done.kept, **done.written}, done.mzxids, done.written)
    for tp, offset in moved.items():
        warnings.warn(
            f"{tp}: another client has set the group's offset to {offset}, and this query is at "
            f"{state.assigned[tp].position}. The query continues at the group's offset when it restarts or is assigned the "
            "partition again"
        )
    return committed


def _note_lost(partitions: Collection[TopicPartition], member: Membership | None) -> None:
    """Log that partitions are no longer owned, and have the member check its claims."""
    if partitions and member is not None:
        _log.warning("%s no longer owns %s, and did not commit the offsets", member.consumer, listing(sorted(partitions)))
        member.request_rebalance()


def copy_to_lagging_store(partitions: Collection[TopicPartition], session: StreamSession) -> None:
    """Commit the offsets of newly assigned partitions to the store that lags. Logs retriable errors."""
    owner = None if session.member is None else session.member.owner
    if session.member is not None and owner is None:
        return
    from pyspark_zkafka.group.claims import proof_of

    try:
        session.copy_to_lagging_store(partitions, proof_of(owner))
    except PartitionOwned:
        return  # the next commit reports it
    except ZKafkaError as error:
        if not error.retriable:
            raise
        _log.warning("The group's offsets are not yet copied to the store that lags: %s", error)
