"""Writes of a group's offsets to ZooKeeper, in transactions that hold only if nobody has joined or committed since."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark_zkafka.errors import GroupContended, ZooKeeperError
from pyspark_zkafka.inspect.groups import Partition
from pyspark_zkafka.inspect.offsets import StoredOffsets, group_activity, offset_znode, require_inactive
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.groups import LegacyPartition
from pyspark_zkafka.retries import backoff_s
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.groups import NoMembers
from pyspark_zkafka.zookeeper.transactions import MAX_TRANSACTION_BYTES, Conflict, Create, Operation, SetData, pieces

__all__ = ["OffsetWriter"]

_ATTEMPTS = 10
_MAX_LOST = 3
_NOTHING = "nothing was written"


@dataclass(frozen=True, slots=True)
class OffsetWriter:
    """Writes offsets over those that were read.

    Each write holds for the version of the znode that was read, so no commit in between is overwritten unseen. Some 4,000
    partitions fit into one transaction, which is applied as a whole; if there are more, and a later transaction fails, the
    earlier ones stay.

    Parameters
    ----------
    client : ZooKeeperConnection
        Open.
    inactive_only : bool
        True to refuse groups with members or claims: each transaction also proves that no member is registered.
    """

    client: ZooKeeperConnection
    inactive_only: bool = True
    max_transaction_bytes: int = MAX_TRANSACTION_BYTES
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def write(
        self, group: str, offsets: Mapping[TopicPartition, int] | Mapping[Partition, int], read: StoredOffsets
    ) -> None:
        """Write the offsets, given what was read before.

        Raises
        ------
        GroupError
            The group has members, or partitions with owners.
        GroupContended
            Somebody has changed an offset since it was read.
        ZooKeeperError, ZooKeeperRefused
            No answer; an ACL denies access.
        """
        operations = {partition: self._write(group, partition, offset, read) for partition, offset in offsets.items()}
        wanted = sorted(operations, key=_order)
        for number, piece in enumerate(self._pieces(group, wanted, operations)):
            done = number and wanted.index(piece[0])
            self._apply(group, [operations[partition] for partition in piece], _progress(wanted, done))

    def _pieces(
        self, group: str, wanted: Sequence[Partition], operations: Mapping[Partition, Operation]
    ) -> list[list[Partition]]:
        def needed(partition: Partition) -> list[Operation]:
            return [*(Create(p, None) for p in _parents(group, [operations[partition]])), *proof, operations[partition]]

        proof = NoMembers(group, None, None).operations()
        return list(pieces(wanted, needed, self.client.config.chroot, self.max_transaction_bytes))

    def _apply(self, group: str, writes: Sequence[Operation], progress: str) -> None:
        lost = 0
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.sleep(backoff_s(attempt, self.jitter()))
            try:
                if lost and self._are_applied(writes):
                    return
                conflict = self._attempt(group, writes, progress)
            except ZooKeeperError as error:
                lost += 1
                if not error.retriable or lost == _MAX_LOST:
                    raise
                continue
            if conflict is None:
                return
            if conflict.operation in writes:
                raise _changed(group, conflict, progress)
        raise _changed(group, conflict, progress)

    def _attempt(self, group: str, writes: Sequence[Operation], progress: str) -> Conflict | None:
        parents = _parents(group, writes)
        proof: Sequence[Operation] = ()
        if self.inactive_only:
            no_members = NoMembers.read(self.client, group)
            require_inactive(group, group_activity(self.client, [group])[group], f"Refused, {progress}")
            proof = no_members.operations()
        existing = self.client.exists_many(parents)
        creates = [Create(path, None) for path in parents if path not in existing]
        return self.client.transact([*creates, *proof, *writes]).conflict

    def _are_applied(self, writes: Sequence[Operation]) -> bool:
        """True if a transaction whose answer was lost has been applied: each znode is as it left it."""
        nodes = self.client.get_many(write.path for write in writes)
        return all(write.path in nodes and _is_applied(write, nodes[write.path].data) for write in writes)

    def _write(self, group: str, partition: Partition, offset: int, read: StoredOffsets) -> Operation:
        path, data = offset_znode(group, partition), group_znodes.encode_offset(offset)
        version = read.versions.get(partition)
        return Create(path, data) if version is None else SetData(path, data, version)


def _order(partition: Partition) -> tuple[str, int, int]:
    broker = partition.broker if isinstance(partition, LegacyPartition) else -1
    return partition.topic, broker, partition.partition


def _parents(group: str, writes: Sequence[Operation]) -> list[str]:
    above = [group_znodes.CONSUMERS, group_znodes.group_path(group), group_znodes.offsets_path(group)]
    return [*above, *dict.fromkeys(write.path.rpartition("/")[0] for write in writes)]


def _is_applied(write: Operation, data: bytes | None) -> bool:
    return isinstance(write, (Create, SetData)) and write.data == data


def _progress(wanted: Sequence[Partition], done: int) -> str:
    if not done:
        return _NOTHING
    last = f"{wanted[done - 1].topic}-{wanted[done - 1].partition}"
    return f"the first {done} of {len(wanted)} partitions, up to {last}, are written, the others are not"


def _changed(group: str, conflict: Conflict | None, progress: str) -> GroupContended:
    found = "" if conflict is None else f" ({conflict.operation.path}: {conflict.reason.value})"
    return GroupContended(
        "OFFSETS_CHANGED",
        f"The offsets of group {group} were changed by somebody else since they were read{found}; {progress}; find out who "
        "commits for this group, and run this again",
        group=group,
    )
