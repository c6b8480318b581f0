"""Which partitions a stream reads now, how far it is in each of them, and what of that is committed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_zkafka.errors import PartitionOwned, ZKafkaError
from pyspark_zkafka.options.model import StreamOptions
from pyspark_zkafka.protocol.checkpoint import Span
from pyspark_zkafka.protocol.model import Claim, TopicPartition
from pyspark_zkafka.protocol.resumption import StoredOffset
from pyspark_zkafka.stream.positions import Gain
from pyspark_zkafka.stream.session import StreamSession
from pyspark_zkafka.stream.warnings import StreamReports, shown

__all__ = ["Held", "StreamProgress"]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Held:
    """A partition that is being read: the next offset, all before it being done, and the group's, None where unknown.

    `resets` says that the group's offset may be higher: it belongs to a log that is no more. `moved_to` is where somebody
    else has set the group's offset meanwhile, ahead of the position: that is no commit of ours, though nothing is to be
    committed until the position is there. `leader_epoch` is what the log had when it was seen to hold all records before
    the position, -1 where unknown.
    """

    generation: int
    position: int
    committed: StoredOffset | None
    resets: bool = False
    moved_to: int = -1
    leader_epoch: int = -1

    @property
    def is_due(self) -> bool:
        """Whether the position is to be committed."""
        is_stored = self.committed is not None and self.committed.offset == self.position
        return not is_stored and (self.resets or self.position >= self.moved_to)

    def span(self, until: int) -> Span:
        """From the position on, as a checkpoint tells it: where nothing was committed, the position stands for that."""
        stored = self.committed
        known = (self.position, None) if stored is None else (stored.offset, stored.mark)
        return Span(self.position, until, *known)


class StreamProgress:
    """The partitions that are held, by partition, and what this process has committed of any."""

    def __init__(self, options: StreamOptions, session: StreamSession, reports: StreamReports) -> None:
        self._group = options.group
        self._session = session
        self._reports = reports
        self.held: dict[TopicPartition, Held] = {}
        self.last_committed: dict[TopicPartition, StoredOffset] = {}

    def keep(self, owned: Mapping[TopicPartition, Claim]) -> None:
        """Hold no longer what is not owned any more, or was lost and gained again."""
        for tp in list(self.held):
            if tp not in owned or owned[tp].generation != self.held[tp].generation:
                del self.held[tp]

    def hold(self, owned: Mapping[TopicPartition, Claim], gains: Mapping[TopicPartition, Gain]) -> None:
        """Begin with partitions that were gained; or begin again, as Spark asks twice where a new query starts."""
        for tp, gain in gains.items():
            leader_epoch = self.held[tp].leader_epoch if tp in self.held else -1
            generation = owned[tp].generation
            self.held[tp] = Held(generation, gain.position, gain.committed, gain.resets, leader_epoch=leader_epoch)

    def start(self, gains: Mapping[TopicPartition, Gain]) -> None:
        """Start where the group does, with partitions of which nothing has been read yet."""
        for tp in gains.keys() & self.held.keys():
            self.held[tp].position, self.held[tp].committed = gains[tp].position, gains[tp].committed

    def drop(self, topic: str) -> None:
        """Hold nothing of a topic any more."""
        self.held = {tp: held for tp, held in self.held.items() if tp.topic != topic}

    def finish(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Move on to the end of a micro-batch that is done."""
        for tp in spans.keys() & self.held.keys():
            self.held[tp].position = spans[tp].until

    def remembered(self, partition: TopicPartition, span: Span) -> Span:
        """What is to be remembered of a partition that is not held now, from what was."""
        last = self.last_committed.get(partition)
        known = (span.committed, span.mark) if last is None else (last.offset, last.mark)
        return Span(span.until, span.until, *known)

    def commit(self) -> None:
        """Commit what is done of the partitions that are owned; errors that pass are logged, and tried again later."""
        due = {tp: held.position for tp, held in self.held.items() if held.is_due}
        if self._group is None or not due:
            return
        member = self._session.member
        owner = None if member is None else member.owner
        if member is not None and (owner is None or not member.owned()):
            return
        try:
            done = self._session.offsets.commit(due, owner, [tp for tp in due if self.held[tp].resets])
        except PartitionOwned as error:
            self._reports.warn(f"progress is not committed: {error}")
            return
        except ZKafkaError as error:
            if not error.retriable:
                raise
            _log.warning("progress could not be committed, it will be later: %s", error)
            return
        for tp, offset in {**done.kept, **done.written}.items():
            if offset != due[tp]:
                self._note_moved(tp, offset)
                continue
            stored = StoredOffset(offset, done.marks.get(tp))
            self.held[tp].committed, self.held[tp].resets = stored, False
            if tp in done.written:
                self.last_committed[tp] = stored
        if done.lost and member is not None:
            _log.warning("%s: not committed, as it is not mine any more: %s", member.consumer, shown(done.lost))
            member.look_again()

    def _note_moved(self, partition: TopicPartition, offset: int) -> None:
        held = self.held[partition]
        held.moved_to = offset
        self._reports.warn(
            f"{partition}: somebody else has set the group's offset to {offset}, and this query is at {held.position}; the "
            "query goes on there when it is started again, or gains the partition anew"
        )
