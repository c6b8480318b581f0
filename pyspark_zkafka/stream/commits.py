"""Commits of a stream's positions to its consumer group."""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyspark_zkafka.errors import PartitionOwned, ZKafkaError, listing
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.stream.planner import StreamState
from pyspark_zkafka.stream.session import StreamSession
from pyspark_zkafka.stream.warnings import StreamWarnings

__all__ = ["commit_positions", "level_stores"]

_log = logging.getLogger(__name__)


def commit_positions(state: StreamState, session: StreamSession, reports: StreamWarnings) -> StreamState:
    """Commit due positions of partitions that are owned; retriable errors are logged, and the commit is retried later."""
    due = state.due()
    member = session.member
    owner = None if member is None else member.owner
    if not due or (member is not None and (owner is None or not member.owned())):
        return state
    try:
        done = session.offsets.commit(due, owner, [tp for tp in due if state.assigned[tp].resets])
    except PartitionOwned as error:
        reports.warn(f"offsets not committed: {error}")
        return state
    except ZKafkaError as error:
        if not error.retriable:
            raise
        _log.warning("offsets not committed, retrying later: %s", error)
        return state
    if done.lost and member is not None:
        _log.warning("%s lost ownership; offsets not committed: %s", member.consumer, listing(sorted(done.lost)))
        member.request_rebalance()
    committed, moved = state.commit({**done.kept, **done.written}, done.marks, done.written)
    for tp, offset in moved.items():
        reports.warn(
            f"{tp}: another client has set the group's offset to {offset}, and this query is at "
            f"{state.assigned[tp].position}; the query continues at the group's offset when it restarts, or is "
            "assigned the partition again"
        )
    return committed


def level_stores(partitions: Collection[TopicPartition], session: StreamSession) -> None:
    """Commit the offsets of partitions just gained to the store that lags; retriable errors are logged."""
    owner = None if session.member is None else session.member.owner
    if session.member is not None and owner is None:
        return
    try:
        session.level(partitions, owner)
    except PartitionOwned:
        return  # reported by the next commit
    except ZKafkaError as error:
        if not error.retriable:
            raise
        _log.warning("a store of the group's offsets still lags: %s", error)
