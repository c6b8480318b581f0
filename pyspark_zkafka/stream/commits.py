"""Commits of a stream's positions to its consumer group."""

from __future__ import annotations

import logging

from pyspark_zkafka.errors import PartitionOwned, ZKafkaError, listing
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.stream.planner import StreamState
from pyspark_zkafka.stream.session import StreamSession
from pyspark_zkafka.stream.warnings import StreamWarnings

__all__ = ["StreamCommits"]

_log = logging.getLogger(__name__)


class StreamCommits:
    """Commits the positions of the partitions that are owned; does nothing for a stream without a group."""

    def __init__(self, options: StreamOptions, session: StreamSession, reports: StreamWarnings) -> None:
        self._group = options.group
        self._session = session
        self._reports = reports

    def commit(self, state: StreamState) -> StreamState:
        """Commit due positions and return the new state; retriable errors are logged, and the commit is retried later."""
        due = state.due()
        if self._group is None or not due:
            return state
        member = self._session.member
        owner = None if member is None else member.owner
        if member is not None and (owner is None or not member.owned()):
            return state
        try:
            done = self._session.offsets.commit(due, owner, [tp for tp in due if state.assigned[tp].resets])
        except PartitionOwned as error:
            self._reports.warn(f"offsets not committed: {error}")
            return state
        except ZKafkaError as error:
            if not error.retriable:
                raise
            _log.warning("offsets not committed, retrying later: %s", error)
            return state
        if done.lost and member is not None:
            _log.warning("%s lost ownership; offsets not committed: %s", member.consumer, listing(sorted(done.lost)))
            member.look_again()
        committed, moved = state.commit({**done.kept, **done.written}, done.marks, done.written)
        for tp, offset in moved.items():
            self._reports.warn(
                f"{tp}: another client has set the group's offset to {offset}, and this query is at "
                f"{state.assigned[tp].position}; the query continues at the group's offset when it restarts, or is "
                "assigned the partition again"
            )
        return committed
